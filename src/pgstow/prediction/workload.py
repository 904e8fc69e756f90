"""A profile, turned into what one transaction asks of CPU, volumes and WAL.

PostgreSQL's own counters are logical: a block "read" may come from the page cache. Where the host
was seen, reads and writes of each volume are scaled so that their sum is what reached its device.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pgstow.model import DeviceTraffic, Layout, Profile, Relation, RelationId, UserError, Volume
from pgstow.units import BLOCK_BYTES

SEQUENTIAL_READ_BYTES = 128 * 1024  # Linux's default read-ahead window, read_ahead_kb=128


@dataclass(frozen=True, slots=True)
class RelationWork:
    """What one transaction asks of one relation's volume, on average."""

    relation: RelationId
    size_bytes: int
    reads: float  # random reads that reach the device
    sequential_reads: float  # reads of sequential_read_bytes each
    writes: float  # device writes of checkpointer, background writer and write-back


@dataclass(frozen=True, slots=True)
class Workload:
    """A closed load: ``clients`` that think, compute, read, and commit.

    Rates are per transaction, so that they hold at any speed. ``write_fraction`` of transactions
    flush the WAL.
    """

    transactions_per_second: float  # as observed
    clients: int
    think_us: float
    cores: int
    cpu_us: float
    write_fraction: float
    wal_bytes: float  # of one transaction that writes
    write_bytes: float  # mean size of a background write
    temp_bytes: float
    relations: tuple[RelationWork, ...]
    is_physical: bool  # False: the page cache's share could not be seen

    @property
    def reads(self) -> float:
        """Random device reads of one transaction."""
        return sum(r.reads for r in self.relations)


def places(layout: Layout, relations: Iterable[Relation]) -> dict[RelationId, Volume]:
    """Where a layout puts each relation; what belongs to a table's TOAST lies with the table."""
    placed = {
        r: layout.volume(space.volume) for space in layout.tablespaces for r in space.relations
    }
    data = layout.volume(layout.postgres.data)
    return {relation.id: placed.get(relation.owner, data) for relation in relations}


def workload_of(profile: Profile) -> Workload:
    """Reduce a profile to per-transaction demands.

    Raises UserError where nothing ran: there is then nothing to predict from.
    """
    tps = profile.activity.transactions.mean
    if tps <= 0:
        raise UserError(
            "the profile saw no transactions", "observe the server again while its load runs"
        )
    clients = max(1, round(profile.activity.client_backends.mean))
    # Interactive response time law: N = X (R + Z), with N the sessions and X R those at work.
    active = min(profile.activity.active_sessions.mean, clients)
    relations = {relation.id: relation for relation in profile.server.relations}
    volumes = {
        relation: volume.name
        for relation, volume in places(profile.layout, profile.server.relations).items()
    }
    scales = _Scales.of(profile, volumes)
    host = profile.host
    cores = host.cores if host else 4
    busy_cores = host.busy_cores.mean if host else min(active, cores) * 0.5
    writing = profile.activity.write_transactions.mean
    return Workload(
        transactions_per_second=tps,
        clients=clients,
        think_us=max(0.0, (clients - active) / tps * 1e6),
        cores=cores,
        cpu_us=busy_cores / tps * 1e6,
        write_fraction=min(1.0, writing / tps),
        wal_bytes=profile.wal.bytes.mean / writing if writing > 0 else 0.0,
        write_bytes=scales.write_bytes,
        temp_bytes=profile.background.temp_bytes.mean / tps,
        relations=tuple(_relation_works(profile, relations, volumes, scales)),
        is_physical=host is not None,
    )


def _relation_works(
    profile: Profile,
    relations: dict[RelationId, Relation],
    volumes: dict[RelationId, str],
    scales: "_Scales",
) -> list[RelationWork]:
    tps = profile.activity.transactions.mean
    works = []
    for demand in profile.demands:
        relation = relations.get(demand.relation)
        if relation is None:
            continue
        volume = volumes[demand.relation]
        read_scale = scales.reads.get(volume, 1.0)
        sequential = demand.sequential_read_bytes.mean * read_scale / SEQUENTIAL_READ_BYTES
        works.append(
            RelationWork(
                relation=demand.relation,
                size_bytes=relation.size_bytes,
                reads=demand.random_reads.mean * read_scale / tps,
                sequential_reads=sequential / tps,
                writes=demand.block_writes.mean * scales.writes.get(volume, 1.0) / tps,
            )
        )
    seen = {work.relation for work in works}
    works += [
        RelationWork(relation.id, relation.size_bytes, 0.0, 0.0, 0.0)
        for relation in profile.server.relations
        if relation.id not in seen
    ]
    return works


@dataclass(frozen=True, slots=True)
class _Scales:
    """Device operations per logical block, by volume."""

    reads: dict[str, float]
    writes: dict[str, float]
    write_bytes: float

    @classmethod
    def of(cls, profile: Profile, volumes: dict[RelationId, str]) -> "_Scales":
        reads: dict[str, float] = {}
        writes: dict[str, float] = {}
        sizes: list[tuple[float, float]] = []
        for device in profile.host.devices if profile.host else ():
            if device.volume is None:
                continue
            logical = _logical(profile, volumes, device.volume)
            if logical.reads > 0:
                reads[device.volume] = device.reads.mean / logical.reads
            data_writes, data_bytes = _data_writes(profile, device)
            if logical.writes > 0:
                writes[device.volume] = data_writes / logical.writes
            sizes.append((data_writes, data_bytes))
        operations = sum(count for count, _ in sizes)
        volume_bytes = sum(size for _, size in sizes)
        mean_bytes = volume_bytes / operations if operations > 0 else BLOCK_BYTES
        return cls(reads, writes, max(mean_bytes, 512.0))


@dataclass(frozen=True, slots=True)
class _Logical:
    reads: float
    writes: float


def _logical(profile: Profile, volumes: dict[RelationId, str], volume: str) -> _Logical:
    """What PostgreSQL says it asked of one volume, in operations per second."""
    reads = writes = 0.0
    for demand in profile.demands:
        if volumes.get(demand.relation) != volume:
            continue
        reads += demand.random_reads.mean
        reads += demand.sequential_read_bytes.mean / SEQUENTIAL_READ_BYTES
        writes += demand.block_writes.mean
    return _Logical(reads, writes)


def _data_writes(profile: Profile, device: DeviceTraffic) -> tuple[float, float]:
    """A device's writes less the WAL's where it lies there too: operations and bytes a second.

    A flush of the WAL reaches the device as one write: it is contiguous.
    """
    operations, size = device.writes.mean, device.write_bytes.mean
    if device.volume == profile.layout.postgres.wal:
        operations -= profile.wal.syncs.mean
        size -= max(profile.wal.bytes.mean, profile.wal.syncs.mean * BLOCK_BYTES)
    return max(operations, 0.0), max(size, 0.0)
