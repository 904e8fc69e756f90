"""Observing real servers under load, and what must not be averaged over."""

import threading
import time

import psycopg
import pytest
from local_server import LocalServer
from observing import codes, load, run, watch

from pgstow.model import RelationId, UserError
from pgstow.postgres import read_state
from pgstow.postgres.sampling import Sampler


def test_a_load_is_seen_where_it_is(server: LocalServer, monitor: str, database: str) -> None:
    server.pgbench("-i", "-q", "-s", "8", database=database)
    with load(server, database, "-c", "3"):
        profile = watch(monitor, seconds=5.0, commit_probe_per_s=20.0)
    assert profile.samples == 6 and profile.seconds == pytest.approx(5.0, abs=0.5)
    tps = profile.activity.transactions
    assert tps.mean > 50 and tps.stdev is not None and tps.samples == 5
    assert profile.activity.write_transactions.mean == pytest.approx(tps.mean, rel=0.25)
    assert profile.activity.client_backends.mean == 3
    assert 1.0 < profile.activity.active_sessions.mean <= 3.3
    assert profile.wal.bytes.mean > 100 * tps.mean
    assert 0 < profile.wal.syncs.mean < 1.5 * tps.mean
    by_name = {d.relation.name: d for d in profile.demands if d.relation.database == database}
    accounts, history = by_name["pgbench_accounts"], by_name["pgbench_history"]
    assert accounts.tuple_writes.mean == pytest.approx(tps.mean, rel=0.3)
    assert history.tuple_writes.mean == pytest.approx(tps.mean, rel=0.3)
    assert accounts.random_reads.mean > 10  # 100 MB of table over 32 MB of buffers
    assert accounts.block_writes.mean > history.block_writes.mean
    assert by_name["pgbench_accounts_pkey"].buffer_hits.mean > tps.mean
    assert profile.host is not None and profile.host.busy_cores.mean > 0.1
    assert 50 <= len(profile.commit_ms) <= 110 and min(profile.commit_ms) > 0
    assert profile.server.is_local


def test_scans_are_told_from_lookups(server: LocalServer, monitor: str, database: str) -> None:
    run(
        server,
        database,
        "CREATE TABLE wide AS SELECT g id, repeat('x', 500) body FROM generate_series(1, 100000) g",
        "CREATE INDEX ON wide (id)",
        "VACUUM ANALYZE wide",
    )
    ended = threading.Event()

    def scan() -> None:
        with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            while not ended.is_set():
                connection.execute("SELECT count(body) FROM wide")

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        profile = watch(monitor, seconds=4.0)
    finally:
        ended.set()
        thread.join()
    demand = profile.demand(RelationId(database, "public", "wide"))
    assert demand is not None
    assert demand.sequential_read_bytes.mean > 10 * 8192 * demand.random_reads.mean
    assert demand.sequential_read_bytes.mean > 10e6


def test_toast_is_a_relation_of_its_own(server: LocalServer, monitor: str, database: str) -> None:
    run(
        server,
        database,
        "CREATE TABLE docs (id int PRIMARY KEY, body text)",
        "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO docs SELECT g, repeat('x', 20000) FROM generate_series(1, 3000) g",
    )
    script = server.directory / f"{database}.sql"
    script.write_text(
        "\\set id random(1, 3000)\nSELECT length(lower(body)) FROM docs WHERE id = :id;\n"
    )
    with load(server, database, "-c", "2", "-R", "200", "-f", str(script)):
        profile = watch(monitor, seconds=3.0)
    docs = RelationId(database, "public", "docs")
    toast = next(r for r in profile.server.relations if r.table == docs and r.kind == "toast")
    demand = profile.demand(toast.id)
    assert demand is not None and demand.random_reads.mean > 10
    assert demand.sequential_read_bytes.mean == 0


def test_the_time_of_a_flush_is_known_where_it_is_measured(
    server: LocalServer, monitor: str, database: str
) -> None:
    server.pgbench("-i", "-q", database=database)
    with load(server, database, "-c", "2", "-R", "100"):
        untimed = watch(monitor, seconds=2.0)
        assert untimed.wal.sync_us is None and "wal-timing-off" in codes(untimed)
        try:
            run(
                server,
                "postgres",
                "ALTER SYSTEM SET track_wal_io_timing = on",
                "SELECT pg_reload_conf()",
            )
            time.sleep(1.5)
            timed = watch(monitor, seconds=3.0)
        finally:
            run(
                server,
                "postgres",
                "ALTER SYSTEM RESET track_wal_io_timing",
                "SELECT pg_reload_conf()",
            )
    assert timed.wal.sync_us is not None and 1 < timed.wal.sync_us < 1e6
    assert timed.wal.write_us is not None
    assert "wal-timing-off" not in codes(timed)


def test_temporary_files_are_counted(server: LocalServer, monitor: str, database: str) -> None:
    def sort() -> None:
        time.sleep(1.2)
        run(
            server,
            database,
            "SET work_mem = '64kB'",
            "SELECT count(*) FROM (SELECT random() r FROM generate_series(1, 300000) ORDER BY r) x",
        )

    thread = threading.Thread(target=sort)
    thread.start()
    profile = watch(monitor, seconds=4.0)
    thread.join()
    assert profile.background.temp_bytes.mean * profile.seconds > 1e6


def test_a_reset_is_noticed(own_server: LocalServer) -> None:
    own_server.pgbench("-i", "-q")

    def reset() -> None:
        time.sleep(1.6)
        run(own_server, "postgres", "SELECT pg_stat_reset()")

    thread = threading.Thread(target=reset)
    with load(own_server, "postgres", "-c", "1", "-R", "100"):
        thread.start()
        profile = watch(own_server.dsn, seconds=5.0)
        thread.join()
    assert "counter-reset" in codes(profile)
    assert profile.activity.transactions.samples == 4  # of 5 intervals
    assert all(d.random_reads.mean >= 0 and d.tuple_writes.mean >= 0 for d in profile.demands)
    assert profile.activity.transactions.mean > 10


def test_a_restart_is_noticed(own_server: LocalServer) -> None:
    def restart() -> None:
        time.sleep(1.5)
        own_server.restart()

    thread = threading.Thread(target=restart)
    thread.start()
    profile = watch(own_server.dsn, seconds=7.0)
    thread.join()
    assert "restart" in codes(profile)
    assert profile.activity.transactions.samples >= 2
    assert profile.wal.bytes.mean >= 0


def test_tables_that_come_and_go_do_no_harm(
    server: LocalServer, monitor: str, database: str
) -> None:
    ended = threading.Event()

    def churn() -> None:
        with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
            number = 0
            while not ended.is_set():
                number += 1
                connection.execute(f"CREATE TABLE t{number} AS SELECT 1 x".encode())
                if number > 5:
                    connection.execute(f"DROP TABLE t{number - 5}".encode())

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        profile = watch(monitor, seconds=3.0)
    finally:
        ended.set()
        thread.join()
    assert all(d.block_writes.mean >= 0 for d in profile.demands)


def test_a_database_that_is_dropped_is_said(server: LocalServer, monitor: str) -> None:
    run(server, "postgres", "DROP DATABASE IF EXISTS doomed", "CREATE DATABASE doomed")

    def drop() -> None:
        time.sleep(1.5)
        run(server, "postgres", "DROP DATABASE doomed WITH (FORCE)")

    thread = threading.Thread(target=drop)
    thread.start()
    profile = watch(monitor, seconds=4.0)
    thread.join()
    assert "database-lost" in codes(profile)
    assert "doomed" not in profile.server.databases


def test_fewer_than_two_samples_are_too_few(monitor: str) -> None:
    with pytest.raises(UserError, match="fewer than two samples"):
        watch(monitor, seconds=5.0, stop=lambda: True)


def test_a_sample_asks_one_query_a_fact(server: LocalServer, monitor: str) -> None:
    databases = read_state(monitor).databases
    with Sampler(monitor, databases, time.monotonic) as sampler:
        first, second = sampler.sample(), sampler.sample()
    assert second.own_transactions - first.own_transactions == 6 + len(databases)
    assert second.wal.bytes >= first.wal.bytes
