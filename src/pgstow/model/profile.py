"""Profiles: what a server's relations, WAL and temporary files asked of its disks."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model.provenance import Rate, Warning
from pgstow.model.storage import DEFAULT_TABLESPACE, Layout, RelationId
from pgstow.units import BLOCK_BYTES, Bytes

RelationKind = Literal["table", "index", "toast", "toast index", "materialized view"]


@dataclass(frozen=True, slots=True)
class Relation:
    """What has a file of its own. ``table`` is the owner of an index or TOAST table.

    ``ancestors`` are the partitioned relations above ``partition_of``, the nearest first.
    """

    id: RelationId
    kind: RelationKind
    size_bytes: Bytes
    tablespace: str = DEFAULT_TABLESPACE
    table: RelationId | None = None
    partition_of: RelationId | None = None
    persistence: Literal["permanent", "unlogged"] = "permanent"
    is_exclusion: bool = False  # of an index: it cannot be rebuilt concurrently
    ancestors: tuple[RelationId, ...] = ()

    @property
    def lineage(self) -> tuple[RelationId, ...]:
        """The partitioned relations it is a part of, the nearest first."""
        return () if self.partition_of is None else (self.partition_of, *self.ancestors)

    @property
    def owner(self) -> RelationId:
        """What this is stored with: of a TOAST table and its index their table, else itself."""
        is_toast = self.kind in ("toast", "toast index")
        return self.table if is_toast and self.table is not None else self.id


@dataclass(frozen=True, slots=True)
class Demand:
    """What one relation asked of the devices, per second.

    ``random_reads`` are 8 KiB blocks that missed shared buffers outside sequential scans (what
    the page cache then served is still in: see :attr:`Profile.physical_read_ratio`),
    ``sequential_read_bytes`` those of scans, ``block_writes`` blocks written back (attributed from
    tuple changes), ``tuple_writes`` rows inserted, updated and deleted, ``buffer_hits`` blocks
    found in shared buffers. ``growth_bytes`` are of rows inserted less those deleted.
    """

    relation: RelationId
    random_reads: Rate
    sequential_read_bytes: Rate
    block_writes: Rate
    tuple_writes: Rate
    buffer_hits: Rate
    growth_bytes: Rate | None = None  # None: not known

    @property
    def blocks(self) -> float:
        """Blocks read and written, those of scans among them."""
        scanned = self.sequential_read_bytes.mean / BLOCK_BYTES
        return self.random_reads.mean + scanned + self.block_writes.mean


@dataclass(frozen=True, slots=True)
class WalDemand:
    """What the WAL asked, per second. ``sync_us`` needs track_wal_io_timing; None: unknown."""

    bytes: Rate
    writes: Rate
    syncs: Rate
    full_page_images: Rate
    sync_us: float | None
    write_us: float | None


@dataclass(frozen=True, slots=True)
class BackgroundWrites:
    """Blocks per second written by checkpointer, background writer and backends; temp bytes."""

    checkpointer: Rate
    background_writer: Rate
    backends: Rate
    temp_bytes: Rate
    checkpoints_timed: int
    checkpoints_requested: int


@dataclass(frozen=True, slots=True)
class Activity:
    """How busy the clients were.

    ``active_sessions`` is the mean number executing or idle in transaction, so latency is
    active_sessions / transactions by Little's law. ``write_transactions`` are those that took a
    transaction ID: what commits and flushes. Subtransactions that write take one each too;
    ``subtransactions`` is how many did at the most, where the server counts it.
    """

    transactions: Rate
    write_transactions: Rate
    active_sessions: Rate
    client_backends: Rate
    subtransactions: Rate | None = None


@dataclass(frozen=True, slots=True)
class DeviceTraffic:
    """What reached one block device, per second, from /proc/diskstats. ``volume``: the layout's."""

    device: str
    volume: str | None
    reads: Rate
    writes: Rate
    read_bytes: Rate
    write_bytes: Rate
    read_ms: float | None  # mean time a read took
    write_ms: float | None
    queue: Rate  # mean requests in flight
    flushes: Rate | None = None


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """The machine over the period; ``busy_cores`` of ``cores`` were at work."""

    cores: int
    memory_bytes: Bytes
    busy_cores: Rate
    devices: tuple[DeviceTraffic, ...]


@dataclass(frozen=True, slots=True)
class TablespaceState:
    """A tablespace the server has."""

    name: str
    location: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionedRelation:
    """A partitioned table or index: no file, but a tablespace that new partitions are made in."""

    id: RelationId
    kind: Literal["table", "index"]
    tablespace: str = DEFAULT_TABLESPACE
    lineage: tuple[RelationId, ...] = ()  # what it is a part of itself, the nearest first


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the server is like now, apart from its load: what diff compares a layout with.

    ``wal_directory`` is pg_wal's real path where the host can be seen, else None.
    ``is_local`` says that the server's data directory is on this machine.
    """

    version_num: int  # 180004
    version: str  # "18.4"
    system_identifier: str
    data_directory: str
    wal_directory: str | None
    is_local: bool
    is_in_recovery: bool
    databases: tuple[str, ...]
    tablespaces: tuple[TablespaceState, ...]
    relations: tuple[Relation, ...]
    settings: tuple[tuple[str, str], ...]  # name, value with unit as SHOW prints it
    standbys: int = 0
    partitioned: tuple[PartitionedRelation, ...] = ()

    def setting(self, name: str) -> str | None:
        """A setting's value as SHOW prints it."""
        return dict(self.settings).get(name)

    def shown_as(self) -> dict[RelationId, tuple[RelationId, str]]:
        """What each relation is shown as, and of which kind: TOAST as its table, a partition as
        the root of its hierarchy, which has no file of its own.
        """
        known = {relation.id: relation for relation in self.relations}
        found: dict[RelationId, tuple[RelationId, str]] = {}
        for relation in self.relations:
            owner = known.get(relation.owner, relation)
            parent = owner.lineage[-1] if owner.lineage else None
            kind = owner.kind if parent is None else f"partitioned {owner.kind}"
            found[relation.id] = (parent or owner.id, kind)
        return found


@dataclass(frozen=True, slots=True)
class Profile:
    """A server observed over a period."""

    started_at: str  # ISO 8601, UTC
    seconds: float
    samples: int
    server: ServerState
    layout: Layout  # the present one
    demands: tuple[Demand, ...]
    wal: WalDemand
    background: BackgroundWrites
    activity: Activity
    host: HostTraffic | None  # None: the host cannot be seen
    warnings: tuple[Warning, ...] = ()
    commit_ms: tuple[float, ...] = ()  # a probe's samples, where one ran
    tps_samples: tuple[float, ...] = ()  # of each interval, in order
    client_p99_ms: float | None = None  # of transactions, where the clients' side reported it

    def demand(self, relation: RelationId) -> Demand | None:
        """The demand of one relation; None where it asked nothing."""
        return next((d for d in self.demands if d.relation == relation), None)

    @property
    def physical_read_ratio(self) -> float | None:
        """Device reads per block read by PostgreSQL: under 1 where the page cache served some."""
        logical = sum(
            d.random_reads.mean + d.sequential_read_bytes.mean / BLOCK_BYTES for d in self.demands
        )
        if self.host is None or logical <= 0:
            return None
        return sum(d.reads.mean for d in self.host.devices if d.volume) / logical
