"""What is on each volume of a predicted layout, and the load of each thing there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgstow.model import Prediction, Profile, RelationId
from pgstow.planning.needs import flush_rate, wal_gib
from pgstow.prediction import (
    SEQUENTIAL_READ_BYTES,
    RelationWork,
    Workload,
    volumes_of_relations,
    workload_of,
)
from pgstow.units import BLOCK_BYTES, GIB

_NOISE = 1.15  # of a simulation's reads
WAL_KIND, TEMP_KIND, REST_KIND = "WAL", "temporary files", "rest"


@dataclass(frozen=True, slots=True)
class Share:
    """The load of one thing on its volume, per second, at the predicted speed.

    ``kind`` is a relation's, or "WAL", "temporary files", "rest": the relations not shown one by
    one. A table's TOAST is part of it, and so are the partitions on one volume of their parent,
    as "partitioned table". ``observed_blocks`` are those that PostgreSQL read and wrote, per
    second, while observed.
    """

    kind: str
    name: str | None  # a relation's full name
    relations: int
    size_bytes: int | None
    reads: float
    writes: float
    bytes_per_second: float
    observed_blocks: float | None = None

    @property
    def iops(self) -> float:
        """Device operations per second."""
        return self.reads + self.writes

    @property
    def density(self) -> float | None:
        """Operations per second of each GiB; None where it has no size of its own."""
        return self.iops / (self.size_bytes / GIB) if self.size_bytes else None


@dataclass(frozen=True, slots=True)
class Contents:
    """What is on one volume: the busiest first, the rest summed; and the space it takes."""

    volume: str
    shares: tuple[Share, ...]
    used_bytes: int


def contents(
    prediction: Prediction, profile: Profile, *, shown: int = 8, are_parts_summed: bool = True
) -> tuple[Contents, ...]:
    """What is on each volume, ``shown`` relations of each by name; partitions as one, or each."""
    workload = workload_of(profile)
    tps = prediction.performance.tps
    layout = prediction.layout
    names = profile.server.shown_as() if are_parts_summed else {}
    by_volume = _relations_by_volume(prediction, profile, workload, names)
    temp = layout.postgres.temp or (layout.postgres.data,)
    found = []
    loads = {load.volume: load for load in prediction.volumes}
    for volume in layout.volumes:
        shares = _as_predicted(by_volume.get(volume.name, []), loads[volume.name].reads)
        shares.sort(key=lambda share: (-share.iops, -(share.size_bytes or 0), share.name or ""))
        one = shares[:shown]
        rest = shares[shown:]
        if len(rest) == 1:  # a sum of one would only hide its name
            one, rest = shares, []
        used = sum(share.size_bytes or 0 for share in shares)
        special = []
        if volume.name == layout.postgres.wal:
            special.append(wal_share(prediction, profile, workload))
            used += special[-1].size_bytes or 0
        if volume.name in temp and workload.temp_bytes > 0:
            special.append(_temp(workload.temp_bytes * tps / len(temp)))
        listed = sorted([*one, *special], key=lambda share: -share.iops)
        found.append(Contents(volume.name, (*listed, *_summed(rest)), used))
    return tuple(found)


def asked(works: list[RelationWork], tps: float, workload: Workload) -> tuple[float, float, float]:
    """Reads, writes and bytes per second of some relations' work at a speed."""
    random = sum(work.reads for work in works)
    sequential = sum(work.sequential_reads for work in works)
    writes = sum(work.writes for work in works)
    size = random * workload.read_bytes + writes * workload.write_bytes
    size += sequential * SEQUENTIAL_READ_BYTES
    return (random + sequential) * tps, writes * tps, size * tps


def work_by_owner(profile: Profile, workload: Workload) -> dict[RelationId, list[RelationWork]]:
    """The work of each relation, with that of its TOAST."""
    owners = {relation.id: relation.owner for relation in profile.server.relations}
    grouped: dict[RelationId, list[RelationWork]] = {}
    for work in workload.relations:
        grouped.setdefault(owners[work.relation], []).append(work)
    return grouped


def _relations_by_volume(
    prediction: Prediction,
    profile: Profile,
    workload: Workload,
    shown: Mapping[RelationId, tuple[RelationId, str]],
) -> dict[str, list[Share]]:
    tps = prediction.performance.tps
    volume_of = volumes_of_relations(prediction.layout, profile.server.relations)
    observed = {demand.relation: demand.blocks for demand in profile.demands}
    grouped: dict[tuple[str, RelationId, str], list[RelationWork]] = {}
    owners: dict[tuple[str, RelationId, str], int] = {}
    for owner, works in work_by_owner(profile, workload).items():
        key = (volume_of[works[0].relation].name, *shown.get(owner, (owner, "table")))
        grouped.setdefault(key, []).extend(works)
        owners[key] = owners.get(key, 0) + 1
    by_volume: dict[str, list[Share]] = {}
    for key, works in grouped.items():
        volume, name, kind = key
        reads, writes, rate = asked(works, tps, workload)
        share = Share(
            kind=kind,
            name=str(name),
            relations=owners[key],
            size_bytes=sum(work.size_bytes for work in works),
            reads=reads,
            writes=writes,
            bytes_per_second=rate,
            observed_blocks=sum(observed.get(work.relation, 0.0) for work in works),
        )
        by_volume.setdefault(volume, []).append(share)
    return by_volume


def _as_predicted(shares: list[Share], reads: float) -> list[Share]:
    """Shares that read no more than their volume does: a larger memory leaves less of each."""
    asked_reads = sum(share.reads for share in shares)
    if asked_reads <= reads * _NOISE:
        return shares
    left = reads / asked_reads
    return [
        replace(
            share,
            reads=share.reads * left,
            bytes_per_second=share.bytes_per_second
            * (share.reads * left + share.writes)
            / share.iops
            if share.iops
            else 0.0,
        )
        for share in shares
    ]


def wal_share(prediction: Prediction, profile: Profile, workload: Workload) -> Share:
    """Flushes by group commit at the predicted flush time, and the bytes written."""
    tps = prediction.performance.tps
    commits, background = workload.write_fraction * tps, workload.background_wal_writes * tps
    flush_s = (prediction.performance.wal_sync_us or 0.0) / 1e6
    flushes = flush_rate(commits, flush_s)
    written = commits * workload.wal_bytes + background * workload.background_wal_bytes
    return Share(
        kind=WAL_KIND,
        name=None,
        relations=0,
        size_bytes=round(wal_gib(profile) * GIB),
        reads=0.0,
        writes=flushes + background,
        # a flush writes whole pages, of which it fills the first and the last in part
        bytes_per_second=written + flushes * BLOCK_BYTES,
    )


def _temp(bytes_per_second: float) -> Share:
    """Temporary files: each byte written once and read once."""
    operations = bytes_per_second / SEQUENTIAL_READ_BYTES
    return Share(TEMP_KIND, None, 0, None, operations, operations, 2 * bytes_per_second)


def _summed(rest: list[Share]) -> tuple[Share, ...]:
    if not rest:
        return ()
    return (
        Share(
            kind=REST_KIND,
            name=None,
            relations=sum(share.relations for share in rest),
            size_bytes=sum(share.size_bytes or 0 for share in rest),
            reads=sum(share.reads for share in rest),
            writes=sum(share.writes for share in rest),
            bytes_per_second=sum(share.bytes_per_second for share in rest),
            observed_blocks=sum(share.observed_blocks or 0.0 for share in rest),
        ),
    )
