"""From a profile to a placement problem at one wanted throughput, and back to named volumes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pgstow.model import HostCap, Profile, RelationId
from pgstow.model.storage import DEFAULT_CHUNK_BYTES
from pgstow.planning.needs import (
    REST,
    TEMP,
    WAL,
    Need,
    base_gib,
    temp_needs,
    wal_gib,
    wal_needs,
)
from pgstow.planning.placement import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    Items,
    Kinds,
    Placed,
    PlacementProblem,
    Singles,
)
from pgstow.planning.placement.problem import Bools, Floats, Ints
from pgstow.planning.shapes import Shape
from pgstow.prediction import SEQUENTIAL_READ_BYTES, RelationWork, Workload, places
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB

RESOURCES = 4
SIZE, READS, SEQUENTIAL, WRITES = range(RESOURCES)  # GiB; the rest of one transaction
_IO_UNIT_BYTES = 256 * 1024  # of a type that nothing is known of
_LEAST_GIB = 8192 / BYTES_OF_GIB
_RARE_READS = 0.002  # relations that together have so little of the reads cannot move their p99


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """What every relation asks of one transaction's devices: relations × (GiB, reads, …).

    TOAST and its index are part of their table. ``home`` is an index into ``volumes``.
    """

    relations: tuple[RelationId, ...]
    demand: Floats
    home: Ints
    volumes: tuple[str, ...]
    is_read: Bools  # whether its reads could move the 99th percentile


def demands_of(profile: Profile, workload: Workload) -> Demands:
    """Sum the relations' work by what lies together."""
    relations = {relation.id: relation for relation in profile.server.relations}
    where = places(profile.layout, profile.server.relations)
    volumes = tuple(volume.name for volume in profile.layout.volumes)
    number = {name: place for place, name in enumerate(volumes)}
    index: dict[RelationId, int] = {}
    rows: list[list[float]] = []
    home: list[int] = []
    for work in workload.relations:
        owner = relations[work.relation].owner
        if owner not in index:
            index[owner] = len(rows)
            rows.append([0.0] * RESOURCES)
            home.append(number[where[work.relation].name])
        _add(rows[index[owner]], work)
    demand = np.array(rows).reshape(len(rows), RESOURCES)
    demand[:, SIZE] = np.maximum(demand[:, SIZE], _LEAST_GIB)
    reads = demand[:, READS] + demand[:, SEQUENTIAL]
    ascending = np.argsort(reads, kind="stable")
    is_read = np.zeros(len(rows), dtype=bool)
    is_read[ascending] = np.cumsum(reads[ascending]) > _RARE_READS * reads.sum()
    return Demands(tuple(index), demand, np.array(home, dtype=np.int64), volumes, is_read)


def _add(row: list[float], work: RelationWork) -> None:
    row[SIZE] += work.size_bytes / BYTES_OF_GIB
    row[READS] += work.reads
    row[SEQUENTIAL] += work.sequential_reads
    row[WRITES] += work.writes


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which shapes may hold what, by key. ``relations``: those with limits of their own."""

    rest: frozenset[str]
    wal: frozenset[str]
    temp: frozenset[str]
    read: frozenset[str]  # relations whose reads count
    unread: frozenset[str]
    relations: Mapping[RelationId, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What all volumes share, and the shares of limits to keep free."""

    free_space: float
    headroom: float
    response_us: float | None
    host: HostCap
    max_volumes: int
    is_wal_alone: bool = False
    max_move_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Bought:
    """A shape with its sizes: of the whole array."""

    shape: Shape
    gib: float
    iops: float
    bytes_per_s: float
    singles: tuple[str, ...]  # of WAL, TEMP and REST, what lies on it
    relations: int  # how many lie on it


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The cheapest arrangement found; no other of its problem costs less than ``bound_usd``."""

    volumes: tuple[Bought, ...]
    usd_month: float
    bound_usd: float
    single_shape: Mapping[str, str]  # by key
    relation_shape: Mapping[RelationId, str]
    placed: Placed

    @property
    def is_wal_alone(self) -> bool:
        """Whether nothing else lies where the WAL does."""
        others = [shape for key, shape in self.single_shape.items() if key != WAL]
        return self.single_shape[WAL] not in {*others, *self.relation_shape.values()}


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one plan: a profile's, at a throughput."""

    tps: float
    profile: Profile
    workload: Workload
    demands: Demands
    handover_us: float = 0.0  # of the host, between two flushes of the WAL
    io_units: Mapping[str, int] = field(default_factory=dict)  # bytes that count as one, by type


def problem_at(
    load: Load,
    shapes: tuple[Shape, ...],
    allowed: Allowed,
    limits: Limits,
    groups: tuple[tuple[str, ...], ...],
) -> PlacementProblem:
    """The placement problem of one throughput; demand stays per transaction, its use is scaled."""
    number = {shape.key: place for place, shape in enumerate(shapes)}
    kinds, kind = _kinds(load.demands, shapes, allowed)
    iops, rate = limits.host.iops, limits.host.bytes_per_second
    return PlacementProblem(
        shapes=shapes,
        use_per_demand=_use_per_demand(shapes, load),
        items=Items(load.demands.demand, kind),
        kinds=kinds,
        singles=_singles(load, shapes, allowed, is_wal_alone=limits.is_wal_alone),
        free_space=limits.free_space,
        headroom=limits.headroom,
        response_ms=None if limits.response_us is None else limits.response_us / 1000,
        host_kiops=None if iops is None else iops / 1000,
        host_mibps=None if rate is None else rate / MIB,
        max_volumes=limits.max_volumes,
        groups=tuple(tuple(number[key] for key in keys) for keys in groups),
        max_move_gib=None
        if limits.max_move_bytes is None
        else limits.max_move_bytes / BYTES_OF_GIB,
    )


def _use_per_demand(shapes: tuple[Shape, ...], load: Load) -> Floats:
    use = np.zeros((len(shapes), USES, RESOURCES))
    use[:, GIB, SIZE] = 1.0
    sizes = (
        (READS, load.workload.read_bytes),
        (SEQUENTIAL, float(SEQUENTIAL_READ_BYTES)),
        (WRITES, load.workload.write_bytes),
    )
    for c, shape in enumerate(shapes):
        for resource, size in sizes:
            use[c, IOPS, resource] = _counted(shape, size, load.io_units) * load.tps / 1000
            least = 0 if resource == SEQUENTIAL else shape.random_io_bytes
            use[c, BYTES, resource] = max(size, least) * load.tps / MIB
        use[c, WAIT, (READS, SEQUENTIAL)] = shape.read_us / 1000
    return use


def _counted(shape: Shape, size: float, io_units: Mapping[str, int]) -> float:
    """Operations that one request counts, over all members that it touches, as the device does."""
    units = math.ceil(size / io_units.get(shape.type, _IO_UNIT_BYTES))
    if shape.stripes == 1:
        return float(units)
    chunk = shape.existing.chunk_bytes if shape.existing is not None else DEFAULT_CHUNK_BYTES
    return float(max(units, min(math.ceil(size / chunk), shape.stripes)))


def _kinds(demands: Demands, shapes: tuple[Shape, ...], allowed: Allowed) -> tuple[Kinds, Ints]:
    """Relations of one home that may lie on the same shapes are of one kind."""
    rows: dict[tuple[int, frozenset[str]], int] = {}
    kind = np.zeros(len(demands.relations), dtype=np.int64)
    general = (allowed.unread, allowed.read)
    for home in range(len(demands.volumes)):
        for is_read in (False, True):
            key = (home, general[is_read])
            mine = (demands.home == home) & (demands.is_read == is_read)
            kind[mine] = rows.setdefault(key, len(rows))
    if allowed.relations:
        for item, relation in enumerate(demands.relations):
            if relation in allowed.relations:
                key = (int(demands.home[item]), allowed.relations[relation])
                kind[item] = rows.setdefault(key, len(rows))
    may = np.array([[s.key in usable for s in shapes] for _, usable in rows], dtype=bool)
    away = np.array(
        [[_is_away(shape, demands.volumes[home]) for shape in shapes] for home, _ in rows]
    )
    return Kinds(may, away), kind


def _is_away(shape: Shape, home: str | None) -> bool:
    """Whether what lies on ``home`` now moves if it is to lie on a shape."""
    return shape.existing is None or shape.existing.name != home


def _singles(
    load: Load, shapes: tuple[Shape, ...], allowed: Allowed, *, is_wal_alone: bool
) -> Singles:
    """The data directory itself, the WAL, and temporary files where there are any."""
    tps, workload, layout = load.tps, load.workload, load.profile.layout
    temp = layout.postgres.temp[0] if layout.postgres.temp else layout.postgres.data
    still = Need(0.0, 0.0, 0.0)
    log = wal_needs(tps, workload, shapes, handover_us=load.handover_us)
    rows: list[tuple[float, list[Need], frozenset[str], str]] = [
        (base_gib(), [still] * len(shapes), allowed.rest, layout.postgres.data),
        (wal_gib(load.profile), log, allowed.wal, layout.postgres.wal),
    ]
    if workload.temp_bytes > 0:
        # room for a minute of what is spilled, at least 1 GiB
        size = max(1.0, workload.temp_bytes * tps * 60 / BYTES_OF_GIB)
        rows.append((size, temp_needs(tps, workload, shapes), allowed.temp, temp))
    use = np.zeros((len(rows), len(shapes), USES))
    for single, (gib, needs, _, _) in enumerate(rows):
        use[single, :, GIB] = gib
        for c, need in enumerate(needs):
            use[single, c, IOPS:] = (need.iops / 1000, need.bytes_per_s / MIB, need.wait_us / 1000)
    return Singles(
        use=use,
        allowed=np.array([[s.key in usable for s in shapes] for _, _, usable, _ in rows]),
        away=np.array([[_is_away(s, home) for s in shapes] for _, _, _, home in rows]),
        alone=frozenset((1,)) if is_wal_alone else frozenset(),
    )


def single_keys(problem: PlacementProblem) -> tuple[str, ...]:
    """What the singles are."""
    return (REST, WAL, TEMP)[: problem.singles.count]


def solution_of(problem: PlacementProblem, placed: Placed, demands: Demands) -> Solution:
    """An answer by names."""
    keys = [shape.key for shape in problem.shapes]
    singles = single_keys(problem)
    counts = np.bincount(placed.item_shape, minlength=len(keys))
    volumes = tuple(
        Bought(
            shape=problem.shapes[one.shape],
            gib=one.gib,
            iops=one.kiops * 1000,
            bytes_per_s=one.mibps * MIB,
            singles=tuple(
                key for key, c in zip(singles, placed.single_shape, strict=True) if c == one.shape
            ),
            relations=int(counts[one.shape]),
        )
        for one in placed.volumes
    )
    return Solution(
        volumes=volumes,
        usd_month=placed.usd_month,
        bound_usd=placed.bound_usd,
        single_shape={
            key: keys[c] for key, c in zip(singles, placed.single_shape.tolist(), strict=True)
        },
        relation_shape={
            relation: keys[c]
            for relation, c in zip(demands.relations, placed.item_shape.tolist(), strict=True)
        },
        placed=placed,
    )
