"""Load the content platform into a database: parallel, without WAL where the server allows it."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files

from pgstow.experiment.workloads.content_platform import rows
from pgstow.experiment.workloads.content_platform.tables import (
    DEFAULT_SCALE,
    DOCUMENTED,
    Extent,
    documented,
    extent,
)
from pgstow.model.errors import UserError
from pgstow.postgres import connect
from pgstow.postgres.connect import Connection, server_errors
from pgstow.units import Bytes

DATABASE = "content_platform"
DEFAULT_SEED = 20261120

Progress = Callable[[float, float], None]

# With these a table made in the same transaction is loaded without WAL and nothing is flushed: for
# a server whose data may be lost until it was stopped in order and restarted with others.
LOAD_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "256MB",
    "max_parallel_maintenance_workers": "0",
    "autovacuum": "off",
}

# The two longest first, and then what is left: so that two connections end together.
_ORDER = ("analytics_events", "articles", "old_articles", "analytics_daily", "subscriptions")
_INDEX_SHARE = 0.25  # of a table's work, for progress


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded, and how long it took."""

    extent: Extent
    seconds: float
    sizes: tuple[tuple[str, int], ...]  # bytes of each documented relation

    def size_bytes(self, relation: str) -> Bytes:
        """The size of one of them."""
        return Bytes(dict(self.sizes)[relation])


def create_database(dsn: str) -> None:
    """Make the database ``content_platform``; ``dsn`` names another of the same server."""
    with connect(dsn, purpose="experiment") as connection, server_errors("creating the database"):
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())


def load(
    dsn: str,
    *,
    database: str | None = DATABASE,
    scale: float = DEFAULT_SCALE,
    seed: int = DEFAULT_SEED,
    connections: int = 2,
    progress: Progress | None = None,
) -> Loaded:
    """Make, fill, index, freeze and analyse all tables at 1/``scale`` of the document's sizes."""
    target_extent = extent(scale)
    began = time.monotonic()
    _refuse_present(dsn, database)
    tracker = _Tracker(target_extent, progress)
    with ThreadPoolExecutor(connections, thread_name_prefix="load") as pool:
        futures = [
            pool.submit(
                _load_table,
                dsn,
                database,
                table,
                target_extent=target_extent,
                seed=seed,
                tracker=tracker,
            )
            for table in _ORDER
        ]
        try:
            for future in futures:
                future.result()
        except BaseException:
            tracker.stop.set()
            for future in futures:
                future.cancel()
            raise
    with (
        connect(dsn, database, purpose="experiment") as connection,
        server_errors("VACUUM of the loaded tables"),
    ):
        # Rows came frozen: this only writes the indexes' and tables' statistics.
        connection.execute(f"VACUUM (FREEZE, ANALYZE) {', '.join(_ORDER)}".encode())
        sizes = _sizes(connection)
    tracker.finish()
    return Loaded(target_extent, time.monotonic() - began, sizes)


class _Tracker:
    """Progress of several loads at once, in bytes of the documented sizes; and the word to stop."""

    def __init__(self, target_extent: Extent, progress: Progress | None) -> None:
        self._lock = threading.Lock()
        self._progress = progress
        self._done = 0.0
        self._total = sum(documented(table).size_bytes for table in _ORDER) / target_extent.scale
        self.stop = threading.Event()

    def add(self, done: float) -> None:
        """So many bytes more are done."""
        with self._lock:
            self._done += done
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        """All is done."""
        self.add(self._total)


class _StoppedError(Exception):
    """Another table's load failed."""


def _load_table(
    dsn: str,
    database: str | None,
    table: str,
    *,
    target_extent: Extent,
    seed: int,
    tracker: _Tracker,
) -> None:
    size = documented(table).size_bytes / target_extent.scale
    share = size * (1 - _INDEX_SHARE) / target_extent.rows(table)
    names = ", ".join(name for name, _ in rows.COLUMNS[table])
    with (
        connect(dsn, database, purpose="experiment") as connection,
        server_errors(f"loading {table}"),
        connection.transaction(),
    ):
        # Made in this transaction, so that neither COPY nor the indexes write WAL (with wal_level
        # minimal) and the rows can be frozen at once.
        connection.execute(statement("tables", table))
        copy = f"COPY {table} ({names}) FROM STDIN (FORMAT binary, FREEZE)"
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as writer:
            writer.write(rows.COPY_HEADER)
            for count, part in rows.chunks(table, target_extent, seed):
                writer.write(part)
                tracker.add(count * share)
                if tracker.stop.is_set():
                    raise _StoppedError
            writer.write(rows.COPY_TRAILER)
        connection.execute(statement("indexes", table))
    tracker.add(size * _INDEX_SHARE)


def statement(file: str, table: str) -> bytes:
    """The part of a packaged SQL file that is under ``-- table:``."""
    text = files("pgstow").joinpath(f"data/content-platform/{file}.sql").read_text("utf-8")
    for part in text.split("\n-- ")[1:]:
        name, _, body = part.partition(":\n")
        if name == table:
            return body.strip().encode()
    raise KeyError(f"{file}.sql has nothing for {table}")


def _refuse_present(dsn: str, database: str | None) -> None:
    with connect(dsn, database, purpose="experiment") as connection:
        present = [name for name, _ in _sizes(connection)]
        if present:
            raise UserError(
                f"relation {present[0]} is in database {connection.info.dbname} already",
                "load into an empty database",
            )


def _sizes(connection: Connection) -> tuple[tuple[str, int], ...]:
    names: Sequence[str] = [relation.name for relation in DOCUMENTED]
    found = connection.execute(
        "SELECT relname, pg_relation_size(oid) FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relname = ANY (%s)",
        (list(names),),
    ).fetchall()
    sizes: dict[str, int] = dict(found)
    return tuple((name, sizes[name]) for name in names if name in sizes)
