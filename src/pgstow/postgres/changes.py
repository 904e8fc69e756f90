"""The statements that change a server. Identifiers go through psycopg.sql, values as literals.

A long statement runs in a thread of its own, so that the caller can watch it from another
session, and Ctrl-C cancels it on the server rather than leaving it behind.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from pgstow.model.errors import ServerError, UserError
from pgstow.model.profile import RelationKind
from pgstow.model.storage import RelationId
from pgstow.postgres.connect import Connection

LOCK_KEY = 0x706773746F77  # "pgstow", of the advisory lock that keeps a second apply out
_CANCEL_TIMEOUT_S = 10.0
_TABLESPACE_OPTIONS = frozenset(
    {
        "seq_page_cost",
        "random_page_cost",
        "effective_io_concurrency",
        "maintenance_io_concurrency",
    }
)


class LockTimeoutError(ServerError):
    """A statement did not get its lock in time and left no trace."""


class CancelledError(ServerError):
    """A statement was cancelled, by this program or by someone else."""


class NotReloadedError(ServerError):
    """ALTER SYSTEM wrote its file, and the server was not asked to reload it."""


@contextmanager
def change_errors(doing: str) -> Iterator[None]:
    """Turn psycopg's errors into errors that say what was being done and what to do."""
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise LockTimeoutError(f"{doing}: the lock was not granted in time") from error
    except psycopg.errors.QueryCanceled as error:
        raise CancelledError(f"{doing}: {_first_line(error)}", "run apply again") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(
            f"{doing}: {_first_line(error)}", "connect as a superuser, or as the role that may"
        ) from error
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
        raise UserError(f"{doing}: {_first_line(error)}") from error
    except psycopg.errors.DiskFull as error:
        raise ServerError(
            f"{doing}: {_first_line(error)}",
            "free space on that filesystem and run apply again; nothing was changed by this step",
        ) from error
    except psycopg.Error as error:
        raise ServerError(f"{doing}: {_first_line(error)}") from error


# Every limit on time is set, whatever the role's or the database's own settings say; by the first
# version that has it.
_SESSION = {
    "statement_timeout": ("0", 0),
    "transaction_timeout": ("0", 170000),
    "idle_session_timeout": ("0", 140000),
    "idle_in_transaction_session_timeout": ("0", 0),
    "default_transaction_read_only": ("off", 0),
    # A statement must not outlive a killed client: nobody would know how it ended.
    "client_connection_check_interval": ("1s", 140000),
}


def prepare_session(connection: Connection, *, lock_timeout_s: float) -> None:
    """Make a session fit for long changes: no limit but on locks, and gone when its client is."""
    version = connection.info.server_version
    with change_errors("preparing the session"):
        for name, (value, since) in _SESSION.items():
            if version >= since:
                _set(connection, name, value)
        # What is reported done must outlive the server's crash.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'local', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
    set_lock_timeout(connection, lock_timeout_s)


def set_lock_timeout(connection: Connection, lock_timeout_s: float) -> None:
    """Limit how long a statement queues for a lock.

    Ordinary autovacuum yields to a waiting lock only when deadlock_timeout has passed, which is
    therefore made shorter, where the role may (a superuser, or one granted SET on it): see
    :func:`autovacuum_yields_after_s`.
    """
    lock_timeout_ms = max(1, round(lock_timeout_s * 1000))
    with change_errors("preparing the session"):
        _set(connection, "lock_timeout", f"{lock_timeout_ms}ms")
    if lock_timeout_ms < 3000:
        with contextlib.suppress(psycopg.Error):
            _set(connection, "deadlock_timeout", f"{max(1, lock_timeout_ms // 3)}ms")


def autovacuum_yields_after_s(connection: Connection) -> float:
    """How long a statement of this session waits for a lock until autovacuum makes way for it."""
    with change_errors("looking at deadlock_timeout"):
        row = connection.execute(
            "SELECT setting::float8 FROM pg_settings WHERE name = 'deadlock_timeout'"
        ).fetchone()
    return float(row[0]) / 1000 if row else 1.0


def create_tablespace(
    connection: Connection, name: str, location: str, options: dict[str, str]
) -> None:
    """CREATE TABLESPACE; the directory must exist, be empty and belong to the server's user."""
    statement = sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(
        sql.Identifier(name), sql.Literal(location)
    )
    if options:
        statement += sql.SQL(" WITH ({})").format(_options(options))
    with change_errors(f"creating tablespace {name!r}"):
        connection.execute(statement)


def alter_tablespace(
    connection: Connection, name: str, put: dict[str, str], reset: tuple[str, ...]
) -> None:
    """ALTER TABLESPACE … SET and RESET, in one transaction."""
    with change_errors(f"changing tablespace {name!r}"), connection.transaction():
        if put:
            _execute(
                connection,
                sql.SQL("ALTER TABLESPACE {} SET ({})"),
                sql.Identifier(name),
                _options(put),
            )
        if reset:
            _execute(
                connection,
                sql.SQL("ALTER TABLESPACE {} RESET ({})"),
                sql.Identifier(name),
                sql.SQL(", ").join(_option(option) for option in reset),
            )


def drop_tablespace(connection: Connection, name: str) -> None:
    """DROP TABLESPACE; the server refuses one that any database still uses."""
    with change_errors(f"dropping tablespace {name!r}"):
        _execute(connection, sql.SQL("DROP TABLESPACE {}"), sql.Identifier(name))


def grant_create(connection: Connection, tablespace: str) -> None:
    """Let every role put temporary files into a tablespace; else temp_tablespaces has no effect."""
    with change_errors(f"granting CREATE on tablespace {tablespace!r}"):
        _execute(
            connection,
            sql.SQL("GRANT CREATE ON TABLESPACE {} TO PUBLIC"),
            sql.Identifier(tablespace),
        )


def revoke_create(connection: Connection, tablespace: str) -> None:
    """Take :func:`grant_create` back."""
    with change_errors(f"revoking CREATE on tablespace {tablespace!r}"):
        _execute(
            connection,
            sql.SQL("REVOKE CREATE ON TABLESPACE {} FROM PUBLIC"),
            sql.Identifier(tablespace),
        )


def rebuild_index(
    connection: Connection, index: RelationId, tablespace: str, watch: Callable[[], None]
) -> None:
    """REINDEX (TABLESPACE …) INDEX CONCURRENTLY, watched."""
    statement = sql.SQL("REINDEX (TABLESPACE {}) INDEX CONCURRENTLY {}").format(
        sql.Identifier(tablespace), sql.Identifier(index.schema, index.name)
    )
    _run_watched(connection, statement, f"moving {index}", watch)


def copy_relation(
    connection: Connection,
    relation: RelationId,
    kind: RelationKind,
    tablespace: str,
    watch: Callable[[], None],
) -> None:
    """ALTER TABLE, INDEX or MATERIALIZED VIEW … SET TABLESPACE, watched."""
    words = {"index": "INDEX", "materialized view": "MATERIALIZED VIEW"}.get(kind, "TABLE")
    statement = sql.SQL("ALTER {} {} SET TABLESPACE {}").format(
        sql.SQL(words),
        sql.Identifier(relation.schema, relation.name),
        sql.Identifier(tablespace),
    )
    _run_watched(connection, statement, f"moving {relation}", watch)


def drop_index_concurrently(connection: Connection, schema: str, name: str) -> None:
    """DROP INDEX CONCURRENTLY; the caller has made sure that it is a leftover."""
    with change_errors(f"dropping leftover index {name!r}"):
        _execute(connection, sql.SQL("DROP INDEX CONCURRENTLY {}"), sql.Identifier(schema, name))


def set_setting(connection: Connection, name: str, value: str) -> None:
    """ALTER SYSTEM SET, then reload."""
    with change_errors(f"setting {name}"):
        _execute(
            connection,
            sql.SQL("ALTER SYSTEM SET {} = {}"),
            sql.Identifier(name),
            sql.Literal(value),
        )
    reload(connection)


def reset_setting(connection: Connection, name: str) -> None:
    """ALTER SYSTEM RESET, then reload."""
    with change_errors(f"resetting {name}"):
        _execute(connection, sql.SQL("ALTER SYSTEM RESET {}"), sql.Identifier(name))
    reload(connection)


def set_temp_tablespaces(connection: Connection, names: tuple[str, ...]) -> None:
    """ALTER SYSTEM SET temp_tablespaces; no names: each database's own tablespace."""
    listed = sql.SQL(", ").join(map(sql.Identifier, names)) if names else sql.Literal("")
    with change_errors("setting temp_tablespaces"):
        _execute(connection, sql.SQL("ALTER SYSTEM SET temp_tablespaces = {}"), listed)
    reload(connection)


def reload(connection: Connection) -> None:
    """Tell the server to read its configuration again."""
    try:
        with change_errors("reloading the configuration"):
            connection.execute("SELECT pg_reload_conf()")
    except (ServerError, UserError) as error:
        raise NotReloadedError(
            f"the setting is written but not in force: {error.message}",
            "GRANT EXECUTE ON FUNCTION pg_reload_conf() to the role and run apply again, or reload",
        ) from error


def checkpoint(connection: Connection) -> None:
    """CHECKPOINT: so that a stop is short."""
    with change_errors("making a checkpoint"):
        connection.execute("CHECKPOINT")


def end_session(connection: Connection, identity: tuple[int, str]) -> None:
    """Terminate that session of ours, whose client is gone; its pid may be reused soon."""
    with change_errors(f"ending session {identity[0]}"):
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s"
            " AND extract(epoch FROM backend_start)::text = %s",
            identity,
        )


def try_lock(connection: Connection) -> int | None:
    """Take the advisory lock for this session; None: taken, else the holder's pid (0: unknown)."""
    with change_errors("taking the advisory lock"):
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,)).fetchone()
        if taken is not None and taken[0]:
            return None
        row = connection.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND classid::bigint << 32 | objid::bigint = %s",
            (LOCK_KEY,),
        ).fetchone()
    return int(row[0]) if row else 0


def holds_lock(connection: Connection) -> bool:
    """Whether the server still knows this session as the lock's holder."""
    with change_errors("looking at the advisory lock"):
        row = connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
            " AND pid = pg_backend_pid() AND classid::bigint << 32 | objid::bigint = %s",
            (LOCK_KEY,),
        ).fetchone()
    return row is not None


def _run_watched(
    connection: Connection,
    statement: sql.Composed,
    doing: str,
    watch: Callable[[], None],
    interval_s: float = 0.15,
) -> None:
    failure: list[BaseException] = []

    def work() -> None:
        try:
            connection.execute(statement)
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=work, name="pgstow-statement", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(interval_s)
            if worker.is_alive():
                watch()
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)
        worker.join(_CANCEL_TIMEOUT_S)
        if worker.is_alive():  # it would keep the session from all who want to look afterwards
            connection.close()
        raise
    if failure:
        with change_errors(doing):
            raise failure[0]


def _set(connection: Connection, name: str, value: str) -> None:
    _execute(connection, sql.SQL("SET {} = {}"), sql.Identifier(name), sql.Literal(value))


def _execute(connection: Connection, statement: sql.SQL, *parts: sql.Composable) -> None:
    connection.execute(statement.format(*parts))


def _options(options: dict[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} = {}").format(_option(name), sql.Literal(value))
        for name, value in options.items()
    )


def _option(name: str) -> sql.Composable:
    if name not in _TABLESPACE_OPTIONS:
        raise UserError(
            f"{name!r} is not an option of a tablespace",
            f"use one of: {', '.join(sorted(_TABLESPACE_OPTIONS))}",
        )
    return sql.Identifier(name)


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    hint = error.diag.message_hint
    return f"{text} ({hint})" if hint else text
