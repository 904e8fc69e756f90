"""What ``pgstow explain`` is asked to suppose: other loads on the volumes, another memory."""

from typing import TYPE_CHECKING

from pgstow.cli.options import parse_quantity
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.model import Profile
    from pgstow.prediction import CacheSize, OpenLoad

_MOST_BYTES_PER_S = 16 * 2**30  # as much as RDS makes of four volumes
_HOW = "write it like --beside data=100MiB/s, which is read, or --beside data=20MiB/s:written"


def open_loads(texts: "Sequence[str]") -> "tuple[OpenLoad, ...]":
    """Loads beside the clients': a backup that reads a volume, a replica's replay that writes one.

    ``VOLUME=RATE`` is read from one end to the other, ``VOLUME=RATE:written`` written.
    """
    return tuple(_open_load(text) for text in texts)


def _open_load(text: str) -> "OpenLoad":
    from pgstow.prediction import SEQUENTIAL_READ_BYTES, OpenLoad
    from pgstow.units import format_rate, parse_rate

    volume, equals, asked = text.rpartition("=")
    rate, colon, how = asked.partition(":")
    if not (volume and equals) or (colon and how != "written"):
        raise UserError(f"--beside {text}: not a load beside the clients'", _HOW)
    bytes_per_s = parse_quantity(rate, "--beside", parse_rate)
    if bytes_per_s <= 0:
        raise UserError(f"--beside {text}: nothing is asked", _HOW)
    if bytes_per_s > _MOST_BYTES_PER_S:
        most = format_rate(_MOST_BYTES_PER_S)
        raise UserError(f"--beside {text}: over {most}, which is more than any volume does", _HOW)
    per_second = bytes_per_s / SEQUENTIAL_READ_BYTES
    return OpenLoad(volume, per_second, SEQUENTIAL_READ_BYTES, writes=bool(colon))


def cache_size(text: str | None, profile: "Profile") -> "CacheSize | None":
    """The caches that another memory would give, beside the present ones."""
    from pgstow import planning
    from pgstow.units import parse_size

    if text is None:
        return None
    target_bytes = parse_quantity(text, "--memory", parse_size)
    if target_bytes <= 0:
        raise UserError(f"--memory {text}: no server runs without", "write it like 64GiB")
    return planning.cache_of(target_bytes, profile)
