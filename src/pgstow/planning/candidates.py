"""Which shapes a plan may use: existing volumes in place, and what the platform sells."""

import math
from typing import Protocol

from pgstow.catalog.types import VolumeType
from pgstow.model import Goal, HostSpec, Layout, UserError, Volume, Warning
from pgstow.planning.shapes import Shape
from pgstow.prediction.predict import PricedCatalog
from pgstow.units import GIB, MIB

_STRIPES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_COPIES = 2  # of an unstriped type: one for the WAL, one for what is cold
_HDD_RANDOM_IO_BYTES = 1024 * 1024  # what a random I/O of st1 or sc1 counts (EBS user guide)
_FIRST_TIER_IOPS = 32_000  # io2 is cheaper beyond; such volumes are not proposed
_Z99 = 2.3263  # standard normal quantile of 0.99


class PlanningCatalog(PricedCatalog, Protocol):
    """What planning needs of the catalog."""

    def types(self, platform: str) -> tuple[VolumeType, ...]:
        """The types a platform offers."""

    def volume_type(self, name: str) -> VolumeType:
        """The type of that name."""

    def check(self, layout: Layout) -> tuple[Warning, ...]:
        """Raise LayoutError for what no provider sells."""


def candidates(present: Layout, goal: Goal, catalog: PlanningCatalog) -> tuple[Shape, ...]:
    """Every shape a plan may use, those that keep an existing volume first."""
    host = present.host
    for name in (*goal.allow_types, *goal.forbid_types):
        catalog.volume_type(name)  # raises for a name that is not there
    offered = [
        kind
        for kind in catalog.types(host.platform)
        if (not goal.allow_types or kind.name in goal.allow_types)
        and kind.name not in goal.forbid_types
        and kind.price_in(host.region) is not None
        and not kind.is_local
    ]
    shapes = []
    for volume in present.volumes:
        keeping = {volume.type: catalog.volume_type(volume.type)}
        keeping |= {kind.name: kind for kind in offered if not kind.is_ephemeral}
        for kind in keeping.values():
            shape = _shape(kind, volume.stripes, host.region, volume)
            if shape is not None:
                shapes.append(shape)
    for kind in offered:
        for stripes in _STRIPES if kind.name == "gp3" else (1, 2, 4):
            if stripes <= goal.max_stripes:
                copies = _COPIES if stripes == 1 else 1
                shapes += [
                    shape
                    for copy in range(copies)
                    if (shape := _shape(kind, stripes, host.region, None, copy)) is not None
                ]
    data = present.postgres.data
    if not any(shape.existing and shape.existing.name == data for shape in shapes):
        raise UserError(
            f"volume {data} is of type {present.volume(data).type}, which {host.platform} in "
            f"{host.region} has no price for",
            "correct the layout given to pgstow observe",
        )
    return tuple(shapes)


def sold(host: HostSpec, catalog: PlanningCatalog) -> tuple[Shape, ...]:
    """One new volume of each type whose price is known on a host."""
    shapes = [
        _shape(kind, 1, host.region, None)
        for kind in catalog.types(host.platform)
        if not kind.is_local
    ]
    return tuple(shape for shape in shapes if shape is not None)


def in_place_groups(shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], ...]:
    """The ways to keep one volume: a plan uses one of each group at most."""
    groups: dict[str, list[str]] = {}
    for shape in shapes:
        if shape.existing is not None:
            groups.setdefault(shape.existing.name, []).append(shape.key)
    return tuple(tuple(keys) for keys in groups.values())


def _shape(
    kind: VolumeType, stripes: int, region: str | None, existing: Volume | None, copy: int = 0
) -> Shape | None:
    """One shape; None where its price is unknown or the existing volume does not fit the type."""
    price = kind.price_in(region)
    if price is None or (price.usd_per_gib is None and not price.is_included):
        return None
    smallest = (kind.min_size_bytes or GIB) / GIB
    largest = (kind.max_size_bytes or 65_536 * GIB) / GIB
    if existing is not None:
        held = existing.size_bytes / GIB
        if held > largest:
            return None
        smallest = max(smallest, held)
    if kind.iops_per_gib and kind.min_iops:
        # below this size gp2's floor of 100 IOPS would make the rule non-linear
        smallest = max(smallest, math.ceil(kind.min_iops / kind.iops_per_gib))
    included = kind.included_iops if kind.included_iops is not None else kind.min_iops or 0.0
    most = min(kind.max_iops or math.inf, _FIRST_TIER_IOPS if kind.usd_per_iops else math.inf)
    if kind.name == "gp3":
        most = kind.max_iops or most
    paid_from = price.iops_tiers[0].over_iops if price.iops_tiers else 0.0
    latency = kind.latency
    way_us, most_way_us = (
        (kind.mechanics.mean_us, kind.mechanics.most_us) if kind.mechanics else (0.0, 0.0)
    )
    rate, rate_most = _throughput(kind)
    if kind.provisioned_throughput and price.usd_per_mibps is None:
        rate_most = rate  # what has no known price is not proposed
    most = min(most, price.iops_known_to or math.inf)
    if kind.provisioned_iops and not price.iops_tiers:
        if kind.included_iops is None:
            return None  # it cannot be bought without IOPS, whose price is not known
        most = included
    name = f"{existing.name}:{kind.name}" if existing else f"{kind.name}x{stripes}{'b' * copy}"
    return Shape(
        key=name,
        type=kind.name,
        stripes=stripes,
        min_gib=smallest * stripes,
        max_gib=largest * stripes,
        included_iops=included * stripes,
        paid_iops_from=paid_from * stripes,
        max_iops=_finite(most) * stripes,
        iops_per_gib=kind.iops_per_gib_max or kind.iops_per_gib,
        is_iops_provisioned=kind.provisioned_iops,
        included_bytes_per_s=rate * stripes,
        max_bytes_per_s=rate_most * stripes,
        bytes_per_s_per_gib=kind.throughput_per_gib,
        bytes_per_s_per_iops=kind.throughput_per_iops_max or _by_iops(kind),
        is_throughput_provisioned=kind.provisioned_throughput,
        usd_per_gib=price.usd_per_gib or 0.0,
        usd_per_iops=price.iops_tiers[0].usd if price.iops_tiers else 0.0,
        usd_per_mibps=price.usd_per_mibps or 0.0,
        read_us=_mean(latency.read_us_p50, latency.read_us_p99) + way_us,
        write_us=_mean(latency.write_us_p50, latency.write_us_p99) + way_us,
        read_us_p99=latency.read_us_p99 + most_way_us,
        write_us_p99=latency.write_us_p99 + most_way_us,
        random_io_bytes=_HDD_RANDOM_IO_BYTES if kind.is_hdd else 8192,
        is_ephemeral=kind.is_ephemeral,
        is_hdd=kind.is_hdd,
        existing=existing,
    )


def _throughput(kind: VolumeType) -> tuple[float, float]:
    """Bytes per second included and at most, of one member.

    gp2's step with its size is taken at its lower level: a plan never counts on the higher.
    """
    if kind.throughput_rule.by_size:
        lowest = min(step.limit for step in kind.throughput_rule.by_size)
        return lowest, lowest
    most = _finite(kind.max_throughput)
    return kind.included_throughput or 0.0, most


def _by_iops(kind: VolumeType) -> float | None:
    pieces = kind.throughput_rule.by_iops
    return min(piece.per_iops for piece in pieces) if pieces else None


def _finite(limit: float | None) -> float:
    """A limit for the programme; what has none gets one that never binds."""
    return min(limit if limit is not None else math.inf, 100_000 * MIB)


def _mean(p50: float, p99: float) -> float:
    """Mean of the log-normal distribution with these two quantiles.

    >>> round(_mean(1000.0, 1500.0))
    1015
    """
    sigma = math.log(p99 / p50) / _Z99
    return p50 * math.exp(sigma * sigma / 2)
