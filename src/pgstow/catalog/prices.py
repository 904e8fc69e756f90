"""What a volume costs a month, line by line."""

from itertools import pairwise

from pgstow.catalog.limits import member_iops
from pgstow.catalog.managed import as_sold
from pgstow.catalog.types import TypePrice, VolumeType, gib
from pgstow.model import Price, Volume
from pgstow.units import MIB

Line = tuple[str, float]


def volume_price(kind: VolumeType, volume: Volume, region: str | None) -> Price:
    """The price of every member of a volume; unknown where the region's prices are not known."""
    kind = as_sold(kind, volume)
    price = kind.price_in(region)
    if price is None:
        return Price(None)
    if price.is_included:
        return Price(0.0, ((f"{kind.name}: included in the instance's price", 0.0),))
    lines = _size_line(volume, price)
    if lines is None or not is_known(kind, volume, price):
        return Price(None)
    times = f"{volume.stripes} × " if volume.stripes > 1 else ""
    every = [lines, *_iops_lines(kind, volume, price), *_throughput_lines(kind, volume, price)]
    counted = tuple((times + text, usd * volume.stripes) for text, usd in every)
    return Price(round(sum(usd for _, usd in counted), 6), counted)


def is_known(kind: VolumeType, volume: Volume, price: TypePrice) -> bool:
    """Whether all that the volume provisions has a known price: what is unknown is not free."""
    iops = member_iops(kind, volume)
    if kind.provisioned_iops and iops is not None and iops > (kind.included_iops or 0.0):
        known_to = price.iops_known_to if price.iops_known_to is not None else iops
        if not price.iops_tiers or iops > known_to:
            return False
    included = kind.included_throughput or 0.0
    is_over = volume.throughput is not None and volume.throughput > included
    return not (kind.provisioned_throughput and is_over and price.usd_per_mibps is None)


def _size_line(volume: Volume, price: TypePrice) -> Line | None:
    if price.usd_per_gib is None:
        return None
    size = gib(volume.size_bytes)
    return f"{_number(size)} GiB × {format_unit_price(price.usd_per_gib)}", size * price.usd_per_gib


def _iops_lines(kind: VolumeType, volume: Volume, price: TypePrice) -> list[Line]:
    """A line for each tier that the volume's IOPS reach."""
    iops = member_iops(kind, volume)
    if not kind.provisioned_iops or iops is None:
        return []
    lines = []
    ends = [*(tier.over_iops for tier in price.iops_tiers), float("inf")]
    for tier, (low, high) in zip(price.iops_tiers, pairwise(ends), strict=True):
        count = min(iops, high) - low
        if count > 0:
            over = f" over {_number(low)}" if low else ""
            lines.append(
                (f"{_number(count)} IOPS{over} × {format_unit_price(tier.usd)}", count * tier.usd)
            )
    return lines


def _throughput_lines(kind: VolumeType, volume: Volume, price: TypePrice) -> list[Line]:
    included = kind.included_throughput
    if volume.throughput is None or price.usd_per_mibps is None or included is None:
        return []
    count = (volume.throughput - included) / MIB
    if count <= 0:
        return []
    unit = format_unit_price(price.usd_per_mibps)
    text = f"{_number(count)} MiB/s over {_number(included / MIB)} × {unit}"
    return [(text, count * price.usd_per_mibps)]


def format_unit_price(usd: float) -> str:
    """Write the price of one unit with at least two decimals and all that it has.

    >>> format_unit_price(0.1), format_unit_price(0.03185)
    ('$0.10', '$0.03185')
    """
    whole, _, decimals = f"{usd:.6f}".partition(".")
    return f"${whole}.{decimals.rstrip('0'):0<2}"


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def total(prices: list[tuple[str, Price]]) -> Price:
    """The sum over named volumes; unknown as soon as one is."""
    lines = tuple((f"{name}: {text}", usd) for name, one in prices for text, usd in one.lines)
    if any(one.usd_month is None for _, one in prices):
        return Price(None, lines)
    return Price(round(sum(one.usd_month or 0.0 for _, one in prices), 6), lines)
