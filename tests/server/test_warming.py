"""A server reads its own data into memory: all of it, or the part that is read last."""

from pathlib import Path

import psycopg
import pytest
from local_server import LocalServer

from pgstow.postgres import connect
from pgstow.postgres.warming import read_through

pytestmark = pytest.mark.server


def test_every_relation_is_read_once_or_the_last_of_them(server: LocalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute(
            "CREATE TABLE warm AS SELECT n, repeat('x', 500) FROM generate_series(1, 20000) n"
        )
        owner.execute("CREATE INDEX warm_n ON warm (n)")
        whole = owner.execute(
            "SELECT sum(pg_relation_size(oid)) FROM pg_class"
            " WHERE pg_relation_filepath(oid) IS NOT NULL"
        ).fetchone()
    assert whole is not None
    with connect(server.dsn, purpose="experiment") as connection:
        before = reads(connection)
        assert read_through(connection, 1 << 40) == whole[0]
        assert reads(connection) - before >= whole[0]
        between = reads(connection)
        assert read_through(connection, 1 << 20) == 1 << 20
        assert 1 << 20 <= reads(connection) - between < whole[0]
    with psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute("DROP TABLE warm")


def reads(connection: psycopg.Connection) -> int:
    """The bytes that the session's process has read from files so far."""
    return int(Path(f"/proc/{connection.info.backend_pid}/io").read_text().split()[1])
