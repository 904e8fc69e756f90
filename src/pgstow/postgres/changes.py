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


@contextmanager
def change_errors(doing: str) -> Iterator[None]:
    """Turn what psycopg raises into errors that say what was being done and what to do."""
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


def prepare_session(connection: Connection, *, lock_timeout_s: float) -> None:
    """Make a session fit for long changes: no limit but on locks, and gone when its client is."""
    settings = {
        "statement_timeout": "0",
        "lock_timeout": f"{max(1, round(lock_timeout_s * 1000))}ms",
        "idle_session_timeout": "0",
        "default_transaction_read_only": "off",
        # A statement must not outlive a killed client: nobody would know how it ended.
        "client_connection_check_interval": "1s",
    }
    with change_errors("preparing the session"):
        for name, value in settings.items():
            _execute(connection, sql.SQL("SET {} = {}"), sql.Identifier(name), sql.Literal(value))
    # Ordinary autovacuum yields to a waiting lock only when deadlock_timeout has passed, which
    # must therefore be shorter than lock_timeout. Only a superuser may set it.
    shorter_ms = max(1, round(lock_timeout_s * 1000 / 3))
    if shorter_ms < 1000:
        with contextlib.suppress(psycopg.Error):
            _execute(connection, sql.SQL("SET deadlock_timeout = {}"), sql.Literal(shorter_ms))


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
    """Let every role put temporary files into a tablespace: without it temp_tablespaces is idle."""
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
        connection.execute("SELECT pg_reload_conf()")


def reset_setting(connection: Connection, name: str) -> None:
    """ALTER SYSTEM RESET, then reload."""
    with change_errors(f"resetting {name}"):
        _execute(connection, sql.SQL("ALTER SYSTEM RESET {}"), sql.Identifier(name))
        connection.execute("SELECT pg_reload_conf()")


def set_temp_tablespaces(connection: Connection, names: tuple[str, ...]) -> None:
    """ALTER SYSTEM SET temp_tablespaces; no names: each database's own tablespace."""
    listed = sql.SQL(", ").join(map(sql.Identifier, names)) if names else sql.Literal("")
    with change_errors("setting temp_tablespaces"):
        _execute(connection, sql.SQL("ALTER SYSTEM SET temp_tablespaces = {}"), listed)
        connection.execute("SELECT pg_reload_conf()")


def checkpoint(connection: Connection) -> None:
    """CHECKPOINT: so that a stop is short."""
    with change_errors("making a checkpoint"):
        connection.execute("CHECKPOINT")


def end_session(connection: Connection, pid: int) -> None:
    """Terminate a session of ours whose client is gone."""
    with change_errors(f"ending session {pid}"):
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))


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
        raise
    if failure:
        with change_errors(doing):
            raise failure[0]


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
