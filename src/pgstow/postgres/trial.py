"""A server's counters as a trial needs them, and its sessions' waits: one connection, kept."""

from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from pgstow.postgres.connect import connect, server_errors
from pgstow.postgres.queries import query

IoKey = tuple[str, str, str]  # backend type, object, context


@dataclass(frozen=True, slots=True)
class WalTotals:
    """The WAL's cost since its statistics began. None: not timed."""

    bytes: float
    records: int
    full_page_images: int
    writes: int
    syncs: int
    write_ms: float | None
    sync_ms: float | None


@dataclass(frozen=True, slots=True)
class IoTotals:
    """A row of pg_stat_io since its statistics began. None: not timed."""

    reads: int
    read_bytes: float
    read_ms: float | None
    writes: int
    write_bytes: float
    write_ms: float | None
    extends: int
    hits: int
    evictions: int
    fsyncs: int
    fsync_ms: float | None


@dataclass(frozen=True, slots=True)
class CheckpointTotals:
    """Checkpoints since their statistics began."""

    timed: int
    requested: int
    buffers_written: int
    write_ms: float
    sync_ms: float


@dataclass(frozen=True, slots=True)
class TrialCounters:
    """All counters at one instant. ``resets`` says when each kind was reset last."""

    started_at: datetime
    database_bytes: int
    wal: WalTotals
    io: dict[IoKey, IoTotals] | None  # None: the server (before 16) has no such view
    checkpoints: CheckpointTotals
    resets: dict[str, datetime | None]


class TrialSession:
    """The instruments' connection; a context manager. Failures are a :class:`ServerError`."""

    def __init__(self, dsn: str) -> None:
        self._connection = connect(dsn, purpose="observe")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def counters(self) -> TrialCounters:
        """Read every counter once."""
        with server_errors("reading the server's statistics"):
            started_at, size, timed, wal_timed, sync_in_write = self._row("trial_server")
            resets: dict[str, datetime | None] = {}
            return TrialCounters(
                started_at=started_at,
                database_bytes=size or 0,
                wal=self._wal(resets, timed=wal_timed, sync_in_write=sync_in_write),
                io=self._io(resets, timed=timed),
                checkpoints=self._checkpoints(resets),
                resets=resets,
            )

    def settings(self) -> tuple[tuple[str, str], ...]:
        """The settings that somebody set, and those that storage depends on; none holds a secret or
        a path."""
        with server_errors("reading the server's settings"):
            return tuple((name, value) for name, value in self._rows("trial_settings"))

    def wal_writes(self) -> tuple[int, float | None]:
        """How often the WAL was written so far, and how long that took in ms."""
        with server_errors("sampling the WAL's writes"):
            name = "trial_wal_writes_io" if self._version >= 180000 else "trial_wal_writes"
            writes, write_ms, timed = self._row(name)
            return int(writes), float(write_ms) if timed else None

    def waits(self) -> dict[str, int]:
        """How many sessions execute something now, by wait event; "CPU" for none."""
        with server_errors("sampling the sessions' waits"):
            rows = self._connection.execute(query("active_waits"), prepare=True).fetchall()
        return dict(rows)

    def _wal(
        self, resets: dict[str, datetime | None], *, timed: bool, sync_in_write: bool
    ) -> WalTotals:
        name = "counters_wal_io" if self._version >= 180000 else "counters_wal"
        size, records, images, writes, syncs, write_ms, sync_ms, resets["wal"] = self._row(name)
        if sync_in_write:  # every write is a flush too, and none is counted as one
            syncs, sync_ms = writes, write_ms
        if not timed:
            write_ms = sync_ms = None
        return WalTotals(size, records, images, writes, syncs, write_ms, sync_ms)

    def _io(
        self, resets: dict[str, datetime | None], *, timed: bool
    ) -> dict[IoKey, IoTotals] | None:
        if self._version < 160000:
            return None
        found = {}
        name = "trial_io_bytes" if self._version >= 180000 else "trial_io"
        for row in self._rows(name):
            (backend, object_, context), totals, resets["io"] = row[:3], row[3:-1], row[-1]
            one = IoTotals(*totals)
            if not timed and object_ != "wal":
                one = replace(one, read_ms=None, write_ms=None, fsync_ms=None)
            found[(backend, object_, context)] = one
        return found

    def _checkpoints(self, resets: dict[str, datetime | None]) -> CheckpointTotals:
        name = "trial_checkpointer" if self._version >= 170000 else "trial_checkpoints"
        *totals, resets["checkpoints"] = self._row(name)
        return CheckpointTotals(*totals)

    @property
    def _version(self) -> int:
        return self._connection.info.server_version

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query(name)).fetchall()

    def _row(self, name: str) -> tuple[Any, ...]:
        (row,) = self._rows(name)
        return row
