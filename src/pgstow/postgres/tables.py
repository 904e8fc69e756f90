"""The tables of one schema of a database: which there are, and dropping them by name."""

from collections.abc import Sequence

from psycopg import sql

from pgstow.postgres.changes import change_errors
from pgstow.postgres.connect import connect, server_errors


def table_names(dsn: str) -> tuple[str, ...]:
    """The ordinary and partitioned tables of the current schema, by name."""
    with (
        connect(dsn, purpose="experiment") as connection,
        server_errors("reading the tables' names"),
    ):
        rows = connection.execute(
            "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p')"
            " AND relnamespace = to_regnamespace(quote_ident(current_schema())) ORDER BY 1"
        ).fetchall()
    return tuple(name for (name,) in rows)


def drop_tables(dsn: str, names: Sequence[str]) -> None:
    """DROP TABLE, all of them or none; what else depends on them is in the way."""
    if not names:
        return
    statement = sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(map(sql.Identifier, names)))
    with (
        connect(dsn, purpose="experiment") as connection,
        change_errors(f"dropping table {names[0]} and others"),
    ):
        connection.execute(statement)
