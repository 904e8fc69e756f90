"""Read a server's cumulative counters, again and again, over connections that are kept."""

from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import psycopg

from pgstow.model.errors import PgstowError
from pgstow.postgres.connect import Connection, connect, server_errors
from pgstow.postgres.counters import (
    DatabaseCounters,
    RelationCounters,
    RelationKey,
    ServerSample,
    WalCounters,
    WriteCounters,
)
from pgstow.postgres.queries import query

_KEPT_CONNECTIONS = 16  # of more databases each sample reconnects, to leave the server its slots
_SYNC_IN_WRITE = ("open_sync", "open_datasync")


class Sampler:
    """Takes samples of one server; a context manager that closes its connections."""

    def __init__(self, dsn: str, databases: Sequence[str], clock: Callable[[], float]) -> None:
        self._dsn = dsn
        self._databases = tuple(databases)
        self._clock = clock
        self._connections: dict[str | None, Connection] = {}
        self._transactions = 0
        self._busy_s = 0.0

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
        """Close every connection; the next sample opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def sample(self) -> ServerSample:
        """Read every counter once; raises a PgstowError where the server does not answer."""
        with server_errors("reading the server's statistics"):
            return self._sample()

    def _sample(self) -> ServerSample:
        at_s = self._clock()
        started_at, next_id, clients, busy, subtransactions = self._row(None, "counters_server")
        resets: dict[str, datetime | None] = {}
        databases = {}
        for name, transactions, busy_ms, temp_bytes, reset in self._rows(None, "counters_database"):
            databases[name] = DatabaseCounters(transactions, busy_ms or 0.0, temp_bytes)
            resets[f"database {name}"] = reset
        wal = self._wal(resets)
        writes = self._writes(resets)
        relations, gone = self._relations()
        return ServerSample(
            at_s=at_s,
            started_at=started_at,
            next_transaction_id=next_id,
            client_backends=clients,
            busy_backends=busy,
            subtransactions=subtransactions,
            databases=databases,
            wal=wal,
            writes=writes,
            relations=relations,
            resets=resets,
            own_transactions=self._transactions,
            own_busy_ms=self._busy_s * 1000,
            gone=gone,
        )

    def _relations(self) -> tuple[dict[RelationKey, RelationCounters], tuple[str, ...]]:
        found: dict[RelationKey, RelationCounters] = {}
        gone = []
        for database in self._databases:
            try:
                for oid, *counters in self._rows(database, "counters_relation"):
                    found[(database, oid)] = RelationCounters._make(counters)
            except (psycopg.Error, PgstowError):
                if self._connection(None).closed:
                    raise
                self._drop(database)  # dropped, or closed to us: the other databases still answer
                gone.append(database)
            if len(self._databases) > _KEPT_CONNECTIONS:
                self._drop(database)
        return found, tuple(gone)

    def _wal(self, resets: dict[str, datetime | None]) -> WalCounters:
        name = "counters_wal_io" if self._version() >= 180000 else "counters_wal"
        size, _, images, writes, syncs, write_ms, sync_ms, reset = self._row(None, name)
        timed, method = self._row(None, "wal_timing")
        resets["wal"] = reset
        if method in _SYNC_IN_WRITE:  # every write is a flush too, and none is counted as one
            syncs, sync_ms = writes, write_ms
        if not timed:
            write_ms = sync_ms = None
        return WalCounters(size, images, writes, syncs, write_ms, sync_ms)

    def _writes(self, resets: dict[str, datetime | None]) -> WriteCounters:
        version = self._version()
        checkpoints = "counters_checkpointer" if version >= 170000 else "counters_checkpoint"
        backends = "counters_backend_writes"
        if version >= 180000:
            backends = "counters_backend_io_bytes"
        elif version >= 160000:
            backends = "counters_backend_io"
        timed, requested, written, cleaned, resets["checkpoints"] = self._row(None, checkpoints)
        by_backends, resets["backend writes"] = self._row(None, backends)
        return WriteCounters(timed, requested, written, cleaned, by_backends)

    def _version(self) -> int:
        return self._connection(None).info.server_version

    def _connection(self, database: str | None) -> Connection:
        found = self._connections.get(database)
        if found is None:
            found = self._connections[database] = connect(self._dsn, database, purpose="observe")
        return found

    def _drop(self, database: str) -> None:
        connection = self._connections.pop(database, None)
        if connection is not None:
            connection.close()

    def _rows(self, database: str | None, name: str) -> list[tuple[Any, ...]]:
        connection = self._connection(database)
        began_s = self._clock()
        rows = connection.execute(query(name)).fetchall()
        self._busy_s += self._clock() - began_s
        self._transactions += 1  # in autocommit mode each statement is one
        return rows

    def _row(self, database: str | None, name: str) -> tuple[Any, ...]:
        (row,) = self._rows(database, name)
        return row
