"""The embedded server: made, started, stopped, restarted, and nothing left of it."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_server import find_bindir

from pgstow.host import processes, programs, server
from pgstow.host.server import EmbeddedServer
from pgstow.model.errors import HostError, UserError
from pgstow.postgres import connect


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory the server's user may make its data directory in."""
    if server.find_embedded() is None:
        pytest.skip("needs the embedded PostgreSQL: pip install 'pgstow[demo]'")
    path = Path(tempfile.mkdtemp(prefix="pgstow-test-"))
    user = server.unprivileged_user()
    if user is not None:
        os.chown(path, *programs.user_ids(user))
    yield path
    shutil.rmtree(path)


def setting(dsn: str, name: str) -> str:
    with connect(dsn, purpose="observe") as connection:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def test_it_runs_and_leaves_nothing(directory: Path) -> None:
    with EmbeddedServer(directory / "data") as embedded:
        embedded.initialise()
        embedded.start({"work_mem": "5MB"})
        process = embedded.process
        assert process is not None
        assert embedded.pid == process.pid
        assert setting(embedded.dsn, "server_version").startswith("18.")
        assert setting(embedded.dsn, "data_checksums") == "on"
        assert setting(embedded.dsn, "listen_addresses") == ""
        assert setting(embedded.dsn, "work_mem") == "5MB"
        assert (embedded.runtime_directory.stat().st_mode & 0o777) == 0o700
        runtime = embedded.runtime_directory
    assert not runtime.exists()
    assert not processes.is_running(process)


def test_settings_stay_until_others_are_given_and_yield_to_alter_system(directory: Path) -> None:
    with EmbeddedServer(directory / "data") as embedded:
        embedded.initialise()
        embedded.start({"work_mem": "5MB", "maintenance_work_mem": "32MB"})
        with connect(embedded.dsn, purpose="experiment") as connection:
            connection.execute("ALTER SYSTEM SET work_mem = '6MB'")
        embedded.restart()
        assert setting(embedded.dsn, "work_mem") == "6MB"
        assert setting(embedded.dsn, "maintenance_work_mem") == "32MB"
        embedded.restart({})
        assert setting(embedded.dsn, "maintenance_work_mem") == "64MB"


def test_it_is_stopped_when_the_block_fails(directory: Path) -> None:
    with pytest.raises(ZeroDivisionError), EmbeddedServer(directory / "data") as embedded:
        embedded.initialise()
        embedded.start()
        process = embedded.process
        assert process is not None
        raise ZeroDivisionError
    assert not processes.is_running(process)


def test_a_server_that_does_not_start_says_why(directory: Path) -> None:
    with EmbeddedServer(directory / "data") as embedded:
        embedded.initialise()
        with pytest.raises(HostError, match=r'did not start: .*"shared_buffers"'):
            embedded.start({"shared_buffers": "much"})
        embedded.start({})
        with pytest.raises(HostError, match="already; stop it first"):
            embedded.start({})


def test_a_crash_is_survived(directory: Path) -> None:
    with EmbeddedServer(directory / "data") as embedded:
        embedded.initialise()
        embedded.start()
        pid = embedded.pid
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        embedded.stop()
        embedded.start()
        assert setting(embedded.dsn, "work_mem") == "4MB"


def test_a_data_directory_in_use_is_refused(directory: Path) -> None:
    (directory / "data").mkdir()
    (directory / "data" / "something").touch()
    with (
        EmbeddedServer(directory / "data") as embedded,
        pytest.raises(HostError, match="initdb failed"),
    ):
        embedded.initialise()


def test_programs_out_of_reach_are_copied(directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a directory that another user cannot enter")
    package = server.require_embedded().parent.parent
    hidden = directory / "hidden"
    hidden.mkdir(mode=0o700)
    os.chown(hidden, 0, 0)
    for part in ("pginstall18", f"../{package.name}.libs"):
        source = package / part
        if source.exists():
            target = (hidden / package.name / part).resolve()
            shutil.copytree(source, target, symlinks=True)
    bindir = hidden / package.name / "pginstall18" / "bin"
    with EmbeddedServer(directory / "data", bindir=bindir) as embedded:
        assert hidden not in embedded.bindir.parents
        copied = embedded.bindir
        embedded.initialise()
        embedded.start()
        assert embedded.is_running
    assert not copied.exists()


def test_another_version_is_taken_by_its_directory(directory: Path) -> None:
    bindir = find_bindir(15)
    if bindir is None:
        pytest.skip("needs PostgreSQL 15: no initdb of that version found")
    with EmbeddedServer(directory / "data", bindir=bindir) as embedded:
        embedded.initialise()
        embedded.start()
        assert setting(embedded.dsn, "server_version").startswith("15.")


def test_a_directory_without_a_server_is_the_users_mistake(directory: Path) -> None:
    with pytest.raises(UserError, match="has no PostgreSQL server"):
        EmbeddedServer(directory / "data", bindir=directory)
