"""Volumes that a provider makes of several by itself: RDS stripes over four from 400 GiB.

The rules of such a type are those of one member. What is bought is the whole: its limits are all
members' together, and the device below it is a stripe.
"""

from dataclasses import replace

from pgstow.catalog.types import (
    BurstRule,
    IopsRule,
    PriceTier,
    ThroughputRule,
    TypePrice,
    VolumeType,
)
from pgstow.model import Volume
from pgstow.units import Bytes, BytesPerSecond, Iops


def members(kind: VolumeType, volume: Volume) -> int:
    """Of how many volumes the provider makes this one."""
    rule = kind.stripe_rule
    return rule.members if rule is not None and volume.size_bytes >= rule.from_bytes else 1


def as_striped(kind: VolumeType, volume: Volume) -> Volume:
    """What the provider makes of it: more members, each with its part of the size and limits."""
    count = members(kind, volume)
    if count == 1:
        return volume
    return replace(
        volume,
        size_bytes=Bytes(volume.size_bytes // count),
        iops=None if volume.iops is None else Iops(volume.iops / count),
        throughput=None if volume.throughput is None else _times(volume.throughput, 1 / count),
        stripes=volume.stripes * count,
    )


def as_sold(kind: VolumeType, volume: Volume) -> VolumeType:
    """The type with the limits and prices of all the members together."""
    count = members(kind, volume)
    if count == 1:
        return kind
    return replace(
        kind,
        iops_rule=_iops(kind.iops_rule, count),
        throughput_rule=_throughput(kind.throughput_rule, count),
        burst_rule=None if kind.burst_rule is None else _burst(kind.burst_rule, count),
        prices={region: _price(price, count) for region, price in kind.prices.items()},
    )


def _times(rate: BytesPerSecond, count: float) -> BytesPerSecond:
    return BytesPerSecond(rate * count)


def _scaled(limit: float | None, count: int) -> float | None:
    return None if limit is None else limit * count


def _rate(limit: BytesPerSecond | None, count: int) -> BytesPerSecond | None:
    return None if limit is None else _times(limit, count)


def _iops(rule: IopsRule, count: int) -> IopsRule:
    """A least that comes with each member is all members'; one that is bought is the whole's."""
    is_given = rule.per_gib is not None or rule.included is not None
    return replace(
        rule,
        included=_scaled(rule.included, count),
        min=_scaled(rule.min, count) if is_given else rule.min,
        max=_scaled(rule.max, count),
    )


def _throughput(rule: ThroughputRule, count: int) -> ThroughputRule:
    return replace(
        rule,
        included=_rate(rule.included, count),
        min=_rate(rule.min, count),
        max=_rate(rule.max, count),
        by_iops=tuple(replace(p, max=_times(p.max, count)) for p in rule.by_iops),
        by_size=tuple(
            replace(s, to_bytes=Bytes(s.to_bytes * count), limit=_times(s.limit, count))
            for s in rule.by_size
        ),
    )


def _burst(rule: BurstRule, count: int) -> BurstRule:
    return replace(rule, capacity=_scaled(rule.capacity, count), rate=_scaled(rule.rate, count))


def _price(price: TypePrice, count: int) -> TypePrice:
    tiers = tuple(PriceTier(tier.over_iops * count, tier.usd) for tier in price.iops_tiers)
    return replace(price, iops_tiers=tiers)
