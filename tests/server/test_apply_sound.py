"""What was found by trying apply: each case where it guessed, said what was not so, or gave up."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import in_process
import psycopg
import pytest
from apply_samples import Bench

from pgstow.apply.sessions import Sessions
from pgstow.model import HostError, UserError
from pgstow.postgres import changes, facts

TABLES = """
CREATE TABLE big (id int PRIMARY KEY, pad text);
INSERT INTO big SELECT n, repeat('x', 50) FROM generate_series(1, 20000) n;
CREATE TABLE small (id int PRIMARY KEY)
"""


@pytest.fixture
def bench(make_server) -> Iterator[Bench]:  # type: ignore[no-untyped-def]
    found = Bench.of(make_server(18))
    found.execute(*TABLES.split(";\n"))
    yield found


@contextmanager
def old_transaction(bench: Bench) -> Iterator[None]:
    """Keep REINDEX CONCURRENTLY from going on: it waits for this transaction."""
    session = psycopg.connect(bench.server.dsn)
    try:
        session.execute("INSERT INTO big VALUES (0, '')")
        yield
    finally:
        session.close()


def wait_for_new_index(bench: Bench) -> None:
    deadline = time.monotonic() + 60
    while not bench.execute("SELECT 1 FROM pg_class WHERE relname = 'big_pkey_ccnew'"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def invalid(bench: Bench) -> list[str]:
    rows = bench.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
    return [row[0] for row in rows]


def rebuilding_pid(bench: Bench) -> int:
    query = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'REINDEX%' AND state = 'active'"
    return int(bench.execute(query)[0][0])


@pytest.mark.parametrize("way", ["apply", "undo"])
def test_a_rebuild_whose_backend_is_killed(bench: Bench, way: str) -> None:
    """The server recovers, nobody can look at once: the leftover is found all the same."""
    path = str(bench.write(bench.layout(("postgres.public.big_pkey",))))
    with old_transaction(bench):
        process = bench.start(path)
        wait_for_new_index(bench)
        os.kill(rebuilding_pid(bench), signal.SIGKILL)
        process.communicate(timeout=60)
    if way == "apply":
        assert bench.apply(path).returncode == 0
        assert invalid(bench) == []
    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert invalid(bench) == []
    assert bench.execute("SELECT 1 FROM pg_tablespace WHERE spcname = 'fast'") == []
    assert not (bench.directory / "fast" / "fast").exists()


def test_what_a_lock_kept_is_dropped_by_a_run_of_another_layout(bench: Bench) -> None:
    path = str(bench.write(bench.layout(("postgres.public.big_pkey",))))
    with psycopg.connect(bench.server.dsn) as reader:
        process = bench.start(path, "--lock-wait=3s")
        with old_transaction(bench):
            wait_for_new_index(bench)
            reader.execute("SELECT 1 FROM big WHERE id = 1")  # holds the old index's lock
        process.communicate(timeout=60)
        reader.rollback()
    bench.apply_layout(bench.layout(("postgres.public.big_pkey", "postgres.public.small")))
    assert invalid(bench) == []


def test_undo_skips_what_was_dropped_since_and_goes_on(bench: Bench) -> None:
    bench.apply_layout(bench.layout(("postgres.public.big", "postgres.public.small")))
    bench.execute("DROP TABLE big")
    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stderr
    assert "it was dropped since" in undone.stdout
    assert bench.places()["small"] == "pg_default"
    assert bench.execute("SELECT 1 FROM pg_tablespace WHERE spcname = 'fast'") == []


def test_undo_names_an_orphan_file_and_takes_back_the_rest(bench: Bench) -> None:
    bench.apply_layout(
        bench.layout(("postgres.public.small",), settings={"random_page_cost": "1.1"})
    )
    ((oid,),) = bench.execute("SELECT oid FROM pg_database WHERE datname = 'postgres'")
    (version,) = (bench.directory / "fast" / "fast").iterdir()
    orphan = version / str(oid) / "99999"
    orphan.write_bytes(b"x" * 8192)
    bench.server.own(orphan)
    result = bench.apply("--undo")
    assert result.returncode == 1
    assert f"{orphan} (8 KiB) of no relation" in " ".join(result.stdout.split())
    assert bench.places()["small"] == "pg_default"
    assert bench.execute("SHOW random_page_cost") == [("4",)]
    assert orphan.exists()
    orphan.unlink()
    assert bench.apply("--undo").returncode == 0
    assert not (bench.directory / "fast" / "fast").exists()


def test_undo_removes_the_directories_that_apply_made(bench: Bench) -> None:
    deep = bench.directory / "fast" / "a" / "b"
    bench.apply_layout(bench.layout(("postgres.public.small",), location=str(deep)))
    assert bench.apply("--undo").returncode == 0
    assert list((bench.directory / "fast").iterdir()) == []


def test_nothing_to_undo_is_json_too(bench: Bench) -> None:
    bench.apply_layout(bench.layout())
    assert bench.apply("--undo").returncode == 0
    result = bench.apply("--undo", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["outcomes"] == []


def as_role(bench: Bench, role: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [p.replace("user=postgres", f"user={role}") for p in bench.command(*arguments)]
    return in_process.run([*command[3:], "--yes"])


def test_a_role_that_could_not_undo_or_reload_is_refused_beforehand(bench: Bench) -> None:
    bench.execute(
        "CREATE ROLE tuner LOGIN",
        "GRANT pg_monitor TO tuner",
        "GRANT ALTER SYSTEM ON PARAMETER random_page_cost TO tuner",
        "ALTER SYSTEM SET random_page_cost = 3",
        "SELECT pg_reload_conf()",
    )
    from dataclasses import replace

    layout = replace(bench.layout(settings={"random_page_cost": "1.1"}), tablespaces=())
    path = str(bench.write(layout))
    blind = as_role(bench, "tuner", path)
    assert (blind.returncode, "cannot be seen" in blind.stderr) == (2, True), blind.stderr
    bench.execute(
        "GRANT SELECT ON pg_file_settings TO tuner",
        "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO tuner",
    )
    refused = as_role(bench, "tuner", path)
    assert (refused.returncode, "may not reload" in refused.stderr) == (2, True), refused.stderr
    assert bench.execute("SHOW random_page_cost") == [("3",)]
    bench.execute("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO tuner")
    assert as_role(bench, "tuner", path).returncode == 0
    assert bench.execute("SHOW random_page_cost") == [("1.1",)]
    assert as_role(bench, "tuner", "--undo").returncode == 0
    assert bench.execute("SHOW random_page_cost") == [("3",)]


def test_the_roles_own_limits_on_time_do_not_end_a_step(bench: Bench) -> None:
    limits = ("statement", "transaction", "idle_in_transaction_session", "idle_session")
    state = bench.state()
    bench.execute(
        *(f"ALTER ROLE postgres SET {limit}_timeout = '20s'" for limit in limits),
        "ALTER ROLE postgres SET synchronous_commit = off",
    )
    with Sessions(bench.server.dsn, state) as sessions:
        session = sessions.to_change()
        for limit in limits:
            assert session.execute(f"SHOW {limit}_timeout").fetchone() == ("0",)  # type: ignore[call-overload]
        assert session.execute("SHOW synchronous_commit").fetchone() == ("local",)


def test_without_superuser_an_attempt_outlasts_autovacuums_patience(bench: Bench) -> None:
    bench.execute("CREATE ROLE owner LOGIN")
    dsn = bench.server.dsn.replace("user=postgres", "user=owner")
    with psycopg.connect(dsn, autocommit=True) as session:
        changes.prepare_session(session, lock_timeout_s=0.5)
        assert changes.autovacuum_yields_after_s(session) == 1.0  # it may not be set
    with psycopg.connect(bench.server.dsn, autocommit=True) as session:
        changes.prepare_session(session, lock_timeout_s=0.5)
        assert changes.autovacuum_yields_after_s(session) < 0.5


def test_a_lock_whose_holder_was_ended_is_missed_on_the_server(bench: Bench) -> None:
    state = bench.state()
    with Sessions(bench.server.dsn, state) as first, Sessions(bench.server.dsn, state) as second:
        first.lock()
        first.check()
        with pytest.raises(UserError, match="another apply is running"):
            second.lock()
        bench.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        second.lock()
        with pytest.raises(HostError, match="keeps a second apply out is gone"):
            first.check()


@pytest.mark.parametrize("version", [15, 18])
def test_a_hierarchy_of_partitions_moves_whole_and_new_parts_follow(  # type: ignore[no-untyped-def]
    make_server, version: int
) -> None:
    bench = Bench.of(make_server(version))
    bench.execute(
        "CREATE TABLE events (at int, id int, PRIMARY KEY (at, id)) PARTITION BY RANGE (at)",
        "CREATE TABLE y1 PARTITION OF events FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id)",
        "CREATE TABLE y1_a PARTITION OF y1 FOR VALUES FROM (0) TO (9)",
        "INSERT INTO events VALUES (1, 1)",
    )
    before = bench.places()
    names = ("postgres.public.events", "postgres.public.events_pkey")
    bench.apply_layout(bench.layout(names))
    assert (bench.places()["y1_a"], bench.places()["y1_a_pkey"]) == ("fast", "fast")
    bench.execute("CREATE TABLE y1_b PARTITION OF y1 FOR VALUES FROM (9) TO (20)")
    assert (bench.places()["y1_b"], bench.places()["y1_b_pkey"]) == ("fast", "fast")
    assert "nothing to do" in bench.apply(str(bench.write(bench.layout(names)))).stdout
    bench.execute("DROP TABLE y1_b")
    undone = bench.apply("--undo")
    assert undone.returncode == 0, undone.stderr + undone.stdout
    assert bench.places() == before
    parents = "SELECT 1 FROM pg_class WHERE relkind IN ('p', 'I') AND reltablespace <> 0"
    assert bench.execute(parents) == []


def test_a_failed_rebuild_of_somebody_else_is_left(bench: Bench) -> None:
    """The same index, the same name: but it came after pgstow had seen that nothing was left."""
    bench.apply_layout(bench.layout(("postgres.public.big_pkey",)))
    bench.execute(
        "CREATE INDEX big_pkey_ccnew ON big (id) TABLESPACE fast",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'big_pkey_ccnew'::regclass",
    )
    bench.apply_layout(bench.layout(("postgres.public.big_pkey", "postgres.public.small")))
    assert invalid(bench) == ["big_pkey_ccnew"]


def test_a_setting_without_its_file_is_unknown_not_unset(bench: Bench) -> None:
    bench.execute("CREATE ROLE watcher LOGIN", "GRANT pg_monitor TO watcher")
    dsn = bench.server.dsn.replace("user=postgres", "user=watcher")
    session = psycopg.connect(dsn, autocommit=True)
    with session, pytest.raises(UserError, match="cannot be seen"):
        facts.setting_facts(session, "random_page_cost")
