"""What can be known to go wrong before anything is changed: directories, mounts, free space."""

from collections.abc import Sequence

from pgstow.apply import looks
from pgstow.apply.context import Context
from pgstow.host import directories
from pgstow.model import HostError, ServerState, Step, UserError, Warning
from pgstow.units import MIB, format_size

# A copy needs its size and some slack; an index that is rebuilt also sorts.
COPY_SPACE = 1.2
REBUILD_SPACE = 2.0
_SLACK_BYTES = 16 * MIB


def check(context: Context, steps: Sequence[Step]) -> tuple[Warning, ...]:
    """Refuse what cannot work; warn of what only the server's own machine can tell."""
    for step in steps:
        if step.kind in ("set setting", "set temp tablespaces"):
            looks.setting(context, dict(step.arguments).get("setting", "temp_tablespaces"))
            _check_reload(context)
    if not context.state.is_local:
        return _by_hand(steps)
    for step in steps:
        if step.kind == "create tablespace":
            check_directory(context, step)
    _check_space(context, steps)
    return _wal_space(context.state, steps)


def _check_reload(context: Context) -> None:
    if not context.server.may_reload():
        raise UserError(
            "the role may not reload the configuration, without which a setting has no effect",
            "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO the role, or connect as a superuser",
        )


def check_directory(context: Context, step: Step) -> None:
    """Refuse a tablespace directory that PostgreSQL cannot or should not have."""
    location, mount = step.argument("location"), dict(step.arguments).get("mount") or None
    if mount is not None and not context.options.plain_directories:
        directories.check_mounted(mount, f"the volume of tablespace {step.subject!r}")
    directories.check_tablespace_directory(location, mount, context.state.data_directory)


def needed_bytes(step: Step, size_bytes: int) -> int:
    """What must be free on the target before a move."""
    factor = REBUILD_SPACE if ("method", "reindex") in step.arguments else COPY_SPACE
    return round(size_bytes * factor) + _SLACK_BYTES


def check_target_space(context: Context, step: Step, location: str, size_bytes: int) -> None:
    """Refuse a move its target has no space for, as it is now."""
    free = directories.free_bytes(location) if context.state.is_local else None
    needed = needed_bytes(step, size_bytes)
    if free is not None and free < needed:
        raise _too_small(step, location, needed, free)


def _check_space(context: Context, steps: Sequence[Step]) -> None:
    """Go through the moves in order: each takes space at its target, frees some at its source."""
    locations = {t.name: t.location for t in context.state.tablespaces}
    locations["pg_default"] = context.state.data_directory
    locations |= {s.subject: s.argument("location") for s in steps if s.kind == "create tablespace"}
    free: dict[int, int] = {}
    for step in steps:
        if step.kind not in ("move index", "move table"):
            continue
        target, source = locations.get(step.argument("to")), locations.get(step.argument("from"))
        device = directories.filesystem_id(target) if target else None
        if target is None or device is None:
            continue
        if device not in free:
            known = directories.free_bytes(target)
            if known is None:
                continue
            free[device] = known
        needed = needed_bytes(step, step.bytes)
        if free[device] < needed:
            raise _too_small(step, target, needed, free[device])
        free[device] -= step.bytes
        left = directories.filesystem_id(source) if source else None
        if left in free:
            free[left] += step.bytes


def _too_small(step: Step, location: str, needed: int, free: int) -> HostError:
    return HostError(
        f"{location} has {format_size(free)} free, and moving {step.subject} needs "
        f"{format_size(needed)}",
        "make the volume larger, or move less to it",
    )


def _wal_space(state: ServerState, steps: Sequence[Step]) -> tuple[Warning, ...]:
    """WAL that a standby or an archive holds back piles up; a full pg_wal stops a server."""
    wal = sum(step.wal_bytes for step in steps)
    free = directories.free_bytes(state.wal_directory) if state.wal_directory else None
    archives = state.setting("archive_mode") not in (None, "off")
    if free is None or wal <= free or not (archives or state.standbys):
        return ()
    return (
        Warning(
            "wal-space",
            f"the moves write {format_size(wal)} of WAL, and {state.wal_directory} has "
            f"{format_size(free)} free; if archiving or a standby falls behind, it fills up",
            "watch it, or move less at a time",
        ),
    )


def _by_hand(steps: Sequence[Step]) -> tuple[Warning, ...]:
    return tuple(
        Warning(
            "directory-by-hand",
            f"the server's machine cannot be seen from here: {step.argument('location')} must "
            "exist there, empty, on its volume, owned by the server's user",
            f"on that machine: install -d -m 700 -o postgres {step.argument('location')}",
        )
        for step in steps
        if step.kind == "create tablespace"
    )
