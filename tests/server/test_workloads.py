"""Every ready workload on real servers: loaded, run, and held against the server's own counts."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from local_server import PASSWORD, LocalServer, find_pgbench

from pgstow.experiment.generator import Generator
from pgstow.experiment.workloads import NAMES, generator
from pgstow.experiment.workloads.content_platform import mix
from pgstow.experiment.workloads.pgbench import Pgbench
from pgstow.model import DataChoice, Outcome, WorkloadChoice
from pgstow.model.errors import ServerError, UserError
from pgstow.postgres import connect

CLIENTS = 2
SECONDS = 2
PGBENCH = DataChoice("pgbench", 1)
INDEXED = DataChoice("pgbench", 1, (("extra_indexes", "9"), ("unlogged", "true")))
PLATFORM = DataChoice("content-platform", 2000)
# Statements are prepared once a client, and autovacuum comes by: a transaction each.
OWN_TRANSACTIONS = 60
SYSBENCH_OWN = 2 * OWN_TRANSACTIONS  # of each table
# Its scripts are run one by one in test_workload.py.
ALONE = {part.script.replace("_", "-") for part in mix.PARTS} - {"record-events"}


@dataclass(frozen=True)
class Place:
    """Databases of one server, one for each choice of data."""

    server: LocalServer
    bindir: Path
    databases: dict[DataChoice, str]

    def generator(self, name: str, data: DataChoice, **options: object) -> Generator:
        """The generator of a workload."""
        choice = WorkloadChoice(name, **({"clients": CLIENTS} | options))  # type: ignore[arg-type]
        return generator(choice, data, bindir=self.bindir)

    def dsn(self, data: DataChoice) -> str:
        """A database with that data, made at the first call."""
        if data not in self.databases:
            name = f"workloads_{len(self.databases)}"
            with psycopg.connect(self.server.dsn, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            dsn = self.server.dsn_for("postgres", name)
            workload = "content-platform" if data == PLATFORM else "key-read"
            told: list[tuple[float, float]] = []
            self.generator(workload, data).load(dsn, lambda *told_now: told.append(told_now))
            assert told == sorted(told)
            assert told[-1][0] == told[-1][1]
            self.databases[data] = dsn
        return self.databases[data]

    def run(self, name: str, data: DataChoice, directory: Path, **options: object) -> Outcome:
        """A workload to its end."""
        running = self.generator(name, data, **options).start(
            self.dsn(data), duration_s=SECONDS, log_directory=directory, seed=3
        )
        with running:
            assert len(running.pids()) == 1
            assert running.wait(60)
            return running.outcome()


@pytest.fixture(scope="module")
def place(server: LocalServer) -> Iterator[Place]:
    program = find_pgbench()
    if program is None:
        pytest.skip("needs pgbench: none found on this machine")
    found = Place(server, program.parent, {})
    yield found
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for dsn in found.databases.values():
            name = dsn.rpartition("=")[2]
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def counts(dsn: str) -> dict[str, int]:
    """The database's transactions, and what was done to each table and by each index."""
    time.sleep(0.2)  # a backend reports the last of it when it ends
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT 'commits', xact_commit FROM pg_stat_database WHERE datname = current_database()"
            " UNION ALL SELECT relname || ' scans', seq_scan FROM pg_stat_user_tables"
            " UNION ALL SELECT relname || ' updates', n_tup_upd FROM pg_stat_user_tables"
            " UNION ALL SELECT relname || ' HOT', n_tup_hot_upd FROM pg_stat_user_tables"
            " UNION ALL SELECT relname || ' inserts', n_tup_ins FROM pg_stat_user_tables"
            " UNION ALL SELECT indexrelname || ' lookups', idx_scan FROM pg_stat_user_indexes"
            " UNION ALL SELECT indexrelname || ' rows', idx_tup_read FROM pg_stat_user_indexes"
        ).fetchall()
    return dict(rows)


def counted(place: Place, name: str, data: DataChoice, directory: Path) -> tuple[Outcome, dict]:  # type: ignore[type-arg]
    """A run, and what the server counted meanwhile."""
    return counted_with(place, name, data, directory)


def counted_with(
    place: Place, name: str, data: DataChoice, directory: Path, **options: object
) -> tuple[Outcome, dict[str, int]]:
    """A run with options, and what the server counted meanwhile."""
    dsn = place.dsn(data)
    before = counts(dsn)
    outcome = place.run(name, data, directory, **options)
    after = counts(dsn)
    return outcome, {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ALONE])
def test_the_server_counts_as_many_transactions(place: Place, name: str, tmp_path: Path) -> None:
    try:
        place.generator(name, PGBENCH)
        data = PGBENCH
    except UserError:
        data = PLATFORM
    outcome, server = counted(place, name, data, tmp_path)
    assert outcome.transactions > 0
    assert outcome.failed == outcome.skipped == 0
    assert 0 <= server["commits"] - outcome.transactions < OWN_TRANSACTIONS
    assert outcome.histogram is not None
    assert sum(outcome.histogram.counts) == outcome.transactions
    assert outcome.seconds == pytest.approx(SECONDS, abs=0.7)
    for _, part in outcome.scripts:
        assert part.transactions > 0 or len(outcome.scripts) > 2


def test_each_client_sends_as_many_transactions_as_it_is_told(place: Place, tmp_path: Path) -> None:
    outcome = place.run("key-read", PGBENCH, tmp_path, transactions=300)
    assert outcome.transactions == CLIENTS * 300
    assert outcome.stddev_ms is not None and outcome.stddev_ms > 0
    assert outcome.connection_ms is not None and outcome.connection_ms > 0


def test_a_part_of_the_transactions_can_be_logged(place: Place, tmp_path: Path) -> None:
    outcome, server = counted_with(place, "key-read", PGBENCH, tmp_path, sampling_rate=0.2)
    assert outcome.histogram is not None
    assert sum(outcome.histogram.counts) < 0.4 * outcome.transactions
    lookups = server["pgbench_accounts_pkey lookups"]
    assert outcome.transactions == pytest.approx(lookups, rel=0.3)


def test_each_does_what_its_study_did(place: Place, tmp_path: Path) -> None:
    outcome, server = counted(place, "key-read", PGBENCH, tmp_path / "key")
    assert server["pgbench_accounts_pkey lookups"] == outcome.transactions
    outcome, server = counted(place, "full-scan", PGBENCH, tmp_path / "scan")
    assert server["pgbench_accounts scans"] >= outcome.transactions
    assert server["pgbench_accounts_pkey rows"] == 0
    outcome, server = counted(place, "batch-read", PGBENCH, tmp_path / "batch")
    assert server["pgbench_accounts_pkey rows"] == 10_000 * outcome.transactions
    outcome, server = counted(place, "batch-insert", PGBENCH, tmp_path / "insert")
    assert server["pgbench_history inserts"] == 100 * outcome.transactions
    outcome, server = counted(place, "select-update", PGBENCH, tmp_path / "mix")
    by_name = dict(outcome.scripts)
    assert server["pgbench_accounts updates"] == by_name["simple-update"].transactions
    halves = [part.transactions for part in by_name.values()]
    assert halves[0] == pytest.approx(halves[1], rel=0.2)


def test_with_extra_indexes_no_update_is_heap_only(place: Place, tmp_path: Path) -> None:
    outcome, server = counted(place, "update-indexed", INDEXED, tmp_path)
    assert server["pgbench_accounts updates"] == outcome.transactions
    # A random change of nothing leaves the index on abalance as it is.
    assert server["pgbench_accounts HOT"] <= 0.005 * outcome.transactions + 2
    with connect(place.dsn(INDEXED), purpose="observe") as connection:
        row = connection.execute(
            "SELECT relpersistence, (SELECT count(*) FROM pg_index WHERE indrelid = c.oid)"
            " FROM pg_class AS c WHERE relname = 'pgbench_accounts'"
        ).fetchone()
    assert row == ("u", 10)


def test_data_is_made_as_its_options_say(place: Place, database: str) -> None:
    options = (("fillfactor", "80"), ("partitions", "2"), ("foreign_keys", "true"))
    dsn = place.server.dsn_for("postgres", database)
    made = place.generator("key-read", DataChoice("pgbench", 1, options))
    made.load(dsn)
    with connect(dsn, purpose="observe") as connection:
        rows = connection.execute(
            "SELECT reloptions::text, relpages > 0, reltuples FROM pg_class"
            " WHERE relname LIKE 'pgbench_accounts__' ORDER BY relname"
        ).fetchall()
        keys = connection.execute("SELECT count(*) FROM pg_constraint WHERE contype = 'f'")
        foreign_keys = keys.fetchone()
    assert rows == [("{fillfactor=80}", True, 50_000)] * 2
    assert foreign_keys is not None
    assert foreign_keys[0] >= 5
    with pytest.raises(UserError, match="already; load into an empty database"):
        made.load(dsn)


def test_equal_seeds_draw_equal_keys(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "draw.sql"
    script.write_text(
        "\\set key random(1, 1000000)\nINSERT INTO drawn VALUES (:client_id, :key);\n"
    )
    drawn: list[list[int]] = []
    with psycopg.connect(place.dsn(PGBENCH), autocommit=True) as connection:
        for number in range(2):
            connection.execute("DROP TABLE IF EXISTS drawn")
            connection.execute("CREATE TABLE drawn (client int, key int, number serial)")
            place.run(f"script:{script}", PGBENCH, tmp_path / str(number))
            query = "SELECT key FROM drawn WHERE client = 0 ORDER BY number LIMIT 50"
            drawn.append([key for (key,) in connection.execute(query)])
        connection.execute("DROP TABLE drawn")
    assert len(drawn[0]) == 50
    assert drawn[0] == drawn[1]


def test_a_rate_is_kept_and_latency_counts_from_when_it_was_due(
    place: Place, tmp_path: Path
) -> None:
    outcome = place.run("key-read", PGBENCH, tmp_path / "slow", rate_per_s=200)
    assert outcome.tps == pytest.approx(200, rel=0.3)
    script = tmp_path / "wait.sql"
    script.write_text("SELECT pg_sleep(0.1);\n")
    late = place.run(f"script:{script}", PGBENCH, tmp_path / "late", rate_per_s=40)
    assert late.p99_ms is not None
    assert late.p99_ms > 300  # two clients do 20 a second: the queue grows
    assert late.tps == pytest.approx(20, rel=0.3)
    skipping = place.run(
        f"script:{script}", PGBENCH, tmp_path / "skip", rate_per_s=40, latency_limit_ms=150
    )
    assert skipping.skipped > 10


def test_missing_data_and_too_many_clients_say_what_to_do(
    place: Place, database: str, tmp_path: Path
) -> None:
    dsn = place.server.dsn_for("postgres", database)

    def fail(name: str, clients: int) -> str:
        made = place.generator(name, PGBENCH, clients=clients)
        with made.start(dsn, duration_s=1, log_directory=tmp_path, seed=1) as running:
            assert running.wait(60)
            with pytest.raises(ServerError) as caught:
                running.outcome()
        return str(caught.value)

    assert fail("full-scan", 1).endswith("; load the workload's data first")
    assert "raise the server's max_connections" in fail("full-scan", 300)


def test_leaving_early_ends_the_program(place: Place, tmp_path: Path) -> None:
    made = place.generator("key-read", PGBENCH)
    with made.start(place.dsn(PGBENCH), duration_s=60, log_directory=tmp_path, seed=1) as running:
        (pid,) = running.pids()
    assert not Path(f"/proc/{pid}").exists()
    assert running.pids() == ()


def test_versions_and_sysbench(place: Place) -> None:
    made = place.generator("key-read", PGBENCH)
    assert isinstance(made, Pgbench)
    made.check()
    assert re.match(r"pgbench \(PostgreSQL\) \d+", made.version())


@pytest.fixture
def sysbench(server: LocalServer, database: str) -> tuple[Generator, str]:
    """sysbench, and an empty database over TCP, where a password is asked for."""
    data = DataChoice("sysbench", 1, (("tables", "2"),))
    choice = WorkloadChoice("sysbench:oltp_read_write", 3, variables=(("point_selects", 2),))
    made = generator(choice, data)
    try:
        made.check()
    except Exception as error:
        pytest.skip(str(error))
    return made, server.tcp_dsn.replace("dbname=postgres", f"dbname={database}")


def test_sysbench_loads_runs_and_stops(sysbench: tuple[Generator, str], tmp_path: Path) -> None:
    made, dsn = sysbench
    made.load(dsn)
    with pytest.raises(UserError, match="already; load into an empty"):
        made.load(dsn)
    before = counts(dsn)
    with made.start(dsn, duration_s=2, log_directory=tmp_path, seed=1) as running:
        command = Path(f"/proc/{running.pids()[0]}/cmdline").read_bytes().decode()
        assert running.wait(60)
        outcome = running.outcome()
    after = counts(dsn)
    assert PASSWORD not in command
    commits = after["commits"] - before["commits"]
    assert 0 <= commits - outcome.transactions - outcome.failed < SYSBENCH_OWN
    assert after["sbtest1 updates"] > before["sbtest1 updates"]
    assert outcome.p99_ms is not None
    assert outcome.tps > 0
    assert made.version().startswith("sysbench ")
    began = time.monotonic()
    with made.start(dsn, duration_s=60, log_directory=tmp_path, seed=1) as running:
        time.sleep(2.5)
        running.stop()
        part = running.outcome()
    assert time.monotonic() - began < 30
    assert part.transactions > 0


def test_sysbench_that_loses_its_server_says_so(
    sysbench: tuple[Generator, str], server: LocalServer, tmp_path: Path
) -> None:
    made, dsn = sysbench
    made.load(dsn)
    with made.start(dsn, duration_s=30, log_directory=tmp_path, seed=1) as running:
        time.sleep(1.5)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (psycopg.conninfo.conninfo_to_dict(dsn)["dbname"],),
            )
        assert running.wait(60)
        with pytest.raises(ServerError, match="sysbench:oltp_read_write failed"):
            running.outcome()
