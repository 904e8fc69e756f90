"""Observing real servers: their state, their load, and what must not be averaged over."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from local_server import PASSWORD, LocalServer
from psycopg import sql

from pgstow.model import Layout, Placement, Profile, Relation, RelationId, UserError, Volume
from pgstow.model.storage import HostSpec
from pgstow.observe import observe
from pgstow.postgres import connect, inspect, read_state, redacted_dsn
from pgstow.postgres.sampling import Sampler
from pgstow.units import GIB, Bytes
from pgstow.workspace import Workspace

HOSTILE = ['we"ird', "new\nline", "<script>alert(1)</script>", "$(rm -rf ~)", "a'b;--", "Größe 💥"]


@pytest.fixture
def monitor(server: LocalServer) -> str:
    """The DSN of a role that has pg_monitor and nothing else."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'watcher'").fetchone():
            connection.execute("CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    return server.dsn_for("watcher")


def run(server: LocalServer, database: str, *statements: str) -> None:
    """Run statements as the superuser."""
    with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def watch(dsn: str, seconds: float = 3.0, **options: object) -> Profile:
    """Observe with short intervals."""
    defaults = {
        "duration_s": seconds,
        "interval_s": 1.0,
        "clock": time.monotonic,
        "sleep": time.sleep,
    }
    return observe(dsn, **(defaults | options))  # type: ignore[arg-type]


@contextmanager
def load(server: LocalServer, database: str, *options: str) -> Iterator[None]:
    """Keep pgbench running inside."""
    command = server.pgbench_command("-n", "-T", "60", *options, database=database)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1.0)
        yield
    finally:
        process.terminate()
        process.wait()


def of(relations: tuple[Relation, ...], name: str, database: str) -> Relation:
    """The relation of that name in a database's schema public."""
    return next(r for r in relations if r.id == RelationId(database, "public", name))


def codes(profile: Profile) -> set[str]:
    """The codes of a profile's warnings."""
    return {warning.code for warning in profile.warnings}


# State


def test_the_state_names_the_server(server: LocalServer, monitor: str) -> None:
    state = read_state(monitor)
    assert state.version_num // 10000 == server.version
    assert state.data_directory == str(server.data)
    assert state.is_local and not state.is_in_recovery and state.standbys == 0
    assert state.wal_directory == str(server.data / "pg_wal")
    assert state.system_identifier in server.run("pg_controldata", str(server.data)).stdout
    assert state.setting("shared_buffers") == "32MB"
    assert state.setting("no_such_setting") is None
    assert not any(r.id.schema in ("pg_catalog", "information_schema") for r in state.relations)


def test_every_kind_of_relation_is_known(server: LocalServer, monitor: str, database: str) -> None:
    run(
        server,
        database,
        "CREATE TABLE plain (id int PRIMARY KEY, body text)",
        "INSERT INTO plain SELECT g, repeat(md5(g::text), 3) FROM generate_series(1, 5000) g",
        "CREATE UNLOGGED TABLE quick (x int)",
        "CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM plain",
        "CREATE TABLE rooms (during int4range, EXCLUDE USING gist (during WITH &&))",
        "CREATE TABLE events (at int, x text) PARTITION BY RANGE (at)",
        "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10)",
        "CREATE INDEX events_at ON events (at)",
        "CREATE TEMP TABLE passing (x int)",
    )
    relations = tuple(r for r in read_state(monitor).relations if r.id.database == database)
    plain = of(relations, "plain", database)
    assert plain.kind == "table" and plain.size_bytes > 5000 * 96
    index = of(relations, "plain_pkey", database)
    assert (index.kind, index.table, index.is_exclusion) == ("index", plain.id, False)
    toast = [r for r in relations if r.table == plain.id and r.kind.startswith("toast")]
    assert {r.kind for r in toast} == {"toast", "toast index"}
    assert of(relations, "quick", database).persistence == "unlogged"
    assert of(relations, "sums", database).kind == "materialized view"
    assert of(relations, "rooms_during_excl", database).is_exclusion
    partition = of(relations, "events_1", database)
    assert partition.partition_of == RelationId(database, "public", "events")
    assert of(relations, "events_1_at_idx", database).partition_of == RelationId(
        database, "public", "events_at"
    )
    names = {r.id.name for r in relations}
    assert not names & {"events", "events_at", "passing"}  # they have no file, or nobody else's


def test_hostile_names_are_only_names(server: LocalServer, monitor: str, database: str) -> None:
    with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
        for name in HOSTILE:
            connection.execute(sql.SQL("CREATE TABLE {} (x int)").format(sql.Identifier(name)))
    found = {r.id.name for r in read_state(monitor).relations if r.id.database == database}
    assert set(HOSTILE) <= found


def test_tablespaces_hold_what_they_hold(
    make_server: Callable[..., LocalServer], server: LocalServer
) -> None:
    own = make_server(server.version)
    fast, base = own.make_directory("fast"), own.make_directory("base")
    run(
        own,
        "postgres",
        f"CREATE TABLESPACE \"we'ird\" LOCATION '{fast}' WITH (random_page_cost = 1.5)",
        f"CREATE TABLESPACE base LOCATION '{base}'",
        "CREATE DATABASE elsewhere TABLESPACE base",
        'ALTER SYSTEM SET temp_tablespaces = "we\'ird"',
        "SELECT pg_reload_conf()",
    )
    run(
        own,
        "elsewhere",
        "CREATE TABLE here (x int)",
        'CREATE TABLE there (x int) TABLESPACE "we\'ird"',
        "CREATE TABLE home (x int) TABLESPACE pg_default",
    )
    state = read_state(own.dsn)
    assert [(t.name, t.location) for t in state.tablespaces] == [
        ("base", str(base)),
        ("we'ird", str(fast)),
    ]
    assert state.tablespaces[1].options == (("random_page_cost", "1.5"),)
    assert of(state.relations, "here", "elsewhere").tablespace == "base"
    assert of(state.relations, "there", "elsewhere").tablespace == "we'ird"
    assert of(state.relations, "home", "elsewhere").tablespace == "pg_default"
    volumes = tuple(
        Volume(name, "gp3", Bytes(GIB), str(path))
        for name, path in (("main", own.directory), ("quick", fast), ("slow", base))
    )
    layout = Layout(HostSpec("ec2"), volumes, Placement("main", "main"))
    present = watch(own.dsn, seconds=1.0, layout=layout).layout
    assert present.postgres == Placement("main", "main", ("quick",))
    assert present.volume_of(RelationId("elsewhere", "public", "here")).name == "slow"
    assert present.volume_of(RelationId("elsewhere", "public", "there")).name == "quick"
    assert present.volume_of(RelationId("elsewhere", "public", "home")).name == "main"


def test_pg_wal_is_followed_through_its_link(make_server: Callable[..., LocalServer]) -> None:
    own = make_server(15)
    own.stop()
    wal = own.directory / "wal"
    (own.data / "pg_wal").rename(wal)
    (own.data / "pg_wal").symlink_to(wal)
    own.start()
    assert read_state(own.dsn).wal_directory == str(wal)


def test_a_locked_table_does_not_hold_up_the_observer(
    server: LocalServer, monitor: str, database: str
) -> None:
    run(server, database, "CREATE TABLE held AS SELECT generate_series(1, 1000) x", "VACUUM held")
    with psycopg.connect(server.dsn_for("postgres", database)) as holder:
        holder.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        relation = of(read_state(monitor).relations, "held", database)
        assert time.monotonic() - began < 2.0
        assert relation.size_bytes > 0


# Rights and connections


def test_a_role_without_rights_is_told_which(server: LocalServer) -> None:
    run(
        server,
        "postgres",
        'DROP ROLE IF EXISTS "no rights"',
        'CREATE ROLE "no rights" LOGIN',
    )
    with pytest.raises(UserError, match='GRANT pg_monitor TO "no rights"'):
        read_state(f"host={server.directory} port={server.port} user='no rights' dbname=postgres")


def test_a_closed_database_is_left_out_aloud(
    server: LocalServer, monitor: str, database: str
) -> None:
    run(server, database, "CREATE TABLE secret (x int)")
    run(server, database, f'REVOKE CONNECT ON DATABASE "{database}" FROM PUBLIC')
    inspection = inspect(monitor)
    assert database not in inspection.state.databases
    assert [w.code for w in inspection.warnings] == ["database-skipped"]
    assert database in inspection.warnings[0].message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("port=1", "127.0.0.1:1: Connection refused"),
        ("password=wr0ngword", "check the password"),
        ("dbname=nodb", 'database "nodb" does not exist'),
        ("user=nobody_here", "authentication failed|does not exist"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said(
    server: LocalServer, changes: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        connect(f"{server.tcp_dsn} {changes}", purpose="observe")
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text and "wr0ngword" not in text


def test_a_broken_dsn_does_not_leak_its_password() -> None:
    with pytest.raises(UserError, match="connection string") as caught:
        connect("host=x passw0rd = hush hush", purpose="observe")
    assert "hush" not in str(caught.value)
    assert "hush" not in redacted_dsn("postgresql://u:hush@h/db?sslpassword=hush")


def test_an_observing_session_cannot_write(server: LocalServer) -> None:
    with connect(server.dsn, purpose="observe") as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE mine (x int)")
        assert connection.execute("SHOW lock_timeout").fetchone() == ("2s",)
        assert connection.execute("SHOW application_name").fetchone() == ("pgstow",)


# Load


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
    with load(server, database, "-c", "2", "-f", str(script)):
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
    with load(server, database, "-c", "2"):
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


# What happens in between


def test_a_reset_is_noticed(own_server: LocalServer) -> None:
    own_server.pgbench("-i", "-q")

    def reset() -> None:
        time.sleep(1.6)
        run(own_server, "postgres", "SELECT pg_stat_reset()")

    thread = threading.Thread(target=reset)
    with load(own_server, "postgres", "-c", "1"):
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


# The command line


def pgstow(*arguments: str) -> subprocess.Popen[str]:
    """Start pgstow as a user would."""
    return subprocess.Popen(
        [sys.executable, "-c", "from pgstow.cli import main; main()", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "120"},
    )


def test_the_command_prints_and_keeps_the_profile(
    server: LocalServer, monitor: str, database: str, tmp_path: Path
) -> None:
    hostile = "[bold]x\n<b>"
    with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} AS SELECT generate_series(1, 50000) x").format(
                sql.Identifier(hostile)
            )
        )
    script = server.directory / f"{database}.sql"
    table = f'"{hostile}"'
    script.write_text(f"SELECT count(*) FROM {table};\nUPDATE {table} SET x = x WHERE x = 7;\n")
    workspace = tmp_path / "w.db"
    with load(server, database, "-c", "1", "-f", str(script)):
        process = pgstow(
            *("observe", "--dsn", monitor, "--duration", "3s", "--interval", "1s"),
            *("--workspace", str(workspace)),
        )
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "[bold]x\\n<b>" in output.replace(" ", "")
    assert "Transactions" in output
    with Workspace.open(workspace) as store:
        profile = store.latest("profile", Profile)
    assert profile is not None
    assert any(d.relation.name == hostile for d in profile.demands)


def test_json_is_all_there_is_on_standard_output(monitor: str, tmp_path: Path) -> None:
    process = pgstow(
        *("observe", "--dsn", monitor, "--duration", "2s", "--interval", "1s", "--json"),
        *("--workspace", str(tmp_path / "w.db")),
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(output)["samples"] == 3


def test_ctrl_c_keeps_what_was_sampled(monitor: str, tmp_path: Path) -> None:
    workspace = tmp_path / "w.db"
    process = pgstow(
        *("observe", "--dsn", monitor, "--duration", "10min", "--interval", "1s"),
        *("--workspace", str(workspace)),
    )
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    with Workspace.open(workspace) as store:
        profile = store.latest("profile", Profile)
    assert profile is not None and 2 <= profile.samples <= 6


def test_the_users_mistakes_are_one_line_and_exit_2(tmp_path: Path) -> None:
    place = ("--workspace", str(tmp_path / "w.db"))
    for arguments in (
        ("observe", "--dsn", "host=127.0.0.1 port=1", *place),
        ("observe", "--duration", "soon", *place),
        ("observe", "--duration", "2s", "--interval", "1ms", *place),
    ):
        process = pgstow(*arguments)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 2, errors
        assert output == ""
        (line,) = errors.strip().splitlines()
        assert line.startswith("pgstow: ")


# Standbys


def test_a_standby_can_be_observed(make_server: Callable[..., LocalServer]) -> None:
    primary = make_server(15)
    copy = primary.make_directory("standby")
    primary.run(
        "pg_basebackup",
        *("-h", str(primary.directory), "-p", str(primary.port), "-U", "postgres"),
        *("-D", str(copy), "-R", "--checkpoint=fast"),
    )
    standby = LocalServer(15, primary.bindir, copy)
    sockets = f"port = {standby.port}\nunix_socket_directories = '{copy}'\n"
    with (copy / "postgresql.conf").open("a") as file:
        file.write(sockets)
    pg_ctl = ("pg_ctl", f"--pgdata={copy}", "--wait", "--silent")
    primary.run(*pg_ctl, f"--log={primary.directory / 'standby.log'}", "start")
    try:
        state = read_state(standby.dsn)
        assert state.is_in_recovery and state.is_local
        assert state.data_directory == str(copy)
        assert read_state(primary.dsn).standbys == 1
        primary.pgbench("-i", "-q")
        profile = watch(standby.dsn, seconds=2.0)
        assert any(r.id.name == "pgbench_accounts" for r in profile.server.relations)
        with pytest.raises(UserError, match="standby cannot be probed"):
            watch(standby.dsn, commit_probe_per_s=5.0)
    finally:
        primary.run(*pg_ctl, "--mode=immediate", "stop")
