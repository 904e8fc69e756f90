"""``pgstow apply`` on real servers: what moves, what comes back, what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import in_process
import psycopg
import pytest
from apply_samples import Bench, report
from local_server import LocalServer

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, note text);
INSERT INTO orders SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n;
CREATE TABLE notes (id int PRIMARY KEY, body text);
ALTER TABLE notes ALTER body SET STORAGE EXTERNAL;
INSERT INTO notes SELECT n, repeat(md5(n::text), 200) FROM generate_series(1, 500) n;
CREATE UNLOGGED TABLE scratch (id int);
INSERT INTO scratch SELECT generate_series(1, 1000);
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders;
CREATE TABLE events (at date NOT NULL, id int) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE INDEX events_at ON events (at);
INSERT INTO events SELECT '2026-01-01'::date + n % 59, n FROM generate_series(1, 1000) n;
CREATE TABLE rooms (during int4range, EXCLUDE USING gist (during WITH &&));
INSERT INTO rooms SELECT int4range(n, n + 1) FROM generate_series(1, 100) n;
"""
SCRIPTS = """o'rd"er; <b> $(touch /tmp/x)
&"""


@pytest.fixture
def bench(own_server: LocalServer) -> Iterator[Bench]:
    found = Bench.of(own_server)
    found.execute(*filter(str.strip, TABLES.split(";\n")))
    yield found


def test_everything_that_has_a_file_moves_and_comes_back(bench: Bench) -> None:
    before = bench.places()
    moving = (
        "postgres.public.orders",
        "postgres.public.orders_pkey",
        "postgres.public.notes",
        "postgres.public.scratch",
        "postgres.public.totals",
        "postgres.public.events_1",
        "postgres.public.events_2_at_idx",
        "postgres.public.rooms_during_excl",
    )
    layout = bench.layout(
        moving, temp=("fast",), settings={"random_page_cost": "1.1", "max_wal_size": "2GB"}
    )
    bench.apply_layout(layout)
    after = bench.places()
    moved = {name for name, space in after.items() if space == "fast"}
    toast = {name for name in moved if name.startswith("pg_toast")}
    assert moved - toast == {name.rsplit(".", 1)[1] for name in moving}
    assert len(toast) == 2 * 3 - 2  # orders and notes have TOAST with an index
    assert bench.execute("SHOW temp_tablespaces") == [("fast",)]
    assert bench.execute("SHOW random_page_cost") == [("1.1",)]
    assert bench.execute("SELECT count(*), sum(length(note)) FROM orders") == [(20000, 2000000)]
    assert bench.execute("SELECT has_tablespace_privilege('public', 'fast', 'CREATE')") == [(True,)]
    directory = bench.directory / "fast" / "fast"
    assert directory.stat().st_mode & 0o777 == 0o700

    again = bench.apply_layout(layout)
    assert "nothing to do" in again.stdout
    assert "already" not in again.stderr

    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stderr
    assert bench.places() == before
    assert bench.execute("SHOW temp_tablespaces") == [("",)]
    assert bench.execute("SHOW random_page_cost") == [("4",)]
    assert bench.execute("SELECT spcname FROM pg_tablespace WHERE spcname = 'fast'") == []
    assert not directory.exists()
    assert "ALTER SYSTEM" in (bench.server.data / "postgresql.auto.conf").read_text()
    assert "random_page_cost" not in (bench.server.data / "postgresql.auto.conf").read_text()


def test_hostile_names(bench: Bench) -> None:
    quoted = '"' + SCRIPTS.replace('"', '""') + '"'
    space = "fa\"st;'$(x)\n<i>"
    bench.execute(f"CREATE TABLE {quoted} (id int PRIMARY KEY)", f"INSERT INTO {quoted} VALUES (1)")
    layout = bench.layout((f"postgres.public.{quoted}",), tablespace=space)
    result = bench.apply_layout(layout)
    assert bench.places()[SCRIPTS] == space
    assert "\\n" in result.stdout  # the newline of the name is written out
    assert bench.apply("--undo").returncode == 0
    assert bench.places()[SCRIPTS] == "pg_default"
    refused = bench.apply(str(bench.write(bench.layout(tablespace=space, temp=("fast",)))))
    assert (refused.returncode, "newline" in refused.stderr) == (2, True)
    bench.apply_layout(bench.layout(tablespace='so "odd", too', temp=("fast", "data")))
    assert bench.execute("SHOW temp_tablespaces") == [('"so ""odd"", too", pg_default',)]


def test_a_setting_that_alter_system_had_set_returns_to_that(bench: Bench) -> None:
    bench.execute("ALTER SYSTEM SET random_page_cost = 3", "SELECT pg_reload_conf()")
    bench.apply_layout(bench.layout(settings={"random_page_cost": "1.5"}))
    assert bench.execute("SHOW random_page_cost") == [("1.5",)]
    assert bench.apply("--undo").returncode == 0
    assert bench.execute("SHOW random_page_cost") == [("3",)]


def test_a_dry_run_changes_nothing_and_says_all(bench: Bench) -> None:
    path = bench.write(bench.layout(("postgres.public.orders",), wal="wal"))
    shown = report(bench.apply(str(path), "--dry-run", "--json"))
    assert [step["kind"] for step in shown["steps"]] == [
        "create tablespace",
        "move table",
        "move wal",
    ]
    assert all(step["lock"] and step["undo"] and step["action"] for step in shown["steps"])
    assert {warning["code"] for warning in shown["warnings"]} == {"base-backup"}
    assert bench.places()["orders"] == "pg_default"


def test_without_leave_to_restart_the_rest_goes_on(bench: Bench) -> None:
    layout = bench.layout(("postgres.public.orders",), wal="wal")
    result = bench.apply_layout(layout)
    assert "run again with --restart" in result.stdout
    assert bench.places()["orders"] == "fast"
    assert not (bench.server.data / "pg_wal").is_symlink()


def test_a_setting_that_needs_a_restart_says_so(bench: Bench) -> None:
    result = bench.apply_layout(bench.layout(settings={"shared_buffers": "64MB"}))
    assert "next restart" in result.stderr
    bench.server.restart()
    assert bench.execute("SHOW shared_buffers") == [("64MB",)]


def test_prune_drops_what_pgstow_made(bench: Bench) -> None:
    bench.apply_layout(bench.layout(("postgres.public.orders",)))
    bench.apply_layout(bench.layout(("postgres.public.orders",), tablespace="new"), "--prune")
    assert bench.places()["orders"] == "new"
    assert bench.execute("SELECT count(*) FROM pg_tablespace WHERE spcname = 'fast'") == [(0,)]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ("not empty", "is not empty"),
        ("inside", "is inside the data directory"),
        ("through a link", "is inside the data directory"),
        ("another's", "belongs to root"),
    ],
)
def test_a_directory_that_will_not_do(bench: Bench, prepare: str, words: str) -> None:
    location = bench.directory / "fast" / "fast"
    if prepare == "not empty":
        location.mkdir()
        (location / "precious").write_text("x")
    elif prepare == "another's":
        location.mkdir()
        if location.owner() != "root":
            pytest.skip("needs root, to make a directory that is not the server's")
    elif prepare == "through a link":
        location.symlink_to(bench.server.data / "base")
    else:
        location = bench.server.data / "fast"
    layout = bench.layout(("postgres.public.orders",), location=str(location))
    result = bench.apply(str(bench.write(layout)))
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()[-1:]) == 1
    assert bench.execute("SELECT count(*) FROM pg_tablespace") == [(2,)]
    assert bench.places()["orders"] == "pg_default"


def test_a_mount_that_is_not_mounted(bench: Bench) -> None:
    path = bench.write(bench.layout(("postgres.public.orders",)))
    command = [part for part in bench.command(str(path)) if part != "--plain-directories"]
    result = in_process.run([*command[3:], "--yes"])
    assert result.returncode == 2
    assert f"{bench.directory / 'fast'} is not mounted" in result.stderr


def test_a_relation_that_does_not_exist(bench: Bench) -> None:
    result = bench.apply(str(bench.write(bench.layout(("postgres.public.order",)))))
    assert result.returncode == 2
    assert "did you mean postgres.public.orders" in result.stderr


def test_without_a_terminal_it_does_not_ask(bench: Bench) -> None:
    path = bench.write(bench.layout())
    result = in_process.run(bench.command(str(path))[3:])
    assert (result.returncode, "--yes" in result.stderr) == (2, True)


def test_a_role_that_may_not(bench: Bench) -> None:
    bench.execute("CREATE ROLE watcher LOGIN", "GRANT pg_monitor TO watcher")
    path = bench.write(bench.layout(("postgres.public.orders",)))
    command = bench.command(str(path))
    command = [part.replace("user=postgres", "user=watcher") for part in command]
    result = in_process.run([*command[3:], "--yes"])
    assert result.returncode == 2
    assert "connect as a superuser" in result.stderr
    assert not (bench.directory / "fast" / "fast").exists()


def test_a_standby_is_refused(bench: Bench, tmp_path: Path) -> None:
    (bench.server.data / "standby.signal").touch()
    bench.server.own(bench.server.data / "standby.signal")
    bench.server.restart()
    result = bench.apply(str(bench.write(bench.layout(("postgres.public.orders",)))))
    assert result.returncode == 2
    assert "standby" in result.stderr


def test_a_full_target_is_refused_before_anything_runs(bench: Bench) -> None:
    from pgstow.apply import Options
    from pgstow.apply.context import Context
    from pgstow.apply.live import live
    from pgstow.apply.prechecks import check
    from pgstow.apply.values import Observer
    from pgstow.model import HostError
    from pgstow.workspace import Workspace

    state = bench.state()
    taken = bench.steps(bench.layout(("postgres.public.orders",)))
    huge = [replace(step, bytes=2**60) for step in taken]
    options = Options(plain_directories=True)
    with Workspace.open(bench.workspace) as store, live(bench.server.dsn, state) as world:
        context = Context(state, world, store.journal, options, Observer())
        with pytest.raises(HostError, match="free"):
            check(context, huge)


def test_databases_of_any_name(bench: Bench) -> None:
    bench.execute('CREATE DATABASE "odd ""db"" name"')
    with psycopg.connect(bench.server.dsn, dbname='odd "db" name', autocommit=True) as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bench.apply_layout(bench.layout(('"odd ""db"" name".public.t_pkey',)))
    with psycopg.connect(bench.server.dsn, dbname='odd "db" name') as session:
        row = session.execute(
            "SELECT spcname FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace"
            " WHERE relname = 't_pkey'"
        ).fetchone()
    assert row == ("fast",)
