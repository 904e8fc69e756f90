"""A profile as the demand of one transaction on CPU, volumes and WAL.

PostgreSQL's own counters are logical: a block "read" may come from the page cache. Where the host
was seen, reads and writes of each volume are scaled so that their sum is what reached its device.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pgstow.model import DeviceTraffic, Layout, Profile, Relation, RelationId, UserError, Volume
from pgstow.units import BLOCK_BYTES

SEQUENTIAL_READ_BYTES = 128 * 1024  # Linux's default read-ahead window, read_ahead_kb=128
READ_AHEAD_REQUEST_BYTES = 256 * 1024  # the largest request that a volume takes whole
_SCANNED = 0.05  # share of sequential reads from which on they explain large ones
# The defaults of PostgreSQL's *_flush_after, in blocks; 0 leaves it to the kernel.
_FLUSH_AFTER = {"checkpoint_flush_after": 32, "bgwriter_flush_after": 64, "backend_flush_after": 0}
_KERNEL_BATCH = 1024  # blocks that the kernel's flusher takes of a file at a time (4 MiB at least)


@dataclass(frozen=True, slots=True)
class RelationWork:
    """The mean demand of one transaction on one relation's volume."""

    relation: RelationId
    size_bytes: int
    reads: float  # random reads that reach the device
    sequential_reads: float  # reads of sequential_read_bytes each
    writes: float  # device writes of checkpointer, background writer and write-back


@dataclass(frozen=True, slots=True)
class Workload:
    """A closed load: ``clients`` that think, compute, read, and commit.

    Rates are per transaction, so that they hold at any speed. ``write_fraction`` of transactions
    wait until their WAL is flushed; ``background_wal_writes`` are those that nobody waits for.
    """

    transactions_per_second: float  # as observed
    clients: int
    think_us: float
    cores: int
    cpu_us: float
    write_fraction: float
    wal_bytes: float  # of one transaction that writes
    write_bytes: float  # mean size of a background write
    read_bytes: float  # mean size of a random read
    flush_batches: tuple[tuple[float, int], ...]  # share of background writes, and begun together
    temp_bytes: float
    relations: tuple[RelationWork, ...]
    is_physical: bool  # False: the page cache's share could not be seen
    commit_delay_us: float = 0.0
    commit_siblings: int = 5
    background_wal_writes: float = 0.0  # of one transaction
    background_wal_bytes: float = 0.0  # of each

    @property
    def reads(self) -> float:
        """Random device reads of one transaction."""
        return sum(r.reads for r in self.relations)

    @property
    def tps_of_cores(self) -> float:
        """The throughput at which all processors are busy, on any volumes."""
        return self.cores / max(1e-9, self.cpu_us / 1e6)

    @property
    def tps_of_clients(self) -> float:
        """The throughput of clients that wait for no I/O."""
        return self.clients / max(1e-6, (self.cpu_us + self.think_us) / 1e6)

    def most_tps(self, headroom: float = 0.0) -> float:
        """The throughput that cores, less the headroom, and clients allow on any volumes."""
        return min(self.tps_of_cores * (1 - headroom), self.tps_of_clients)


def volumes_of_relations(layout: Layout, relations: Iterable[Relation]) -> dict[RelationId, Volume]:
    """The volume that stores each relation; a table's TOAST is stored with the table."""
    placed, data = named(layout), layout.volume(layout.postgres.data)
    return {relation.id: placed.get(relation.owner, data) for relation in relations}


def named(layout: Layout) -> dict[RelationId, Volume]:
    """The volumes of the relations that a layout names; all others are in the data directory."""
    placed: dict[RelationId, Volume] = {}
    for space in layout.tablespaces:
        placed |= dict.fromkeys(space.relations, layout.volume(space.volume))
    return placed


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
        for relation, volume in volumes_of_relations(
            profile.layout, profile.server.relations
        ).items()
    }
    scales = _Scales.of(profile, volumes)
    host = profile.host
    cores = host.cores if host else 4
    busy_cores = host.busy_cores.mean if host else min(active, cores) * 0.5
    commits = _Commits.of(profile, clients)
    return Workload(
        transactions_per_second=tps,
        clients=clients,
        think_us=max(0.0, (clients - active) / tps * 1e6),
        cores=cores,
        # A transaction computes no longer than it is under way: what is over that, others used.
        cpu_us=min(busy_cores, active) / tps * 1e6,
        write_fraction=commits.waiting / tps,
        wal_bytes=commits.bytes_each,
        write_bytes=scales.write_bytes,
        read_bytes=scales.read_bytes,
        flush_batches=_flush_batches(profile),
        temp_bytes=profile.background.temp_bytes.mean / tps,
        relations=tuple(_relation_works(profile, relations, volumes, scales)),
        is_physical=host is not None,
        commit_delay_us=float(profile.server.setting("commit_delay") or 0),
        commit_siblings=int(profile.server.setting("commit_siblings") or 5),
        background_wal_writes=commits.background_writes / tps,
        background_wal_bytes=commits.background_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Commits:
    """Commits a second that wait for the WAL, and the writes of it that nobody waits for."""

    waiting: float
    bytes_each: float  # of those
    background_writes: float = 0.0
    background_bytes: float = 0.0  # of each

    @classmethod
    def of(cls, profile: Profile, clients: int) -> "_Commits":
        """As far as the profile can tell.

        Transaction IDs of subtransactions are of no commit; as what the server counts of them has
        lookups of others in it, commits are no fewer than flushes. With synchronous_commit off
        nobody waits; where single sessions set it, so many wait at most as flushes can serve: each
        one the commits of all clients.
        """
        activity, wal = profile.activity, profile.wal
        own = activity.write_transactions.mean
        if activity.subtransactions is not None:
            own = max(own - activity.subtransactions.mean, min(own, wal.syncs.mean))
        own = min(own, activity.transactions.mean)
        is_off = profile.server.setting("synchronous_commit") == "off"
        waiting = 0.0 if is_off else own
        if wal.syncs.mean > 0:
            waiting = min(waiting, wal.syncs.mean * clients)
        if waiting > 0:
            # what the others wrote goes out with the next flush that is waited for
            return cls(waiting, wal.bytes.mean / waiting)
        writes = wal.writes.mean or wal.syncs.mean
        each = wal.bytes.mean / writes if writes > 0 else 0.0
        return cls(0.0, 0.0, writes if each > 0 else 0.0, each)


def _flush_batches(profile: Profile) -> tuple[tuple[float, int], ...]:
    """The shares of background writes by their process, with how many it begins together."""
    background = profile.background
    rates = {
        "checkpoint_flush_after": background.checkpointer.mean,
        "bgwriter_flush_after": background.background_writer.mean,
        "backend_flush_after": background.backends.mean,
    }
    total = sum(rates.values())
    if total <= 0:
        return ((1.0, 1),)
    return tuple(
        (rate / total, _blocks(profile.server.setting(name), _FLUSH_AFTER[name]) or _KERNEL_BATCH)
        for name, rate in rates.items()
        if rate > 0
    )


def _blocks(setting: str | None, default: int) -> int:
    """A setting of so many blocks as SHOW prints it.

    >>> _blocks("256kB", 0), _blocks("1MB", 0), _blocks("0", 5), _blocks(None, 5)
    (32, 128, 0, 5)
    """
    if setting is None:
        return default
    for unit, size in (("kB", 1024), ("MB", 1024**2)):
        if setting.endswith(unit):
            return int(setting.removesuffix(unit)) * size // BLOCK_BYTES
    return int(setting)


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
        large = scales.large.get(volume, 0.0)
        sequential = demand.sequential_read_bytes.mean * read_scale / SEQUENTIAL_READ_BYTES
        sequential += demand.random_reads.mean * read_scale * large
        works.append(
            RelationWork(
                relation=demand.relation,
                size_bytes=relation.size_bytes,
                reads=demand.random_reads.mean * read_scale * (1 - large) / tps,
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
    read_bytes: float
    large: dict[str, float]  # of "random" reads, the share that read-ahead made large

    @classmethod
    def of(cls, profile: Profile, volumes: dict[RelationId, str]) -> "_Scales":
        reads: dict[str, float] = {}
        writes: dict[str, float] = {}
        large: dict[str, float] = {}
        sizes: list[tuple[float, float]] = []
        small: list[tuple[float, float]] = []
        for device in profile.host.devices if profile.host else ():
            if device.volume is None:
                continue
            logical = _logical(profile, volumes, device.volume)
            if logical.reads > 0:
                operations, large[device.volume], size = _read_sizes(device, logical)
                reads[device.volume] = operations / logical.reads
                small.append((operations, operations * size))
            data_writes, data_bytes = _data_writes(profile, device)
            if logical.writes > 0:
                writes[device.volume] = data_writes / logical.writes
            sizes.append((data_writes, data_bytes))
        return cls(reads, writes, _mean_bytes(sizes), _mean_bytes(small), large)


def _mean_bytes(sizes: list[tuple[float, float]]) -> float:
    """The mean size of operations, from counts with their bytes; a block where there were none."""
    operations = sum(count for count, _ in sizes)
    total = sum(size for _, size in sizes)
    return max(total / operations, 512.0) if operations > 0 else float(BLOCK_BYTES)


def _read_sizes(device: DeviceTraffic, logical: "_Logical") -> tuple[float, float, float]:
    """Reads per second as counted here, the share of large ones among the random ones, and the
    bytes of a small one.

    Scans in an index's order are random reads to PostgreSQL, but the kernel reads ahead in the
    table. So where reads are larger in the mean than two blocks and no sequential scan says why,
    they are taken as a mixture of blocks and of reads ahead, whose bytes are the device's.
    """
    operations, total = device.reads.mean, device.read_bytes.mean
    if operations <= 0:
        return 0.0, 0.0, float(BLOCK_BYTES)
    mean = total / operations
    if mean <= 2 * BLOCK_BYTES or logical.sequential_share > _SCANNED:
        size = mean if mean <= 2 * BLOCK_BYTES else float(BLOCK_BYTES)
        return operations, 0.0, size
    largest = float(READ_AHEAD_REQUEST_BYTES)
    ahead = (total - BLOCK_BYTES * operations) / (largest - BLOCK_BYTES)
    blocks = max(operations - ahead, 0.0)
    pieces = ahead * largest / SEQUENTIAL_READ_BYTES
    return blocks + pieces, pieces / (blocks + pieces), float(BLOCK_BYTES)


@dataclass(frozen=True, slots=True)
class _Logical:
    reads: float
    writes: float
    sequential_share: float


def _logical(profile: Profile, volumes: dict[RelationId, str], volume: str) -> _Logical:
    """PostgreSQL's own count of its operations on one volume, per second."""
    reads = writes = sequential = 0.0
    for demand in profile.demands:
        if volumes.get(demand.relation) != volume:
            continue
        reads += demand.random_reads.mean
        sequential += demand.sequential_read_bytes.mean / SEQUENTIAL_READ_BYTES
        writes += demand.block_writes.mean
    reads += sequential
    return _Logical(reads, writes, sequential / reads if reads > 0 else 0.0)


def _data_writes(profile: Profile, device: DeviceTraffic) -> tuple[float, float]:
    """A device's writes less the WAL's where it is stored there too: operations and bytes a second.

    A flush of the WAL reaches the device as one write: it is contiguous. Linux counts an empty
    flush, which fdatasync ends with, among the writes as well (measured: on a volume with WAL alone
    there are two writes and one flush to each fdatasync).
    """
    operations, size = device.writes.mean, device.write_bytes.mean
    if device.flushes is not None:
        operations -= device.flushes.mean
    if device.volume == profile.layout.postgres.wal:
        operations -= profile.wal.syncs.mean
        size -= max(profile.wal.bytes.mean, profile.wal.syncs.mean * BLOCK_BYTES)
    return max(operations, 0.0), max(size, 0.0)
