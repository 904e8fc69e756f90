"""What people write in the options of ``pgstow plan``, as a goal."""

from typing import TYPE_CHECKING

from pgstow.cli.options import parse_quantity, parse_seconds
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence


_MOST = 1e9  # transactions a second, or times those observed: no server comes near


def milliseconds(text: str | None, option: str) -> float | None:
    """A latency such as ``5ms``."""
    if text is None:
        return None
    value = parse_seconds(text, option) * 1000
    if value <= 0:
        raise UserError(f"{option}: {text} is no latency", "write it like 5ms")
    return value


def transactions(text: str | None, observed: float) -> float | None:
    """Read ``2500`` or ``4x``, the latter of what was observed."""
    if text is None:
        return None
    number = text.removesuffix("x")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value <= _MOST:
        raise UserError(f"--tps: {text!r} is not a rate", "write it like 2500, or 4x")
    return value * observed if text.endswith("x") else value


def backup_bytes(text: str | None) -> int | None:
    """The size of a volume for backups."""
    found = size_bytes(text, "--backup")
    if found == 0:
        raise UserError(
            "--backup: a volume for backups of no size cannot be bought",
            "give what the backups take, such as 200GiB, or leave it out",
        )
    return found


def size_bytes(text: str | None, option: str) -> int | None:
    """A size such as ``500GiB``; 0 needs no unit."""
    from pgstow.units import parse_size

    if text is None:
        return None
    return 0 if text.strip() == "0" else parse_quantity(text, option, parse_size)


def horizon_seconds(text: str | None) -> float | None:
    """How far ahead, such as ``12mo``."""
    if text is None:
        return None
    value = parse_seconds(text, "--horizon")
    if not 0 < value <= 20 * 365.25 * 86400:
        raise UserError(
            f"--horizon: {text} is no time to plan for", "write it like 12mo, 90d or 2y"
        )
    return value


def share(text: str | None, option: str) -> float | None:
    """A probability, as ``0.5%`` or ``0.005``."""
    if text is None:
        return None
    number, factor = (text[:-1], 0.01) if text.endswith("%") else (text, 1.0)
    try:
        value = float(number) * factor
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UserError(f"{option}: {text!r} is no share", "write it like 0.5% or 0.005")
    return value


def pins(texts: "Sequence[str] | None") -> tuple[tuple[str, str], ...]:
    """``RELATION=VOLUME``; a name with an equals sign stands in double quotes.

    >>> pins(['orders=fast', 'public."odd=name"=gp3'])
    (('orders', 'fast'), ('public."odd=name"', 'gp3'))
    """
    found = []
    for text in texts or ():
        what, equals, where = text.rpartition("=")
        if not equals or not what or not where or where.endswith('"'):
            raise UserError(
                f"--pin: {text!r} does not say what is placed where",
                "write it like orders=fast, 'old_*=st1' or wal=io2",
            )
        found.append((what, where))
    return tuple(found)
