"""``pgstow bench load`` and ``load-and-run`` on a server of somebody's, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from local_server import LocalServer
from typer.testing import CliRunner, Result

from pgstow.cli.main import app
from pgstow.model import PgstowError

FILE = """
name = "databases"
target = "server"
blocks = 1

[server]
version = 18

[data]
maker = "pgbench"
scale = 1

[workload]
name = "simple-update"
clients = 2

[schedule]
duration = "1s"

[factors.database]
key = "server.dsn"
levels = {{ first = "{first}", second = "{second}" }}
"""
TABLES = {"pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"}


@pytest.fixture
def used(make_server: Callable[..., LocalServer]) -> LocalServer:
    made = make_server(18)
    with psycopg.connect(made.dsn, autocommit=True) as connection:
        for name in ("first", "second"):
            connection.execute(f"CREATE DATABASE {name}".encode())
    return made


@pytest.fixture
def bench(used: LocalServer, tmp_path: Path) -> Callable[..., Result]:
    """``bench("load", "--dry-run")``: the command on the file above; errors are raised."""
    path = tmp_path / "databases.toml"
    path.write_text(
        FILE.format(
            first=used.dsn_for("postgres", "first"), second=used.dsn_for("postgres", "second")
        )
    )

    def call(command: str, *arguments: str) -> Result:
        if command != "load":
            arguments = (*arguments, "--workspace", str(tmp_path / "pgstow.db"))
        found = CliRunner().invoke(app, ["bench", command, str(path), *arguments])
        if found.exception is not None:
            raise found.exception
        return found

    return call


def tables(used: LocalServer, database: str) -> set[str]:
    with psycopg.connect(used.dsn_for("postgres", database)) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {name for (name,) in found.fetchall()}


def rows_of_history(used: LocalServer, database: str) -> int:
    with psycopg.connect(used.dsn_for("postgres", database)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM pgbench_history").fetchone() or (0,)
        return int(count)


def test_a_load_is_shown_then_made_then_refused(
    bench: Callable[..., Result], used: LocalServer
) -> None:
    output = bench("load", "--dry-run").stdout
    assert output.count("would make pgbench at scale 1") == 2
    assert tables(used, "first") == tables(used, "second") == set()
    output = bench("load").stdout
    assert output.count(": made pgbench at scale 1") == 2
    assert tables(used, "first") == tables(used, "second") == TABLES
    for more in ((), ("--dry-run",)):
        with pytest.raises(PgstowError, match=r"table pgbench_accounts is in .* already"):
            bench("load", *more)


def test_what_would_be_dropped_is_told_and_kept(
    bench: Callable[..., Result], used: LocalServer
) -> None:
    bench("load-and-run", "--json")
    before = rows_of_history(used, "first")
    assert before > 0
    output = bench("load", "--replace", "--dry-run").stdout
    assert output.count("would drop pgbench_accounts, pgbench_branches, pgbench_history, ") == 2
    plain = json.loads(bench("load-and-run", "--replace", "--dry-run", "--json").stdout)
    assert [set(one["dropped_tables"]) for one in plain["loads"]] == [TABLES, TABLES]
    assert len(plain["trials"]) == 2
    assert not any(one["is_done"] for one in plain["trials"])
    assert rows_of_history(used, "first") == before
    made = json.loads(bench("load", "--replace", "--json").stdout)
    assert made["done"]
    assert rows_of_history(used, "first") == 0
