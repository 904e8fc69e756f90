"""What a server is like: its relations, tablespaces, rights, and how to reach it."""

import time
from collections.abc import Callable

import psycopg
import pytest
from local_server import PASSWORD, LocalServer
from observing import HOSTILE, of, run, watch
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgstow.model import Layout, PgstowError, Placement, RelationId, UserError, Volume
from pgstow.model.storage import HostSpec
from pgstow.postgres import connect, inspect, read_state, redacted_dsn
from pgstow.units import GIB, Bytes


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
    ("changes", "status", "message"),
    [
        ("port=1", 1, "127.0.0.1:1: Connection refused"),  # a failure: the same may work later
        ("password=wr0ngword", 2, "check the password"),
        ("dbname=nodb", 2, 'database "nodb" does not exist'),
        ("user=nobody_here", 2, "authentication failed|does not exist"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said(
    server: LocalServer, changes: str, status: int, message: str
) -> None:
    with pytest.raises(PgstowError, match=message) as caught:
        connect(f"{server.tcp_dsn} {changes}", purpose="observe")
    assert caught.value.exit_code == status
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text and "wr0ngword" not in text


def test_a_broken_dsn_does_not_leak_its_password() -> None:
    with pytest.raises(UserError, match="connection string") as caught:
        connect("host=x passw0rd = hush hush", purpose="observe")
    assert "hush" not in str(caught.value)
    assert "hush" not in redacted_dsn("postgresql://u:hush@h/db?sslpassword=hush")


def test_who_only_looks_and_names_no_database_is_let_into_postgres(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGDATABASE", raising=False)
    with connect(server.dsn, purpose="change") as connection:
        connection.execute("CREATE ROLE nodb LOGIN SUPERUSER")
    parts = conninfo_to_dict(server.dsn)
    dsn = make_conninfo(**{n: v for n, v in parts.items() if n in ("host", "port")}, user="nodb")
    try:
        with connect(dsn, purpose="observe") as connection:
            assert connection.info.dbname == "postgres"
        with pytest.raises(UserError, match='"nodb" does not exist'):
            connect(dsn, purpose="change")
        with pytest.raises(UserError, match='"nodb" does not exist'):
            connect(f"{dsn} dbname=nodb", purpose="observe")
    finally:
        with connect(server.dsn, purpose="change") as connection:
            connection.execute("DROP ROLE nodb")


def test_a_server_that_speaks_german_lets_into_postgres_too(
    make_server: Callable[..., LocalServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGDATABASE", raising=False)
    monkeypatch.setenv("LANGUAGE", "de")
    german = make_server(15, settings={"lc_messages": "C.UTF-8"})
    parts = conninfo_to_dict(german.dsn)
    dsn = make_conninfo(**{n: v for n, v in parts.items() if n in ("host", "port")}, user="nodb")
    with connect(german.dsn, purpose="change") as connection:
        connection.execute("CREATE ROLE nodb LOGIN SUPERUSER")
    with pytest.raises(PgstowError, match="nodb") as caught:
        connect(dsn, purpose="change")
    if "existiert nicht" not in str(caught.value):
        pytest.skip("this machine's server has no German messages")
    with connect(dsn, purpose="observe") as connection:
        assert connection.info.dbname == "postgres"
    with pytest.raises(PgstowError, match="existiert nicht"):
        connect(f"{dsn} dbname=nodb", purpose="observe")


def test_an_observing_session_cannot_write(server: LocalServer) -> None:
    with connect(server.dsn, purpose="observe") as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE mine (x int)")
        assert connection.execute("SHOW lock_timeout").fetchone() == ("2s",)
        assert connection.execute("SHOW application_name").fetchone() == ("pgstow",)


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
