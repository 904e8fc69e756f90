"""Which server settings pgstow sets, and when two ways of writing a value mean the same.

The list is closed on purpose: what trades durability for speed, or reaches beyond storage, is not
pgstow's to change.
"""

from typing import Literal

from pgstow.model import LayoutError

SettingKind = Literal["integer", "real", "text", "boolean", "kB", "8kB", "MB", "ms", "us", "s"]

# Name to kind; of a unit, the one that a bare number means (pg_settings.unit).
SETTINGS: dict[str, SettingKind] = {
    "backend_flush_after": "8kB",
    "bgwriter_delay": "ms",
    "bgwriter_flush_after": "8kB",
    "bgwriter_lru_maxpages": "integer",
    "bgwriter_lru_multiplier": "real",
    "checkpoint_completion_target": "real",
    "checkpoint_flush_after": "8kB",
    "checkpoint_timeout": "s",
    "commit_delay": "integer",
    "commit_siblings": "integer",
    "effective_cache_size": "8kB",
    "effective_io_concurrency": "integer",
    "hash_mem_multiplier": "real",
    "io_combine_limit": "8kB",
    "io_max_combine_limit": "8kB",
    "io_max_concurrency": "integer",
    "io_method": "text",
    "io_workers": "integer",
    "maintenance_io_concurrency": "integer",
    "maintenance_work_mem": "kB",
    "max_wal_size": "MB",
    "min_wal_size": "MB",
    "random_page_cost": "real",
    "seq_page_cost": "real",
    "shared_buffers": "8kB",
    "temp_buffers": "8kB",
    "temp_file_limit": "kB",
    "track_io_timing": "boolean",
    "track_wal_io_timing": "boolean",
    "wal_buffers": "8kB",
    "wal_compression": "text",
    "wal_init_zero": "boolean",
    "wal_keep_size": "MB",
    "wal_recycle": "boolean",
    "wal_writer_delay": "ms",
    "wal_writer_flush_after": "8kB",
    "work_mem": "kB",
}

# Those the server reads only when it starts (pg_settings.context = 'postmaster').
RESTART_SETTINGS = frozenset(
    {
        "io_max_combine_limit",
        "io_max_concurrency",
        "io_method",
        "shared_buffers",
        "wal_buffers",
    }
)

_UNSAFE = frozenset({"fsync", "full_page_writes", "synchronous_commit", "data_checksums"})
_ELSEWHERE = {"temp_tablespaces": "name the volumes in postgres.temp instead"}

_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4, "8kB": 8192}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TRUE = frozenset({"on", "true", "yes", "1"})
_FALSE = frozenset({"off", "false", "no", "0"})


def check_setting(name: str) -> None:
    """Refuse a setting that pgstow does not set, and say why."""
    if name in _UNSAFE:
        raise LayoutError(
            f"setting {name} trades durability for speed, and pgstow does not touch it",
            "take it out of [postgres.settings]",
        )
    if name in _ELSEWHERE:
        raise LayoutError(f"setting {name} is not set by name", _ELSEWHERE[name])
    if name not in SETTINGS:
        raise LayoutError(
            f"setting {name!r} is not a storage setting that pgstow sets",
            "take it out of [postgres.settings] and set it by hand",
        )


def same_value(name: str, one: str, other: str) -> bool:
    """Whether two texts mean the same value of a setting.

    >>> same_value("max_wal_size", "1024", "1GB"), same_value("random_page_cost", "1.10", "1.1")
    (True, True)
    """
    return _canonical(name, one) == _canonical(name, other)


def _canonical(name: str, text: str) -> object:
    kind = SETTINGS.get(name, "text")
    text = text.strip()
    if kind == "boolean":
        lowered = text.lower()
        return True if lowered in _TRUE else False if lowered in _FALSE else lowered
    if kind == "text":
        return text.lower()
    number, unit = _split_number(text)
    if number is None:
        return text.lower()
    if kind in _BYTES:
        factor: float | None = _BYTES.get(unit or kind)
    elif kind in _TIMES:
        factor = _TIMES.get(unit or kind)
    else:
        factor = 1 if not unit else None
    if factor is None:
        return text.lower()
    return round(number * factor, 9) if number >= 0 else number  # -1 has a meaning of its own


def _split_number(text: str) -> tuple[float | None, str]:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    try:
        return float(digits), text[len(digits) :].strip()
    except ValueError:
        return None, ""


def split_names(text: str) -> tuple[str, ...]:
    """Read a list of identifiers as SHOW prints one; empty names are dropped.

    >>> split_names('fast, "odd ""name"" "'), split_names('""')
    (('fast', 'odd "name" '), ())
    """
    names: list[str] = []
    current, quoted, position = "", False, 0
    while position < len(text):
        character = text[position]
        if quoted and character == '"' and text[position + 1 : position + 2] == '"':
            current += '"'
            position += 1
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            names.append(current)
            current = ""
        elif quoted or not character.isspace():
            current += character
        position += 1
    return tuple(name for name in [*names, current] if name)
