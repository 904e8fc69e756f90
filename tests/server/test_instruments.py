"""The instruments beside a real load, on every version's way of counting."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from local_server import LocalServer

from pgstow.experiment.instruments import Recorder
from pgstow.experiment.steal_time import STOLEN

VERSIONS = (15, pytest.param(16, marks=pytest.mark.nightly), 18)
CLIENTS = 4


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"pg{version}")
def loaded(
    request: pytest.FixtureRequest, shared_server: Callable[[int], LocalServer]
) -> LocalServer:
    """A server with pgbench's tables in its database postgres."""
    server = shared_server(request.param)
    server.pgbench("--initialize", "--quiet", "--scale=2")
    return server


@contextmanager
def load(server: LocalServer, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = server.pgbench_command("--no-vacuum", f"--client={CLIENTS}", "-T", "60", *arguments)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(0.5)
        assert running.poll() is None
        yield running
        running.kill()


def told(record: Recorder) -> list[str]:
    """Codes of its warnings, but for what a hypervisor did meanwhile."""
    return [warning.code for warning in record.warnings if warning.code != STOLEN]


def recorder(
    server: LocalServer, running: "subprocess.Popen[bytes]", commit_probe_per_s: float = 0.0
) -> Recorder:
    return Recorder(
        server.dsn,
        volumes={},
        client_pids=lambda: [running.pid],
        is_local=True,
        commit_probe_per_s=commit_probe_per_s,
    )


def lsn(server: LocalServer) -> int:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.alone  # two windows of a load are held against each other
def test_a_load_that_writes(loaded: LocalServer) -> None:
    with load(loaded) as running:
        before = lsn(loaded)
        with recorder(loaded, running) as record:
            time.sleep(3)
            with psycopg.connect(loaded.dsn, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
            time.sleep(1.5)  # sessions tell their counters once a second
        after = lsn(loaded)
    found = record.instruments
    assert told(record) == []
    assert found.wal is not None
    assert found.wal.bytes == pytest.approx(after - before, rel=0.35)
    assert found.wal.syncs > 10
    assert found.checkpoints is not None
    assert found.checkpoints.requested >= 1
    assert found.database_bytes is not None
    assert found.database_bytes > 20_000_000
    assert found.waits is not None
    assert found.waits.samples > 20
    in_all = sum(sum(one) / len(one) for _, one in found.waits.sessions)
    assert 0.5 < in_all <= CLIENTS
    assert found.cpu is not None
    assert found.cpu.client_cores is not None
    assert 0 < found.cpu.client_cores < found.cpu.busy_cores
    if loaded.version >= 16:
        assert found.io is not None
        assert any(row.backend_type == "client backend" for row in found.io)
    else:
        assert found.io is None


def test_test_commits_writes_and_settings_are_recorded(loaded: LocalServer) -> None:
    with psycopg.connect(loaded.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET commit_delay = 7")
        connection.execute("ALTER SYSTEM SET archive_command = 'copy --password=S3CR3T'")
        connection.execute("ALTER SYSTEM SET track_wal_io_timing = on")
        connection.execute("SELECT pg_reload_conf()")
    with load(loaded) as running, recorder(loaded, running, commit_probe_per_s=50.0) as record:
        time.sleep(3.5)  # sessions tell their counters once a second
    with psycopg.connect(loaded.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET ALL")
        connection.execute("SELECT pg_reload_conf()")
    found = record.instruments
    assert found.commits is not None and 20 <= found.commits.commits <= 175
    assert 0 < found.commits.mean_ms <= found.commits.p99_ms <= found.commits.max_ms
    assert found.wal is not None and found.wal.write_ms is not None
    assert found.wal.write_ms_worst_second is not None
    assert found.wal.write_ms_worst_second * 1.01 >= found.wal.write_ms / found.wal.writes
    settings = dict(record.settings or ())
    assert settings["commit_delay"] == "7" and settings["synchronous_commit"] == "on"
    assert settings["shared_buffers"].endswith("B") and settings["track_wal_io_timing"] == "on"
    assert "S3CR3T" not in repr(settings) and "data_directory" not in settings
    assert "statement_timeout" not in settings  # the recorder's own session's


def test_a_reset_in_the_middle_is_told(loaded: LocalServer) -> None:
    with load(loaded) as running, recorder(loaded, running) as record:
        time.sleep(0.5)
        with psycopg.connect(loaded.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_reset_shared('wal')")
        time.sleep(0.5)
    assert record.instruments.wal is None
    assert told(record) == ["counter-reset"]
    assert record.instruments.checkpoints is not None


def test_a_remote_server_is_asked_by_sql_alone(loaded: LocalServer) -> None:
    with Recorder(loaded.dsn, volumes={}, client_pids=list, is_local=False) as record:
        time.sleep(0.3)
    assert record.instruments.devices is None
    assert record.instruments.cpu is None
    assert record.instruments.wal is not None


def test_a_server_that_goes_away_leaves_a_warning(make_server: Callable[..., LocalServer]) -> None:
    server = make_server(18)
    with Recorder(server.dsn, volumes={}, client_pids=list, is_local=True) as record:
        time.sleep(0.3)
        server.stop("immediate")
        time.sleep(0.3)
    assert record.instruments.wal is None
    assert record.instruments.cpu is not None
    assert told(record)
    assert set(told(record)) <= {"instruments", "waits"}
