"""From a profile to a placement problem at one target throughput, and back to named volumes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pgstow.model import HostCap, Profile, RelationId
from pgstow.model.storage import DEFAULT_CHUNK_BYTES
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.needs import (
    REST,
    TEMP,
    WAL,
    ResourceDemand,
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
    ItemClasses,
    Items,
    PlacementProblem,
    PlacementSolution,
    SpecialItems,
)
from pgstow.planning.placement.problem import Bools, Floats, Ints
from pgstow.prediction import SEQUENTIAL_READ_BYTES, RelationWork, Workload, volumes_of_relations
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB

RESOURCES = 4
SIZE, READS, SEQUENTIAL, WRITES = range(RESOURCES)  # GiB; the rest of one transaction
_IO_UNIT_BYTES = 256 * 1024  # of a type that nothing is known of
_LEAST_GIB = 8192 / BYTES_OF_GIB
_RARE_READS = 0.002  # relations that together have so little of the reads cannot move their p99


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """The size of every relation and its I/O in one transaction: relations × (GiB, reads, …).

    TOAST and its index are part of their table. ``current_volume`` is an index into ``volumes``.
    """

    relations: tuple[RelationId, ...]
    demand: Floats
    current_volume: Ints
    volumes: tuple[str, ...]
    is_read: Bools  # whether its reads could move the 99th percentile


def demands_of(profile: Profile, workload: Workload) -> Demands:
    """Sum the relations' work by what is placed together."""
    relations = {relation.id: relation for relation in profile.server.relations}
    volume_of = volumes_of_relations(profile.layout, profile.server.relations)
    volumes = tuple(volume.name for volume in profile.layout.volumes)
    number = {name: position for position, name in enumerate(volumes)}
    index: dict[RelationId, int] = {}
    rows: list[list[float]] = []
    current_volume: list[int] = []
    for work in workload.relations:
        owner = relations[work.relation].owner
        if owner not in index:
            index[owner] = len(rows)
            rows.append([0.0] * RESOURCES)
            current_volume.append(number[volume_of[work.relation].name])
        _add(rows[index[owner]], work)
    demand = np.array(rows).reshape(len(rows), RESOURCES)
    demand[:, SIZE] = np.maximum(demand[:, SIZE], _LEAST_GIB)
    reads = demand[:, READS] + demand[:, SEQUENTIAL]
    ascending = np.argsort(reads, kind="stable")
    is_read = np.zeros(len(rows), dtype=bool)
    is_read[ascending] = np.cumsum(reads[ascending]) > _RARE_READS * reads.sum()
    return Demands(tuple(index), demand, np.array(current_volume, dtype=np.int64), volumes, is_read)


def _add(row: list[float], work: RelationWork) -> None:
    row[SIZE] += work.size_bytes / BYTES_OF_GIB
    row[READS] += work.reads
    row[SEQUENTIAL] += work.sequential_reads
    row[WRITES] += work.writes


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which candidates may hold what, by key. ``relations``: those with limits of their own."""

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
    is_wal_exclusive: bool = False
    max_move_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Bought:
    """A candidate with its sizes: the sums over its members."""

    candidate: CandidateVolume
    gib: float
    iops: float
    bytes_per_s: float
    special_items: tuple[str, ...]  # of WAL, TEMP and REST, those placed on it
    relations: int  # how many are placed on it


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The cheapest solution found; no other of its problem costs less than ``bound_usd``."""

    volumes: tuple[Bought, ...]
    usd_month: float
    bound_usd: float
    special_candidate: Mapping[str, str]  # by key
    relation_candidate: Mapping[RelationId, str]
    placed: PlacementSolution

    @property
    def is_wal_exclusive(self) -> bool:
        """Whether the WAL shares its volume with nothing."""
        others = [candidate for key, candidate in self.special_candidate.items() if key != WAL]
        return self.special_candidate[WAL] not in {*others, *self.relation_candidate.values()}


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
    candidates: tuple[CandidateVolume, ...],
    allowed: Allowed,
    limits: Limits,
    groups: tuple[tuple[str, ...], ...],
) -> PlacementProblem:
    """The placement problem of one throughput; demand stays per transaction, its use is scaled."""
    number = {candidate.key: position for position, candidate in enumerate(candidates)}
    item_classes, item_class = _item_classes(load.demands, candidates, allowed)
    iops, rate = limits.host.iops, limits.host.bytes_per_second
    return PlacementProblem(
        candidates=candidates,
        use_per_demand=_use_per_demand(candidates, load),
        items=Items(load.demands.demand, item_class),
        item_classes=item_classes,
        special_items=_special_items(
            load, candidates, allowed, is_wal_exclusive=limits.is_wal_exclusive
        ),
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


def _use_per_demand(candidates: tuple[CandidateVolume, ...], load: Load) -> Floats:
    use = np.zeros((len(candidates), USES, RESOURCES))
    use[:, GIB, SIZE] = 1.0
    sizes = (
        (READS, load.workload.read_bytes),
        (SEQUENTIAL, float(SEQUENTIAL_READ_BYTES)),
        (WRITES, load.workload.write_bytes),
    )
    for c, candidate in enumerate(candidates):
        for resource, size in sizes:
            use[c, IOPS, resource] = _counted(candidate, size, load.io_units) * load.tps / 1000
            least = 0 if resource == SEQUENTIAL else candidate.random_io_bytes
            use[c, BYTES, resource] = max(size, least) * load.tps / MIB
        use[c, WAIT, (READS, SEQUENTIAL)] = candidate.read_us / 1000
    return use


def _counted(candidate: CandidateVolume, size: float, io_units: Mapping[str, int]) -> float:
    """Operations that one request counts, over all members that it touches, as the device does."""
    units = math.ceil(size / io_units.get(candidate.type, _IO_UNIT_BYTES))
    if candidate.stripes == 1:
        return float(units)
    chunk = (
        candidate.existing.chunk_bytes if candidate.existing is not None else DEFAULT_CHUNK_BYTES
    )
    return float(max(units, min(math.ceil(size / chunk), candidate.stripes)))


def _item_classes(
    demands: Demands, candidates: tuple[CandidateVolume, ...], allowed: Allowed
) -> tuple[ItemClasses, Ints]:
    """Relations of one current volume with the same candidates allowed are of one item class."""
    rows: dict[tuple[int, frozenset[str]], int] = {}
    item_class = np.zeros(len(demands.relations), dtype=np.int64)
    general = (allowed.unread, allowed.read)
    for current_volume in range(len(demands.volumes)):
        for is_read in (False, True):
            key = (current_volume, general[is_read])
            mine = (demands.current_volume == current_volume) & (demands.is_read == is_read)
            item_class[mine] = rows.setdefault(key, len(rows))
    if allowed.relations:
        for item, relation in enumerate(demands.relations):
            if relation in allowed.relations:
                key = (int(demands.current_volume[item]), allowed.relations[relation])
                item_class[item] = rows.setdefault(key, len(rows))
    may = np.array([[s.key in usable for s in candidates] for _, usable in rows], dtype=bool)
    is_moved = np.array(
        [
            [_is_moved(candidate, demands.volumes[current_volume]) for candidate in candidates]
            for current_volume, _ in rows
        ]
    )
    return ItemClasses(may, is_moved), item_class


def _is_moved(candidate: CandidateVolume, current_volume: str | None) -> bool:
    """Whether what is on ``current_volume`` moves if it is placed on a candidate."""
    return candidate.existing is None or candidate.existing.name != current_volume


def _special_items(
    load: Load, candidates: tuple[CandidateVolume, ...], allowed: Allowed, *, is_wal_exclusive: bool
) -> SpecialItems:
    """The data directory itself, the WAL, and temporary files where there are any."""
    tps, workload, layout = load.tps, load.workload, load.profile.layout
    temp = layout.postgres.temp[0] if layout.postgres.temp else layout.postgres.data
    nothing = ResourceDemand(0.0, 0.0, 0.0)
    log = wal_needs(tps, workload, candidates, handover_us=load.handover_us)
    rows: list[tuple[float, list[ResourceDemand], frozenset[str], str]] = [
        (base_gib(), [nothing] * len(candidates), allowed.rest, layout.postgres.data),
        (wal_gib(load.profile), log, allowed.wal, layout.postgres.wal),
    ]
    if workload.temp_bytes > 0:
        # room for a minute of what is spilled, at least 1 GiB
        size = max(1.0, workload.temp_bytes * tps * 60 / BYTES_OF_GIB)
        rows.append((size, temp_needs(tps, workload, candidates), allowed.temp, temp))
    use = np.zeros((len(rows), len(candidates), USES))
    for special, (gib, needs, _, _) in enumerate(rows):
        use[special, :, GIB] = gib
        for c, need in enumerate(needs):
            use[special, c, IOPS:] = (need.iops / 1000, need.bytes_per_s / MIB, need.wait_us / 1000)
    return SpecialItems(
        use=use,
        allowed=np.array([[s.key in usable for s in candidates] for _, _, usable, _ in rows]),
        is_moved=np.array(
            [[_is_moved(s, current_volume) for s in candidates] for _, _, _, current_volume in rows]
        ),
        exclusive=frozenset((1,)) if is_wal_exclusive else frozenset(),
    )


def special_keys(problem: PlacementProblem) -> tuple[str, ...]:
    """The keys of the special items."""
    return (REST, WAL, TEMP)[: problem.special_items.count]


def solution_of(problem: PlacementProblem, placed: PlacementSolution, demands: Demands) -> Solution:
    """The solution by names."""
    keys = [candidate.key for candidate in problem.candidates]
    special_items = special_keys(problem)
    counts = np.bincount(placed.item_candidate, minlength=len(keys))
    volumes = tuple(
        Bought(
            candidate=problem.candidates[one.candidate],
            gib=one.gib,
            iops=one.kiops * 1000,
            bytes_per_s=one.mibps * MIB,
            special_items=tuple(
                key
                for key, c in zip(special_items, placed.special_candidate, strict=True)
                if c == one.candidate
            ),
            relations=int(counts[one.candidate]),
        )
        for one in placed.volumes
    )
    return Solution(
        volumes=volumes,
        usd_month=placed.usd_month,
        bound_usd=placed.bound_usd,
        special_candidate={
            key: keys[c]
            for key, c in zip(special_items, placed.special_candidate.tolist(), strict=True)
        },
        relation_candidate={
            relation: keys[c]
            for relation, c in zip(demands.relations, placed.item_candidate.tolist(), strict=True)
        },
        placed=placed,
    )
