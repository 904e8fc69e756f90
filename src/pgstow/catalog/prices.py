"""What a volume costs a month, line by line."""

from pgstow.catalog.managed import as_sold
from pgstow.catalog.types import VolumeType, gib
from pgstow.model import Price, Volume
from pgstow.rules import ProvisionedVolume, VolumeRules
from pgstow.units import MIB

Line = tuple[str, float]


def volume_price(volume_type: VolumeType, volume: Volume, region: str | None) -> Price:
    """The price of every member of a volume; unknown where the region's prices are not known."""
    volume_type = as_sold(volume_type, volume)
    rules, price = volume_type.rules(region), volume_type.price_in(region)
    one = has(rules, volume)
    usd = rules.usd_month(one)
    if price is None or usd is None:
        return Price(None)
    if price.is_included:
        return Price(0.0, ((f"{volume_type.name}: included in the instance's price", 0.0),))
    times = f"{volume.stripes} × " if volume.stripes > 1 else ""
    every = [*_size_lines(rules, one), *_iops_lines(rules, one), *_throughput_lines(rules, one)]
    counted = tuple((times + text, usd * volume.stripes) for text, usd in every)
    return Price(round(usd * volume.stripes, 6), counted)


def has(rules: VolumeRules, volume: Volume) -> ProvisionedVolume:
    """What one member of a volume has; what has no limit costs nothing and is 0."""
    size = volume.size_bytes
    return ProvisionedVolume(
        size,
        rules.iops_of(size, volume.iops) or 0.0,
        rules.throughput_of(size, volume.iops, volume.throughput) or 0.0,
    )


def _size_lines(rules: VolumeRules, one: ProvisionedVolume) -> list[Line]:
    size = gib(one.size_bytes)
    text = f"{_number(size)} GiB × {format_unit_price(rules.usd_per_gib)}"
    lines = [(text, size * rules.usd_per_gib)]
    fixed = 0.0 if rules.price is None else rules.price.usd_fixed
    if fixed:
        lines.append(("with any size", fixed))
    return lines


def _iops_lines(rules: VolumeRules, one: ProvisionedVolume) -> list[Line]:
    """A line for each tier that the volume's IOPS reach."""
    if not rules.iops.is_provisioned:
        return []
    lines = []
    for tier, end in rules.tiers(one.iops):
        count, low = min(one.iops, end) - tier.over_iops, tier.over_iops
        over = f" over {_number(low)}" if low else ""
        text = f"{_number(count)} IOPS{over} × {format_unit_price(tier.usd)}"
        lines.append((text, count * tier.usd))
    return lines


def _throughput_lines(rules: VolumeRules, one: ProvisionedVolume) -> list[Line]:
    """A line for what is over the throughput included, in the provider's unit."""
    rule, usd = rules.throughput, rules.usd_per_mibps
    included = rule.included or 0.0
    count = (one.bytes_per_s - included) / rule.step
    if not rule.is_provisioned or count <= 0:
        return []
    each = usd * rule.step / MIB
    over = f" over {_number(included / rule.step)}" if included else ""
    text = f"{_number(count)} {rule.unit}{over} × {format_unit_price(each)}"
    return [(text, count * each)]


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
