"""Quantities that must not be confused, and how people write them.

Arithmetic is done in base units only (bytes, operations per second, bytes per second, seconds,
US dollars per month of 730 hours); text such as ``500GiB`` is read and written here alone.
"""

import re
from typing import NewType

Bytes = NewType("Bytes", int)
Iops = NewType("Iops", float)
BytesPerSecond = NewType("BytesPerSecond", float)
Seconds = NewType("Seconds", float)
UsdMonth = NewType("UsdMonth", float)

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4
BLOCK_BYTES = 8192  # PostgreSQL's default BLCKSZ; the server's own is in its settings
HOURS_PER_MONTH = 730  # AWS's billing month

_SIZE_UNITS = {
    "B": 1,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}
_SECONDS_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 7 * 86400.0,
    "mo": 730 * 3600.0,  # a month as AWS bills it
    "y": 12 * 730 * 3600.0,
}
_QUANTITY = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*$")


_SHOWN = 40  # characters of what is no quantity
_MOST_BYTES = 2.0**53  # 8 PiB, which floats count exactly
_MOST_SECONDS = 100 * 12 * 730 * 3600.0


def _split(
    text: str, units: dict[str, int] | dict[str, float], what: str, example: str, most: float
) -> float:
    match = _QUANTITY.match(text)
    shown = repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
    if match is None or match[2] not in units:
        raise ValueError(f"{shown} is not {what}; write it like {example}")
    value = float(match[1]) * units[match[2]]
    if value > most:
        raise ValueError(
            f"{shown} is more than any volume or server knows; write it like {example}"
        )
    return value


def parse_size(text: str) -> Bytes:
    """Read a size with its unit.

    >>> parse_size("1.5GiB")
    1610612736
    """
    return Bytes(round(_split(text, _SIZE_UNITS, "a size", "500GiB", _MOST_BYTES)))


def parse_rate(text: str) -> BytesPerSecond:
    """Read a bandwidth with its unit.

    >>> parse_rate("250MiB/s")
    262144000.0
    """
    if not text.rstrip().endswith("/s"):
        raise ValueError(f"{text[:_SHOWN]!r} is not a bandwidth; write it like 250MiB/s")
    return BytesPerSecond(
        _split(
            text.rstrip().removesuffix("/s"), _SIZE_UNITS, "a bandwidth", "250MiB/s", _MOST_BYTES
        )
    )


def parse_duration(text: str) -> Seconds:
    """Read a duration with its unit.

    >>> parse_duration("5ms")
    0.005
    """
    example = "5ms, 30s or 10min"
    return Seconds(_split(text, _SECONDS_UNITS, "a duration", example, _MOST_SECONDS))


def _number(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_size(size: float) -> str:
    """Write a size in the largest binary unit that keeps it at 1 or more.

    >>> format_size(500 * 1024**3)
    '500 GiB'
    """
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size) >= factor:
            return f"{_number(size / factor)} {unit}"
    return f"{_number(size)} B"


def format_rate(rate: float) -> str:
    """Write a bandwidth.

    >>> format_rate(125 * 1024**2)
    '125 MiB/s'
    """
    return f"{format_size(rate)}/s"


def format_exact_size(size: int) -> str:
    """Write a size so that :func:`parse_size` gives the same bytes back, for files.

    >>> format_exact_size(500 * 1024**3), format_exact_size(1025), format_exact_size(118 * 10**9)
    ('500GiB', '1025B', '118GB')
    """
    ways = [
        f"{size // factor}{unit}"
        for unit, factor in _SIZE_UNITS.items()
        if size >= factor and size % factor == 0
    ]
    # a decimal unit where a binary one would be longer by some digits
    return min(ways, key=lambda text: len(text) + (0 if "i" in text else 2), default=f"{size}B")


def format_duration(seconds: float) -> str:
    """Write a duration in the unit a person would pick.

    >>> format_duration(300e-6), format_duration(0.0018), format_duration(90)
    ('300 µs', '1.8 ms', '1 min 30 s')
    >>> format_duration(59.99), format_duration(3600), format_duration(7320)
    ('1 min', '1 h', '2 h 2 min')
    >>> format_duration(12 * 730 * 3600)
    '365 days'
    """
    if seconds < 1e-3:
        return f"{_number(seconds * 1e6, 0)} µs"
    if seconds < 1:
        return f"{_number(seconds * 1e3)} ms"
    if round(seconds, 1) < 60:
        return f"{_number(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole >= 3 * 86400:
        return f"{whole / 86400:,.0f} days"
    minutes = whole % 3600 // 60
    return f"{whole // 3600} h {minutes} min" if minutes else f"{whole // 3600} h"


def format_usd(dollars: float | None) -> str:
    """Write a monthly price; an unknown price is "unknown", never 0.

    >>> format_usd(60), format_usd(None)
    ('$60.00', 'unknown')
    """
    return "unknown" if dollars is None else f"${dollars:,.2f}"
