"""Which candidates a plan may use: existing volumes in place, and what the platform sells."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from pgstow.catalog.catalog import Catalog
from pgstow.catalog.types import VolumeType
from pgstow.model import Goal, HostSpec, Layout, UserError, Volume
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.rules import VolumeRules, pieces
from pgstow.units import GIB, Bytes

_STRIPES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_COPIES = 2  # of an unstriped type: one for the WAL, one for what is cold
# Where a volume's type changes in place: EBS's ModifyVolume. Google makes a new disk from a
# snapshot for that, Azure too where Ultra disks or Premium SSD v2 are concerned.
_CHANGES_TYPE = ("ec2",)
_HDD_RANDOM_IO_BYTES = 1024 * 1024  # what a random I/O of st1 or sc1 counts (EBS user guide)
_Z99 = 2.3263  # standard normal quantile of 0.99


class Latencies(TypedDict):
    """A candidate's latencies of small requests, in microseconds: means and 99th percentiles."""

    read_us: float
    write_us: float
    read_us_p99: float
    write_us_p99: float


def candidate_volumes(
    present: Layout, goal: Goal, catalog: Catalog, names: tuple[str, ...] = ()
) -> tuple[CandidateVolume, ...]:
    """Every candidate a plan may use, those that keep an existing volume first.

    ``names`` are of new volumes that pins ask for: each has candidates of its own.
    """
    host = present.host
    check_types(goal, host, catalog)
    offered = [
        volume_type
        for volume_type in catalog.types(host.platform)
        if (not goal.allow_types or volume_type.name in goal.allow_types)
        and volume_type.name not in goal.forbid_types
        and volume_type.price_in(host.region) is not None
        and not volume_type.is_local
    ]
    candidates = []
    for volume in present.volumes:
        keeping = {volume.type: catalog.volume_type(volume.type)}
        if host.platform in _CHANGES_TYPE and not keeping[volume.type].is_local:
            keeping |= {
                volume_type.name: volume_type
                for volume_type in offered
                if not volume_type.is_ephemeral
            }
        for volume_type in keeping.values():
            candidate = candidate_of(
                volume_type, catalog.rules(volume_type.name, host)[0], volume.stripes, volume
            )
            if candidate is not None:
                candidates.append(candidate)
    for volume_type in offered:
        for stripes in _STRIPES if volume_type.name == "gp3" else (1, 2, 4):
            if stripes <= goal.max_stripes:
                rules = catalog.rules(volume_type.name, host)[0]
                candidates += [
                    candidate
                    for copy in range(_COPIES if stripes == 1 else 1)
                    if (candidate := candidate_of(volume_type, rules, stripes, None, copy))
                    is not None
                ]
    candidates += [
        replace(candidate, key=f"{candidate.key}@{name}", name=name)
        for name in names
        for candidate in candidates
        if candidate.existing is None and not candidate.key.endswith("b")
    ]
    candidates += _instance_store(present, goal, catalog)
    data = present.postgres.data
    if not any(candidate.existing and candidate.existing.name == data for candidate in candidates):
        raise UserError(
            f"volume {data} is of type {present.volume(data).type}, which {host.platform} in "
            f"{host.region} has no price for",
            _price_remedy(host),
        )
    return tuple(candidates)


def check_types(goal: Goal, host: HostSpec, catalog: Catalog) -> None:
    """Refuse allowed or forbidden types that contradict or that the platform does not have."""
    names = [volume_type.name for volume_type in catalog.types(host.platform)]
    both = sorted(set(goal.allow_types) & set(goal.forbid_types))
    if both:
        raise UserError(f"{both[0]} is both allowed and forbidden", "drop one of the two")
    for name in (*goal.allow_types, *goal.forbid_types):
        catalog.volume_type(name)  # raises for a name that is not there
        if name not in names:
            raise UserError(
                f"{name} is no volume type of platform {host.platform}",
                f"name one of: {', '.join(names)}",
            )


def _price_remedy(host: HostSpec) -> str:
    fix = "correct the region and type in the layout given to pgstow observe"
    if host.platform != "ec2":
        return fix
    return f"pgstow catalog update --region {host.region} reads its prices; or {fix}"


def _instance_store(present: Layout, goal: Goal, catalog: Catalog) -> list[CandidateVolume]:
    """The instance's own disks where it has any and none is in use: all of them, or one."""
    disks, disk_bytes = catalog.instance_disks(present.host)
    volume_types = {
        volume_type.name: volume_type for volume_type in catalog.types(present.host.platform)
    }
    local = [
        name
        for name, volume_type in volume_types.items()
        if volume_type.is_ephemeral and volume_type.is_local
    ]
    if not disks or not disk_bytes or any(volume.type in local for volume in present.volumes):
        return []
    candidates = []
    for name in local:
        if name in goal.forbid_types or (goal.allow_types and name not in goal.allow_types):
            continue
        size = Bytes(disk_bytes // GIB * GIB)
        rules = catalog.rules(name, present.host)[0]
        rules = replace(rules, min_bytes=size, max_bytes=size, step_bytes=Bytes(GIB))
        candidates += [
            candidate
            for stripes in sorted({1, min(disks, goal.max_stripes)})
            if (candidate := candidate_of(volume_types[name], rules, stripes, None)) is not None
        ]
    return candidates


def sold(host: HostSpec, catalog: Catalog) -> tuple[CandidateVolume, ...]:
    """One new volume of each type whose price is known on a host."""
    candidates = [
        candidate_of(volume_type, catalog.rules(volume_type.name, host)[0], 1, None)
        for volume_type in catalog.types(host.platform)
        if not volume_type.is_local
    ]
    return tuple(candidate for candidate in candidates if candidate is not None)


def in_place_groups(candidates: tuple[CandidateVolume, ...]) -> tuple[tuple[str, ...], ...]:
    """The ways to have one volume, and what does not go together: one of each group at most."""
    groups: dict[str, list[str]] = {}
    for candidate in candidates:
        name = candidate.existing.name if candidate.existing is not None else candidate.name
        if name is not None:
            groups.setdefault(name, []).append(candidate.key)
    apart = [
        (one.key, other.key)
        for one in candidates
        if one.goes_with
        for other in candidates
        if not other.is_for_wal and other.type not in one.goes_with
    ]
    return (*(tuple(keys) for keys in groups.values()), *apart)


def candidate_of(
    volume_type: VolumeType,
    rules: VolumeRules,
    stripes: int,
    existing: Volume | None,
    copy: int = 0,
) -> CandidateVolume | None:
    """One candidate; None where its price is unknown or the existing volume does not fit."""
    if existing is not None:
        held = max(existing.size_bytes, rules.min_bytes or 0)
        rules = _declared(rules, existing)
        if volume_type.is_local:  # a disk is as large as it is
            rules = replace(rules, max_bytes=Bytes(held))
        if rules.max_bytes is not None and held > rules.max_bytes:
            return None
        rules = replace(rules, min_bytes=Bytes(held))
    rules = _proposed(rules, is_new=existing is None)
    if not pieces(rules):
        return None
    name = (
        f"{existing.name}:{volume_type.name}"
        if existing
        else f"{volume_type.name}x{stripes}{'b' * copy}"
    )
    return CandidateVolume(
        key=name,
        rules=rules,
        stripes=stripes,
        **latencies(volume_type, existing),
        random_io_bytes=_HDD_RANDOM_IO_BYTES if volume_type.is_hdd else 8192,
        is_ephemeral=volume_type.is_ephemeral,
        is_hdd=volume_type.is_hdd,
        existing=existing,
        annual_failure_rate=failure_rate(volume_type.annual_failure_rate, stripes),
        is_for_wal=volume_type.holds == "wal",
        goes_with=volume_type.goes_with,
    )


def latencies(volume_type: VolumeType, existing: Volume | None) -> Latencies:
    """A candidate's means and 99th percentiles: the layout's own where the type is kept."""
    is_kept = existing is not None and existing.type == volume_type.name
    latency = volume_type.latency_of(existing) if existing and is_kept else volume_type.latency
    mechanics = (
        volume_type.mechanics_of(existing) if existing and is_kept else volume_type.mechanics
    )
    way_us, most_way_us = (mechanics.mean_us, mechanics.most_us) if mechanics else (0.0, 0.0)
    return {
        "read_us": _mean(latency.read_us_p50, latency.read_us_p99) + way_us,
        "write_us": _mean(latency.write_us_p50, latency.write_us_p99) + way_us,
        "read_us_p99": latency.read_us_p99 + most_way_us,
        "write_us_p99": latency.write_us_p99 + most_way_us,
    }


def _declared(rules: VolumeRules, existing: Volume) -> VolumeRules:
    """With the IOPS and throughput that a layout declares of a disk that no provider sells."""
    iops, rate = rules.iops, rules.throughput
    if iops.is_declared and existing.iops is not None:
        iops = replace(iops, included=existing.iops)
    if rate.is_declared and existing.throughput is not None:
        rate = replace(rate, included=existing.throughput)
    return replace(rules, iops=iops, throughput=rate)


def _proposed(rules: VolumeRules, *, is_new: bool) -> VolumeRules:
    """The part of a type's rules that plans use: without steps that the bound cannot follow.

    IOPS at their first price only, which of io2 is up to 32,000 of each member and which a stripe
    of four takes to 128,000; of gp2 the throughput of its small volumes, and new ones of the size
    at which its IOPS begin to grow.
    """
    rule, by_size = rules.iops, rules.throughput.by_size
    if is_new and rule.per_gib and rule.min:
        least = math.ceil((rule.min - rule.base) / rule.per_gib) * GIB
        rules = replace(rules, min_bytes=Bytes(max(least, rules.min_bytes or 0)))
    if by_size:
        lowest = min(by_size, key=lambda step: step.limit)
        step = replace(by_size[-1], limit=lowest.limit)
        rules = replace(rules, throughput=replace(rules.throughput, by_size=(step,)))
    price = rules.price
    if price is None or len(price.iops_tiers) < 2:
        return rules
    known = min(rules.known_iops, price.iops_tiers[1].over_iops)
    return replace(rules, price=replace(price, iops_known_to=known))


def holding(
    candidates: tuple[CandidateVolume, ...], gib: Mapping[str, float]
) -> tuple[CandidateVolume, ...]:
    """The candidates with what is stored now on the volumes that they keep, by name."""
    return tuple(
        candidate
        if candidate.existing is None
        else replace(candidate, holds_gib=gib.get(candidate.existing.name))
        for candidate in candidates
    )


def failure_rate(of_one: float | None, members: int) -> float | None:
    """The share of arrays that lose a member, and with it everything, within a year.

    >>> round(failure_rate(0.002, 4), 6)
    0.007976
    """
    return None if of_one is None else 1 - (1 - of_one) ** members


def _mean(p50: float, p99: float) -> float:
    """Mean of the log-normal distribution with these two quantiles.

    >>> round(_mean(1000.0, 1500.0))
    1015
    """
    sigma = math.log(p99 / p50) / _Z99
    return p50 * math.exp(sigma * sigma / 2)
