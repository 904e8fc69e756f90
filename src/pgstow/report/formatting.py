"""Figures as the page writes them: three significant digits, units, and a dash for the unknown."""

import math
from datetime import datetime

from pgstow.units import format_duration, format_size, format_usd

UNKNOWN = "–"


def number(value: float | None) -> str:
    """A figure with about three significant digits and thousands apart.

    >>> number(4312.7), number(31.24), number(0.04567), number(0), number(None)
    ('4,313', '31.2', '0.046', '0', '–')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return _trim(f"{value:.1f}")
    if size >= 1:
        return _trim(f"{value:.2f}")
    return _trim(f"{value:.2g}") if size >= 0.001 else ("0" if value == 0 else "< 0.001")


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def milliseconds(value: float | None) -> str:
    """A latency given in milliseconds.

    >>> milliseconds(31.04), milliseconds(0.4)
    ('31 ms', '0.4 ms')
    """
    return UNKNOWN if value is None else f"{number(value)} ms"


def times(ratio: float) -> str:
    """A ratio that a person would say: at least 10 without decimals.

    >>> times(4.31), times(12.6)
    ('4.3 ×', '13 ×')
    """
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def percent(share: float | None) -> str:
    """A share of one, in percent.

    >>> percent(0.973)
    '97 %'
    """
    return UNKNOWN if share is None else f"{share * 100:.0f} %"


def signed_percent(value: float | None) -> str:
    """A change in percent with its sign.

    >>> signed_percent(-7.25), signed_percent(0.04), signed_percent(194.2)
    ('−7.2 %', '0.0 %', '+194 %')
    """
    if value is None:
        return UNKNOWN
    text = f"{abs(value):.1f} %" if abs(value) < 99.95 else f"{abs(value):,.0f} %"
    if text == "0.0 %":
        return text
    return ("−" if value < 0 else "+") + text


def usd(value: float | None) -> str:
    """Dollars; unknown as a dash."""
    return UNKNOWN if value is None else format_usd(value)


def size(value: float | None) -> str:
    """A size; unknown as a dash."""
    return UNKNOWN if value is None else format_size(value)


def rate(value: float | None) -> str:
    """A bandwidth; unknown as a dash.

    >>> rate(125 * 1024**2)
    '125 MiB/s'
    """
    return UNKNOWN if value is None else f"{format_size(value)}/s"


def duration(value: float | None) -> str:
    """A duration; unknown as a dash."""
    return UNKNOWN if value is None else format_duration(value)


def moment(text: str) -> str:
    """A time in ISO 8601 as people read it, to the minute; other text as it is.

    >>> moment("2026-11-20T12:00:00.123+00:00")
    '2026-11-20 12:00 UTC'
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when:%Y-%m-%d %H:%M}{zone}"


def quantity(value: float | None, unit: str) -> str:
    """A figure with the unit of a comparison.

    >>> quantity(12.5, "$"), quantity(3.25, "ms"), quantity(812.2, "per second")
    ('$12.50', '3.25 ms', '812 per second')
    """
    if value is None:
        return UNKNOWN
    return usd(value) if unit == "$" else f"{number(value)} {unit}"


def shortened(text: str, length: int) -> str:
    """A name in at most ``length`` characters, its middle left out, on one line.

    >>> shortened("analytics_events_by_day_and_author", 16)
    'analyti…d_author'
    """
    clean = visible(text)
    if len(clean) <= length:
        return clean
    if length < 4:
        return clean[: max(0, length - 1)] + "…"
    head = (length - 1) // 2
    return f"{clean[:head]}…{clean[-(length - 1 - head) :]}"


_CONTROLS = {code: "␊" if chr(code) == "\n" else chr(0x2400 + code) for code in range(0x20)} | {
    0x7F: "␡"
}
# Bidirectional controls could make a name read as another; lone surrogates cannot be written.
_HIDING = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_CONTROLS |= dict.fromkeys(_HIDING, "�")


def visible(text: str) -> str:
    """Text on one line in which nothing hides.

    >>> visible("a\\nb")
    'a␊b'
    """
    return text.translate(_CONTROLS)


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "block"), counted(12, "block")
    ('1 block', '12 blocks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
