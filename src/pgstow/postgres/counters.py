"""Cumulative counters of a server at one instant: what sampling reads, what observe subtracts."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

RelationKey = tuple[str, int]  # database and pg_class.oid: a rename or a move does not change it


class RelationCounters(NamedTuple):
    """One relation's counters since its statistics began, and what the planner thinks its size is.

    A tuple, since a server may have hundreds of thousands in every sample.
    """

    blocks_fetched: int
    blocks_hit: int
    sequential_scans: int
    rows_scanned: int
    rows_inserted: int
    rows_updated: int
    rows_hot_updated: int
    rows_deleted: int
    pages: int  # gauges, as of the last vacuum or analyze
    rows: int


NO_COUNTERS = RelationCounters(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DatabaseCounters:
    """One database's transactions, its sessions' busy time, its temporary files."""

    transactions: int
    busy_ms: float  # executing, or idle in a transaction
    temp_bytes: int


@dataclass(frozen=True, slots=True)
class WalCounters:
    """What the WAL cost so far. Times are None where the server does not take them."""

    bytes: float
    full_page_images: int
    writes: int
    syncs: int
    write_ms: float | None
    sync_ms: float | None


@dataclass(frozen=True, slots=True)
class WriteCounters:
    """Checkpoints, and blocks written by whom."""

    checkpoints_timed: int
    checkpoints_requested: int
    checkpointer_blocks: int
    background_writer_blocks: int
    backend_blocks: int


@dataclass(frozen=True, slots=True)
class ServerSample:
    """All counters at one instant; ``at_s`` is of the observer's monotonic clock.

    ``resets`` names every kind of statistics with the time it was last reset: where one changes
    between two samples, their difference means nothing. ``own_transactions`` are pgstow's.
    """

    at_s: float
    started_at: datetime
    next_transaction_id: int
    client_backends: int
    busy_backends: int
    databases: dict[str, DatabaseCounters]
    wal: WalCounters
    writes: WriteCounters
    relations: dict[RelationKey, RelationCounters]
    resets: dict[str, datetime | None]
    own_transactions: int = 0
    own_write_transactions: int = 0
    own_busy_ms: float = 0.0
    subtransactions: int | None = None  # lookups of pg_subtrans: one of each that writes, or more
    gone: tuple[str, ...] = field(default=())  # databases that could not be read this time
