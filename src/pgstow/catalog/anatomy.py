"""Where the time of a small write goes: the parts of its median, and what nobody divides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgstow.catalog.types import VolumeType
from pgstow.model import Provenance

Where = Literal["kernel", "host", "network", "device", "provider"]
Path = Literal["ebs", "cloud", "local"]


@dataclass(frozen=True, slots=True)
class PartRule:
    """One part of the way: a range of microseconds, or how it follows from the type.

    ``at_most_of``: between nothing and what the known parts leave of that type's median.
    """

    where: Where
    what: str
    provenance: Provenance
    us: tuple[float, float] | None = None
    at_most_of: str | None = None
    is_rest: bool = False
    is_seek: bool = False
    is_turn: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a write: between ``us_min`` and ``us_max`` microseconds of its median."""

    where: Where
    what: str
    us_min: float
    us_max: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The parts of a type's write in the order of the way, and what they add up to."""

    type: str
    write_us_p50: float
    write_us_p99: float
    parts: tuple[Part, ...]
    provenance: Provenance  # of the median and the 99th percentile


def path_of(volume_type: VolumeType) -> Path:
    """The way that a write to this type takes."""
    if volume_type.is_local:
        return "local"
    is_aws = bool({"ec2", "rds"} & set(volume_type.platforms))
    return "ebs" if is_aws and volume_type.mechanics is None else "cloud"


def anatomy(
    volume_type: VolumeType,
    rules: Mapping[str, tuple[PartRule, ...]],
    types: Mapping[str, VolumeType],
) -> Anatomy:
    """The parts of a small write to anywhere on a volume of this type."""
    way = rules[path_of(volume_type)]
    total = volume_type.random_write_us
    fixed = sum(_fixed(rule, volume_type) for rule in way)
    left = max(total - fixed, 0.0)
    shared = 0.0
    for rule in way:
        if rule.at_most_of is not None:
            other = types[rule.at_most_of].random_write_us
            shared = min(max(other - fixed, 0.0), left)
    has_mechanics = volume_type.mechanics is not None
    parts = tuple(
        _part(rule, volume_type, left, shared)
        for rule in way
        if has_mechanics or not (rule.is_seek or rule.is_turn)
    )
    facts = volume_type.facts["latency"]
    return Anatomy(volume_type.name, total, _p99(volume_type), parts, facts)


def _p99(volume_type: VolumeType) -> float:
    mechanics = volume_type.mechanics
    return volume_type.latency.write_us_p99 + (mechanics.most_us if mechanics else 0.0)


def _fixed(rule: PartRule, volume_type: VolumeType) -> float:
    if volume_type.mechanics is not None and rule.is_seek:
        return volume_type.mechanics.mean_seek_us
    if volume_type.mechanics is not None and rule.is_turn:
        return volume_type.mechanics.turn_us / 2
    return rule.us[0] if rule.us is not None else 0.0


def _part(rule: PartRule, volume_type: VolumeType, left: float, shared: float) -> Part:
    if rule.is_rest:
        low, high = left - shared, left
    elif rule.at_most_of is not None:
        low, high = 0.0, shared
    elif rule.us is not None:
        low, high = rule.us
    else:
        low = high = _fixed(rule, volume_type)
    return Part(rule.where, rule.what, low, high, rule.provenance)
