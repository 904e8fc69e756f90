"""Volumes that a provider makes of several by itself: RDS stripes over four from 400 GiB.

The rules of such a type are those of one member. What is bought is the whole: its limits are all
members' together, and the device below it is a stripe.
"""

from dataclasses import replace

from pgstow.catalog.types import BurstRule, VolumeType
from pgstow.model import Volume
from pgstow.rules import IopsRule, PriceTier, ThroughputRule, TypePrice, VolumeRules
from pgstow.units import Bytes, BytesPerSecond, Iops


def members(volume_type: VolumeType, volume: Volume) -> int:
    """Of how many volumes the provider makes this one."""
    rule = volume_type.stripe_rule
    return rule.members if rule is not None and volume.size_bytes >= rule.from_bytes else 1


def as_striped(volume_type: VolumeType, volume: Volume) -> Volume:
    """What the provider makes of it: more members, each with its part of the size and limits."""
    count = members(volume_type, volume)
    if count == 1:
        return volume
    return replace(
        volume,
        size_bytes=Bytes(volume.size_bytes // count),
        iops=None if volume.iops is None else Iops(volume.iops / count),
        throughput=None if volume.throughput is None else _times(volume.throughput, 1 / count),
        stripes=volume.stripes * count,
    )


def as_sold(volume_type: VolumeType, volume: Volume) -> VolumeType:
    """The type with the limits and prices of all the members together."""
    count = members(volume_type, volume)
    return volume_type if count == 1 else _whole(volume_type)


def by_size(volume_type: VolumeType) -> tuple[VolumeType, VolumeType]:
    """A type below the size from which the provider stripes, and from it on: all members' rules."""
    rule = volume_type.stripe_rule
    if rule is None:
        return volume_type, volume_type
    small = replace(
        volume_type, max_size_bytes=Bytes(rule.from_bytes - (volume_type.size_step_bytes or 1))
    )
    early = volume_type.iops_rule.provisioned_from_bytes
    if early is not None and early >= rule.from_bytes:  # nothing may be set there
        iops = replace(volume_type.iops_rule, is_provisioned=False, max=None, per_gib_max=None)
        rate = replace(
            volume_type.throughput_rule, is_provisioned=False, max=None, per_iops_max=None
        )
        small = replace(small, iops_rule=iops, throughput_rule=rate)
    least = max(rule.from_bytes, volume_type.min_size_bytes or 0)
    return small, replace(_whole(volume_type), min_size_bytes=Bytes(least))


def ways(volume_type: VolumeType, region: str | None) -> tuple[VolumeRules, ...]:
    """The rules of a type by size: below that from which the provider stripes, and from it on."""
    small, large = by_size(volume_type)
    if volume_type.stripe_rule is None:
        return (volume_type.rules(region),)
    return small.rules(region), large.rules(region)


def _whole(volume_type: VolumeType) -> VolumeType:
    """A type of which the provider stripes, with the rules of all members together."""
    rule = volume_type.stripe_rule
    if rule is None:
        return volume_type
    count = rule.members
    most = volume_type.iops_rule.max
    if most is not None and rule.max_iops is not None:
        most = min(most * count, rule.max_iops) / count
    return replace(
        volume_type,
        iops_rule=_iops(replace(volume_type.iops_rule, max=most), count),
        throughput_rule=_throughput(volume_type.throughput_rule, count),
        burst_rule=None
        if volume_type.burst_rule is None
        else _burst(volume_type.burst_rule, count),
        prices={region: _price(price, count) for region, price in volume_type.prices.items()},
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
