"""What apply reads of the server just before, during and after a step."""

import re
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstow.model.errors import ServerError, UserError
from pgstow.model.storage import RelationId
from pgstow.postgres.changes import change_errors
from pgstow.postgres.connect import Connection


@dataclass(frozen=True, slots=True)
class RelationFacts:
    """A relation as it is now; ``size_bytes`` includes TOAST, since that moves along."""

    oid: int
    tablespace: str
    size_bytes: int
    database_oid: int
    table_oid: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Session:
    """Another session that is in the way."""

    pid: int
    what: str
    transaction_s: float | None
    is_autovacuum: bool = False
    prevents_wraparound: bool = False

    def __str__(self) -> str:
        age = (
            ""
            if self.transaction_s is None
            else f", transaction open for {self.transaction_s:.0f} s"
        )
        return f"pid {self.pid} ({self.what}{age})"


@dataclass(frozen=True, slots=True)
class SettingFacts:
    """A setting as it is now; ``own_value`` is what ALTER SYSTEM set, None where it did not."""

    value: str
    context: str
    pending_restart: bool
    own_value: str | None


def relation_facts(connection: Connection, relation: RelationId) -> RelationFacts | None:
    """A relation of the session's database; None where it does not exist (any more)."""
    with change_errors(f"looking at {relation}"):
        row = connection.execute(
            """
            SELECT c.oid::bigint, coalesce(own.spcname, whole.spcname)::text,
                   coalesce(pg_table_size(c.oid), 0), d.oid::bigint,
                   coalesce(x.indrelid, c.oid)::bigint, coalesce(x.indisvalid, true)
              FROM pg_class c
              JOIN pg_namespace n ON n.oid = c.relnamespace
              JOIN pg_database d ON d.datname = current_database()
              JOIN pg_tablespace whole ON whole.oid = d.dattablespace
              LEFT JOIN pg_tablespace own ON own.oid = c.reltablespace
              LEFT JOIN pg_index x ON x.indexrelid = c.oid
             WHERE n.nspname = %s AND c.relname = %s
            """,
            (relation.schema, relation.name),
        ).fetchone()
    return None if row is None else RelationFacts(*row)


def lock_holders(connection: Connection, relation_oid: int, pid: int) -> tuple[Session, ...]:
    """Sessions, other than ``pid``, that hold a lock on a relation now."""
    return _sessions(
        connection,
        """
        SELECT DISTINCT pid FROM pg_locks
         WHERE relation = %s AND granted AND pid <> %s AND pid <> pg_backend_pid()
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        """,
        (relation_oid, pid),
    )


def blockers(connection: Connection, pid: int) -> tuple[Session, ...]:
    """Sessions for which a waiting session waits."""
    return _sessions(connection, "SELECT unnest(pg_blocking_pids(%s))", (pid,))


def _sessions(connection: Connection, pids: str, values: tuple[object, ...]) -> tuple[Session, ...]:
    with change_errors("looking for sessions in the way"):
        rows = connection.execute(
            f"""
            SELECT a.pid, coalesce(a.backend_type, ''), coalesce(a.state, ''),
                   coalesce(nullif(a.application_name, ''), a.usename, ''),
                   coalesce(left(a.query, 60), ''),
                   extract(epoch FROM clock_timestamp() - a.xact_start)::float8
              FROM pg_stat_activity a WHERE a.pid IN ({pids}) ORDER BY a.xact_start
            """,  # noqa: S608  # of this module's own texts
            values,
        ).fetchall()
    return tuple(_session(row) for row in rows)


def _session(row: tuple[Any, ...]) -> Session:
    pid, backend, state, who, statement, age_s = row
    wraparound = "to prevent wraparound" in statement
    if backend == "autovacuum worker":
        return Session(pid, " ".join(statement.split()), age_s, True, wraparound)
    return Session(pid, " ".join(f"{who} {state}: {statement}".split()), age_s)


def index_oids(connection: Connection, table_oid: int) -> tuple[int, ...]:
    """The indexes of a table."""
    with change_errors("looking at a table's indexes"):
        rows = connection.execute(
            "SELECT indexrelid::bigint FROM pg_index WHERE indrelid = %s ORDER BY 1", (table_oid,)
        ).fetchall()
    return tuple(row[0] for row in rows)


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A REINDEX CONCURRENTLY that was begun: the index, its table, the table's indexes before."""

    database: str
    name: str
    oid: int
    table_oid: int
    indexes: tuple[int, ...]
    source: str  # tablespaces
    target: str


def leftover_indexes(
    connection: Connection, rebuild: Rebuild
) -> tuple[tuple[str, str], ...] | None:
    """Invalid indexes that a rebuild left, by schema and name.

    None while someone builds an index on the table, or may do so: the role may not be let see of
    which table. Whose an invalid index is, nobody can tell then.

    It is the rebuild's own only if all agrees. Until the new index takes the old one's name, the
    new one (``_ccnew``) is what may be left: it came after the table's indexes were looked at, and
    is where the rebuild was to bring it. From then on it is the old one (``_ccold``): the very
    index that was rebuilt. Names are cut to fit into 63 bytes, so only the part before the suffix
    is compared, as far as it goes.
    """
    with change_errors("looking for leftover indexes"):
        rows = connection.execute(
            """
            SELECT EXISTS (SELECT FROM pg_stat_progress_create_index p
                            WHERE p.datid = d.oid AND coalesce(p.relid = %(table)s, true)),
                   EXISTS (SELECT FROM pg_class o
                            WHERE o.oid = %(oid)s AND o.relname = %(name)s),
                   c.oid::bigint, n.nspname::text, c.relname::text,
                   coalesce(own.spcname, whole.spcname)::text
              FROM pg_database d
              JOIN pg_tablespace whole ON whole.oid = d.dattablespace
              LEFT JOIN pg_index x ON x.indrelid = %(table)s AND NOT x.indisvalid
              LEFT JOIN pg_class c ON c.oid = x.indexrelid
              LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
              LEFT JOIN pg_tablespace own ON own.oid = c.reltablespace
             WHERE d.datname = current_database()
            """,
            {"table": rebuild.table_oid, "oid": rebuild.oid, "name": rebuild.name},
        ).fetchall()
    if any(is_building for is_building, *_ in rows):
        return None
    return tuple(
        (schema, name)
        for _, has_its_name, oid, schema, name, tablespace in rows
        if oid is not None and is_leftover(rebuild, oid, name, tablespace, not has_its_name)
    )


def is_leftover(rebuild: Rebuild, oid: int, name: str, tablespace: str, is_swapped: bool) -> bool:
    """Whether an invalid index of the table was left by a rebuild: see above."""
    match = re.fullmatch(r"(.*)_cc(new|old)[0-9]*", name, flags=re.DOTALL)
    if match is None or not rebuild.name.startswith(match[1]):
        return False
    if match[2] == "old":
        return oid == rebuild.oid
    return not is_swapped and oid not in rebuild.indexes and tablespace == rebuild.target


# Share of a REINDEX CONCURRENTLY at which each of its phases begins and how much it is, by the
# names in pg_stat_progress_create_index (src/backend/catalog/system_views.sql). Assumed: the build
# reads the table and writes the index, the validation reads the table again.
_PHASES: tuple[tuple[str, float, float], ...] = (
    ("building index: scanning table", 0.05, 0.35),
    ("building index: sorting live tuples", 0.40, 0.05),
    ("building index: loading tuples in tree", 0.45, 0.2),
    ("building index", 0.05, 0.5),
    ("waiting for writers before validation", 0.65, 0.0),
    ("index validation: scanning index", 0.65, 0.05),
    ("index validation: sorting tuples", 0.70, 0.05),
    ("index validation: scanning table", 0.75, 0.2),
    ("waiting for old snapshots", 0.95, 0.0),
    ("waiting for readers", 0.97, 0.0),
)


def rebuild_progress(connection: Connection, pid: int) -> float | None:
    """The share of an index build that is done, 0 to 1; None where it has not begun."""
    try:
        row = connection.execute(
            "SELECT phase, blocks_done, blocks_total, tuples_done, tuples_total"
            " FROM pg_stat_progress_create_index WHERE pid = %s",
            (pid,),
        ).fetchone()
    except psycopg.Error:
        return None
    if row is None:
        return None
    phase, blocks, all_blocks, tuples, all_tuples = row
    for name, begin, share in _PHASES:
        if phase.startswith(name):
            done, total = (blocks, all_blocks) if all_blocks else (tuples, all_tuples)
            return begin + share * (min(done / total, 1.0) if total else 0.0)
    return 0.0


def tablespace_facts(connection: Connection, name: str) -> tuple[str, dict[str, str]] | None:
    """A tablespace's directory and options; None where there is none of that name."""
    with change_errors(f"looking at tablespace {name!r}"):
        row = connection.execute(
            "SELECT pg_tablespace_location(oid), coalesce(spcoptions, '{}')"
            " FROM pg_tablespace WHERE spcname = %s",
            (name,),
        ).fetchone()
    if row is None:
        return None
    return row[0], dict(option.split("=", 1) for option in row[1])


def tablespace_directory(connection: Connection, name: str, database_oid: int) -> str | None:
    """Where a database's files in a tablespace are; None where the role may not know."""
    try:
        row = connection.execute(
            """
            SELECT CASE spcname WHEN 'pg_default'
                   THEN current_setting('data_directory') || '/base/' || %(database)s
                   ELSE pg_tablespace_location(t.oid) || '/PG_'
                        || (current_setting('server_version_num')::int / 10000) || '_'
                        || (SELECT catalog_version_no FROM pg_control_system())
                        || '/' || %(database)s END
              FROM pg_tablespace t WHERE spcname = %(name)s
            """,
            {"database": str(database_oid), "name": name},
        ).fetchone()
    except psycopg.Error:
        return None
    return None if row is None else str(row[0])


def has_public_create(connection: Connection, tablespace: str) -> bool:
    """Whether every role may create in a tablespace."""
    with change_errors(f"looking at the rights on tablespace {tablespace!r}"):
        row = connection.execute(
            "SELECT has_tablespace_privilege('public', oid, 'CREATE')"
            " FROM pg_tablespace WHERE spcname = %s",
            (tablespace,),
        ).fetchone()
    return bool(row and row[0])


def setting_facts(connection: Connection, name: str) -> SettingFacts | None:
    """A setting, and what ALTER SYSTEM wrote for it; None if the server does not have it."""
    with change_errors(f"looking at setting {name}"):
        row = connection.execute(
            "SELECT current_setting(name), context, pending_restart"
            " FROM pg_settings WHERE name = %s",
            (name,),
        ).fetchone()
    if row is None:
        return None
    try:
        own = connection.execute(
            "SELECT setting FROM pg_file_settings WHERE name = %s"
            " AND sourcefile = current_setting('data_directory') || '/postgresql.auto.conf'"
            " ORDER BY seqno DESC LIMIT 1",
            (name,),
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(
            f"whether ALTER SYSTEM has set {name} cannot be seen, so that it could not be undone",
            "connect as a superuser, or: GRANT SELECT ON pg_file_settings TO the role; "
            "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO the role",
        ) from error
    except psycopg.Error as error:
        raise ServerError(f"pg_file_settings cannot be read: {error}") from error
    return SettingFacts(row[0], row[1], row[2], own[0] if own else None)


def may_reload(connection: Connection) -> bool:
    """Whether the role may tell the server to read its configuration again."""
    with change_errors("looking at the role's rights"):
        row = connection.execute(
            "SELECT has_function_privilege('pg_reload_conf()', 'EXECUTE')"
        ).fetchone()
    return bool(row and row[0])


def has_database(connection: Connection, name: str) -> bool:
    """Whether there is a database of that name."""
    with change_errors("looking for a database"):
        row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
    return row is not None


def tablespace_databases(connection: Connection, name: str) -> tuple[str, ...]:
    """Databases with files in a tablespace."""
    with change_errors(f"looking at what is in tablespace {name!r}"):
        rows = connection.execute(
            "SELECT d.datname::text FROM pg_tablespace t, pg_tablespace_databases(t.oid) f,"
            " pg_database d WHERE t.spcname = %s AND d.oid = f AND d.datallowconn ORDER BY 1",
            (name,),
        ).fetchall()
    return tuple(row[0] for row in rows)


def tablespace_relations(connection: Connection, name: str) -> tuple[tuple[str, str | None], ...]:
    """What of the session's database is in a tablespace: each relation and its file's number.

    A partitioned table or index has no file, and keeps its tablespace all the same.
    """
    with change_errors(f"looking at what is in tablespace {name!r}"):
        rows = connection.execute(
            "SELECT c.oid::regclass::text, pg_relation_filenode(c.oid)::text FROM pg_class c"
            " JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE t.spcname = %s ORDER BY 1",
            (name,),
        ).fetchall()
    return tuple((row[0], row[1]) for row in rows)


def database_oid(connection: Connection) -> int:
    """The session's database."""
    with change_errors("looking at the session's database"):
        row = connection.execute(
            "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    if row is None:
        raise ServerError("the session's database does not exist any more", "run diff again")
    return int(row[0])


def system_identifier(connection: Connection) -> str:
    """The identifier of the server's cluster."""
    with change_errors("asking for the server's identifier"):
        row = connection.execute(
            "SELECT system_identifier::text FROM pg_control_system()"
        ).fetchone()
    return str(row[0]) if row else ""


def is_in_recovery(connection: Connection) -> bool:
    """Whether the server is a standby."""
    with change_errors("asking whether the server is a standby"):
        row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    return bool(row and row[0])


def backend_pid(connection: Connection) -> int:
    """The server process of a session."""
    return connection.info.backend_pid


def backend_identity(connection: Connection) -> tuple[int, str]:
    """The server process of a session, and when it began: together not reused."""
    with change_errors("asking for the session's process"):
        row = connection.execute(
            "SELECT pid, extract(epoch FROM backend_start)::text"
            " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
    if row is None:
        raise ServerError("the server does not know this session", "run apply again")
    return row[0], row[1]


def is_backend_there(connection: Connection, identity: tuple[int, str]) -> bool:
    """Whether that session still exists."""
    with change_errors("looking for a session"):
        row = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
            " AND extract(epoch FROM backend_start)::text = %s",
            identity,
        ).fetchone()
    return row is not None


def server_places(connection: Connection) -> tuple[str, str]:
    """The data directory and the configuration file."""
    with change_errors("asking for the server's directories"):
        row = connection.execute(
            "SELECT current_setting('data_directory'), current_setting('config_file')"
        ).fetchone()
    if row is None:
        raise ServerError("the server does not show its directories", "run apply again")
    return row[0], row[1]


def quoted_list(connection: Connection, names: tuple[str, ...]) -> str:
    """Names as ALTER SYSTEM writes a list of them into its file."""
    return ", ".join(quote_identifier(connection, name) for name in names) or '""'


def quote_identifier(connection: Connection, name: str) -> str:
    """A name as the server itself would quote it."""
    with change_errors("quoting a name"):
        row = connection.execute("SELECT quote_ident(%s)", (name,)).fetchone()
    return str(row[0]) if row else name
