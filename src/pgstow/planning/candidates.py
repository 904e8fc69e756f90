"""Which shapes a plan may use: existing volumes in place, and what the platform sells."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pgstow.catalog.types import TypePrice, VolumeType
from pgstow.model import Goal, HostSpec, Layout, UserError, Volume, Warning
from pgstow.planning.shapes import Shape
from pgstow.prediction.predict import PricedCatalog
from pgstow.units import GIB, MIB, Bytes

_STRIPES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_COPIES = 2  # of an unstriped type: one for the WAL, one for what is cold
# Where a volume's type changes in place: EBS's ModifyVolume. Google makes a new disk from a
# snapshot for that, Azure too where Ultra disks or Premium SSD v2 are concerned.
_CHANGES_TYPE = ("ec2",)
_HDD_RANDOM_IO_BYTES = 1024 * 1024  # what a random I/O of st1 or sc1 counts (EBS user guide)
_FIRST_TIER_IOPS = 32_000  # io2 is cheaper beyond; such volumes are not proposed
_Z99 = 2.3263  # standard normal quantile of 0.99


class Machine(Protocol):
    """What the catalog knows of an instance type."""

    @property
    def name(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def memory_bytes(self) -> Bytes: ...
    @property
    def baseline_iops(self) -> float | None: ...
    @property
    def baseline_bytes_per_second(self) -> float | None: ...
    @property
    def max_attachments(self) -> int | None: ...
    @property
    def disks(self) -> int: ...
    @property
    def disk_bytes(self) -> Bytes | None: ...


class PlanningCatalog(PricedCatalog, Protocol):
    """What planning needs of the catalog."""

    def types(self, platform: str) -> tuple[VolumeType, ...]:
        """The types a platform offers."""

    def volume_type(self, name: str) -> VolumeType:
        """The type of that name."""

    def memory_bytes(self, host: HostSpec) -> Bytes | None:
        """The host's memory; None: not known."""

    def as_sold(self, name: str, size_bytes: Bytes) -> VolumeType:
        """A type with the limits that it has at a size, where the provider stripes by itself."""

    def instance_disks(self, host: HostSpec) -> tuple[int, Bytes | None]:
        """How many disks of its own the host has that are no hard disks, and the size of each."""

    def host_usd_month(self, host: HostSpec) -> float | None:
        """What a host's instance costs a month; None: not known."""

    def offers(self, host: HostSpec) -> Sequence[tuple[Machine, float]]:
        """Every instance of a host's platform and region whose monthly price is known."""

    def check(self, layout: Layout) -> tuple[Warning, ...]:
        """Raise LayoutError for what no provider sells."""


def candidates(
    present: Layout, goal: Goal, catalog: PlanningCatalog, names: tuple[str, ...] = ()
) -> tuple[Shape, ...]:
    """Every shape a plan may use, those that keep an existing volume first.

    ``names`` are of new volumes that pins ask for: each has shapes of its own.
    """
    host = present.host
    check_types(goal, host, catalog)
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
        if host.platform in _CHANGES_TYPE:
            keeping |= {kind.name: kind for kind in offered if not kind.is_ephemeral}
        for kind in keeping.values():
            shape = shape_of(kind, volume.stripes, host.region, volume)
            if shape is not None:
                shapes.append(shape)
    for kind in offered:
        for stripes in _STRIPES if kind.name == "gp3" else (1, 2, 4):
            if stripes <= goal.max_stripes:
                copies = _COPIES if stripes == 1 else 1
                shapes += [
                    shape
                    for copy in range(copies)
                    if (shape := shape_of(kind, stripes, host.region, None, copy)) is not None
                ]
    shapes += [
        replace(shape, key=f"{shape.key}@{name}", name=name)
        for name in names
        for shape in shapes
        if shape.existing is None and not shape.key.endswith("b")
    ]
    shapes += _instance_store(present, goal, catalog)
    data = present.postgres.data
    if not any(shape.existing and shape.existing.name == data for shape in shapes):
        raise UserError(
            f"volume {data} is of type {present.volume(data).type}, which {host.platform} in "
            f"{host.region} has no price for",
            _price_remedy(host),
        )
    return tuple(shapes)


def check_types(goal: Goal, host: HostSpec, catalog: PlanningCatalog) -> None:
    """Refuse types to allow or forbid that contradict, are not there, or not on this platform."""
    names = [kind.name for kind in catalog.types(host.platform)]
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


def _instance_store(present: Layout, goal: Goal, catalog: PlanningCatalog) -> list[Shape]:
    """The instance's own disks where it has any and none is in use: all of them, or one."""
    disks, disk_bytes = catalog.instance_disks(present.host)
    kinds = {kind.name: kind for kind in catalog.types(present.host.platform)}
    wanted = [name for name, kind in kinds.items() if kind.is_ephemeral and kind.is_local]
    if not disks or not disk_bytes or any(volume.type in wanted for volume in present.volumes):
        return []
    shapes = []
    for name in wanted:
        if name in goal.forbid_types or (goal.allow_types and name not in goal.allow_types):
            continue
        for stripes in sorted({1, min(disks, goal.max_stripes)}):
            shape = shape_of(kinds[name], stripes, present.host.region, None)
            if shape is not None:
                gib = disk_bytes // GIB * stripes
                shapes.append(replace(shape, min_gib=gib, max_gib=gib))
    return shapes


def sold(host: HostSpec, catalog: PlanningCatalog) -> tuple[Shape, ...]:
    """One new volume of each type whose price is known on a host."""
    shapes = [
        shape_of(kind, 1, host.region, None)
        for kind in catalog.types(host.platform)
        if not kind.is_local
    ]
    return tuple(shape for shape in shapes if shape is not None)


def in_place_groups(shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], ...]:
    """The ways to have one volume, and what does not go together: one of each group at most."""
    groups: dict[str, list[str]] = {}
    for shape in shapes:
        name = shape.existing.name if shape.existing is not None else shape.name
        if name is not None:
            groups.setdefault(name, []).append(shape.key)
    apart = [
        (one.key, other.key)
        for one in shapes
        if one.goes_with
        for other in shapes
        if not other.is_for_wal and other.type not in one.goes_with
    ]
    return (*(tuple(keys) for keys in groups.values()), *apart)


def shape_of(
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
    iops = _iops(kind, price)
    if iops is None:
        return None
    included, most = iops
    paid_from = price.iops_tiers[0].over_iops if price.iops_tiers else 0.0
    latency = kind.latency
    way_us, most_way_us = (
        (kind.mechanics.mean_us, kind.mechanics.most_us) if kind.mechanics else (0.0, 0.0)
    )
    rate, rate_most = _throughput(kind)
    if kind.provisioned_throughput and price.usd_per_mibps is None:
        rate_most = rate  # what has no known price is not proposed
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
        annual_failure_rate=failure_rate(kind.annual_failure_rate, stripes),
        is_for_wal=kind.holds == "wal",
        goes_with=kind.goes_with,
    )


def _iops(kind: VolumeType, price: TypePrice) -> tuple[float, float] | None:
    """IOPS included and at most of one member; None: it needs some whose price is not known."""
    included = kind.included_iops if kind.included_iops is not None else kind.min_iops or 0.0
    most = min(kind.max_iops or math.inf, _FIRST_TIER_IOPS if kind.usd_per_iops else math.inf)
    if kind.name == "gp3":
        most = kind.max_iops or most
    if kind.provisioned_iops and not price.iops_tiers:
        return None if kind.included_iops is None else (included, included)
    return included, min(most, price.iops_known_to or math.inf)


def failure_rate(of_one: float | None, members: int) -> float | None:
    """The share of arrays that lose a member, and with it everything, within a year.

    >>> round(failure_rate(0.002, 4), 6)
    0.007976
    """
    return None if of_one is None else 1 - (1 - of_one) ** members


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
