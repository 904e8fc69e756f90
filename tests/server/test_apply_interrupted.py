"""``pgstow apply`` disturbed: others' locks, Ctrl-C, kill -9, a second apply."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from apply_samples import Bench
from local_server import LocalServer

from pgstow import apply, migration
from pgstow.apply import Options
from pgstow.model import UserError
from pgstow.workspace import Workspace

ROWS = 5000
MANY_ROWS = 150000
TABLES = """
CREATE TABLE big (id int PRIMARY KEY, pad text);
ALTER TABLE big ALTER pad SET STORAGE PLAIN;
INSERT INTO big SELECT n, repeat('x', 900) FROM generate_series(1, {rows}) n;
CREATE TABLE small (id int PRIMARY KEY);
INSERT INTO small SELECT generate_series(1, 100)
"""
# A table's move waits before its commit: for pause_s, and big's while public.held has a row.
SLOW_MOVES = """
CREATE TABLE held ();
CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_sleep({pause_s});
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE objid = 'public.big'::regclass) THEN
    WHILE EXISTS (SELECT FROM public.held) LOOP PERFORM pg_sleep(0.02); END LOOP;
  END IF;
END $$;
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION hold()
"""


@pytest.fixture
def bench(own_server: LocalServer, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server with a big table: of so many rows, where the test asks for them."""
    found = Bench.of(own_server)
    found.execute(*TABLES.format(rows=getattr(request, "param", ROWS)).split(";\n"))
    yield found


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.01)


@contextmanager
def moves_held(bench: Bench) -> Iterator[None]:
    """Keep a table's move, once under way, from committing."""
    bench.execute(SLOW_MOVES.format(pause_s=0), "INSERT INTO held DEFAULT VALUES")
    yield
    bench.execute("DELETE FROM held")


def wait_until_held(bench: Bench, words: str) -> None:
    """Wait until a statement with such words has done its work and is kept from committing."""
    with psycopg.connect(bench.server.dsn, autocommit=True) as session:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE %s"
        wait_for(lambda: session.execute(query, (f"{words}%",)).fetchone() is not None, words)


@contextmanager
def holding_lock(bench: Bench, table: str = "big") -> Iterator[psycopg.Connection]:
    """A transaction that has read a table and stays open."""
    with psycopg.connect(bench.server.dsn) as session:
        session.execute(f"SELECT 1 FROM {table} LIMIT 1")
        yield session


@contextmanager
def slow_commits(bench: Bench) -> Iterator[None]:
    """Keep REINDEX CONCURRENTLY from finishing: it waits for this older transaction."""
    with psycopg.connect(bench.server.dsn) as session:
        session.execute("INSERT INTO big VALUES (0, '')")
        yield
        session.rollback()


def test_a_lock_that_is_freed_in_time_is_got(bench: Bench) -> None:
    path = bench.write(bench.layout(("postgres.public.big",)))
    with holding_lock(bench) as session:
        process = bench.start(str(path), "--lock-timeout=100ms")
        time.sleep(4)
        assert process.poll() is None
        # A waiting ACCESS EXCLUSIVE would make this wait too: it must not, for long.
        with psycopg.connect(bench.server.dsn, options="-c statement_timeout=2s") as reader:
            reader.execute("SELECT 1 FROM big LIMIT 1")
        session.rollback()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert bench.places()["big"] == "fast"


def test_who_is_in_the_way_is_named_and_the_rest_goes_on(bench: Bench) -> None:
    path = bench.write(
        bench.layout(("postgres.public.big", "postgres.public.small", "postgres.public.big_pkey"))
    )
    with holding_lock(bench) as session:
        pid = session.info.backend_pid
        result = bench.apply(str(path), "--lock-timeout=100ms", "--lock-wait=2s")
    assert result.returncode == 1
    assert f"pid {pid}" in result.stdout
    places = bench.places()
    assert (places["big"], places["small"]) == ("pg_default", "fast")
    bench.apply_layout(
        bench.layout(("postgres.public.big", "postgres.public.small", "postgres.public.big_pkey"))
    )
    assert bench.places()["big"] == bench.places()["big_pkey"] == "fast"
    assert bench.apply("--undo").returncode == 0  # one run, one undo
    assert set(bench.places().values()) == {"pg_default"}


def test_a_rebuild_that_gave_up_leaves_nothing_behind(bench: Bench) -> None:
    path = bench.write(bench.layout(("postgres.public.big_pkey",)))
    with slow_commits(bench):
        result = bench.apply(str(path), "--lock-wait=2s")
        assert result.returncode == 1
    again = bench.apply(str(path))
    assert again.returncode == 0, again.stderr
    assert bench.places()["big_pkey"] == "fast"
    assert bench.execute("SELECT 1 FROM pg_index WHERE NOT indisvalid") == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_a_table_move(bench: Bench, number: int) -> None:
    relations = ("postgres.public.small", "postgres.public.big")
    path = bench.write(bench.layout(relations))
    with moves_held(bench):
        process = bench.start(str(path))
        wait_until_held(bench, "ALTER TABLE %big")
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert process.returncode == 130, errors
        assert "pgstow apply --undo to go back" in " ".join(errors.split())
    assert bench.places()["small"] == "fast"
    result = bench.apply(str(path))
    assert result.returncode == 0, result.stderr
    assert bench.places()["big"] == "fast"
    assert bench.execute("SELECT count(*) FROM big") == [(ROWS,)]
    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stderr
    assert set(bench.places().values()) == {"pg_default"}
    assert bench.execute("SELECT 1 FROM pg_tablespace WHERE spcname = 'fast'") == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("way", ["again", "undo"])
def test_interrupted_in_a_rebuild(bench: Bench, number: int, way: str) -> None:
    bench.execute("CREATE INDEX theirs_ccnew ON big (pad)")
    bench.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'theirs_ccnew'::regclass"
    )
    path = bench.write(bench.layout(("postgres.public.big_pkey",)))
    with slow_commits(bench):
        process = bench.start(str(path))
        wait_for(
            lambda: bool(bench.execute("SELECT 1 FROM pg_class WHERE relname = 'big_pkey_ccnew'")),
            "the new index",
        )
        process.send_signal(number)
        process.communicate(timeout=30)
    result = bench.apply(str(path)) if way == "again" else bench.apply("--undo")
    assert result.returncode == 0, result.stderr
    assert bench.places()["big_pkey"] == ("fast" if way == "again" else "pg_default")
    invalid = bench.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
    assert invalid == [("theirs_ccnew",)]  # what others left is theirs


def test_killed_while_going_back(bench: Bench) -> None:
    bench.apply_layout(bench.layout(("postgres.public.small", "postgres.public.big")))
    with moves_held(bench):
        process = bench.start("--undo")
        wait_until_held(bench, "ALTER TABLE %big")
        process.kill()
        process.communicate()
    result = bench.apply("--undo")
    assert result.returncode == 0, result.stderr
    assert set(bench.places().values()) == {"pg_default"}
    assert bench.execute("SELECT 1 FROM pg_tablespace WHERE spcname = 'fast'") == []


@pytest.mark.parametrize(
    "bench", [ROWS, pytest.param(MANY_ROWS, marks=pytest.mark.nightly)], indirect=True
)
def test_killed_at_random_moments_it_arrives(bench: Bench) -> None:
    bench.execute(SLOW_MOVES.format(pause_s=0.2))
    relations = ("postgres.public.small", "postgres.public.big", "postgres.public.big_pkey")
    layout = bench.layout(relations, settings={"random_page_cost": "1.1"}, temp=("fast",))
    path = bench.write(layout)
    for delay_s in (0.4, 0.7, 0.9, 1.1, 1.3):
        process = bench.start(str(path))
        time.sleep(delay_s)
        process.kill()
        process.communicate()
    result = bench.apply(str(path))
    assert result.returncode == 0, result.stderr
    places = bench.places()
    assert {places[name.rsplit(".", 1)[1]] for name in relations} == {"fast"}
    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stderr
    assert set(bench.places().values()) == {"pg_default"}
    assert bench.execute("SHOW random_page_cost") == [("4",)]


def test_a_second_apply_is_refused(bench: Bench) -> None:
    path = bench.write(bench.layout(("postgres.public.big_pkey",)))
    with slow_commits(bench):
        process = bench.start(str(path))
        wait_for(
            lambda: bool(bench.execute("SELECT 1 FROM pg_class WHERE relname = 'big_pkey_ccnew'")),
            "the new index",
        )
        second = bench.apply(str(path))
        assert second.returncode == 2
        assert "another apply is running" in second.stderr
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_world_is_looked_at_again_before_each_step(bench: Bench) -> None:
    layout = bench.layout(("postgres.public.big", "postgres.public.small"))
    state = bench.state()
    taken = migration.steps(state, bench.present(), layout)
    (bench.directory / "fast" / "fast").mkdir(mode=0o700)
    bench.server.own(bench.directory / "fast" / "fast")
    bench.execute(
        f"CREATE TABLESPACE fast LOCATION '{bench.directory / 'fast' / 'fast'}'",
        "ALTER TABLE small SET TABLESPACE fast",
    )
    with Workspace.open(bench.workspace) as store:
        # The directory is checked before anything else, and it is the server's by now.
        with pytest.raises(UserError, match="not empty"):
            apply.run(
                taken,
                state=state,
                layout="x",
                dsn=bench.server.dsn,
                journal=store.journal,
                options=Options(plain_directories=True),
            )
        result = apply.run(
            taken[1:],
            state=bench.state(),
            layout="x",
            dsn=bench.server.dsn,
            journal=store.journal,
            options=Options(plain_directories=True),
        )
    assert [outcome.status for outcome in result.outcomes] == ["skipped", "done"]


def test_it_serves_while_it_moves(bench: Bench) -> None:
    """Writers go on through a rebuild, and no row is lost in a copy."""
    script = bench.server.directory / "load.sql"
    script.write_text("UPDATE big SET id = id WHERE id = (random() * 1000)::int + 1;\n")
    try:
        command = bench.server.pgbench_command("-n", "-c2", "-T5", f"-f{script}")
    except FileNotFoundError:
        pytest.skip("needs pgbench")
    load = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    bench.apply_layout(bench.layout(("postgres.public.big_pkey", "postgres.public.big")))
    output, errors = load.communicate(timeout=60)
    assert load.returncode == 0, errors
    assert "number of failed transactions: 0" in output
    assert bench.execute("SELECT count(*), count(DISTINCT id) FROM big") == [(ROWS, ROWS)]
    assert os.path.lexists(bench.directory / "fast" / "fast")
