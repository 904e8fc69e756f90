"""Moving pg_wal on real servers: away, to another volume, home; killed at every phase."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from apply_samples import Bench
from local_server import LocalServer

from pgstow.host import postmaster

PHASES = (
    "after first copy",
    "before stop",
    "after stop",
    "after copy",
    "between renames",
    "after switch",
    "before start",
    "after start",
    "before clean",
    "after clean",
)
# Those with the most different remains; over fakes make test has every one, make nightly here too.
DAILY = ("after stop", "between renames", "after switch", "after start")
EACH = [pytest.param(one, marks=() if one in DAILY else pytest.mark.nightly) for one in PHASES]
# A run of apply that kills itself at a phase: what kill -9 at that moment does.
KILLED = """
import functools, os, signal, sys
from pgstow.apply import wal

def hook(phase):
    if phase == {phase!r}:
        {action}

wal.move = functools.partial(wal.move, hook=hook)
from pgstow.cli import main
main()
"""


@pytest.fixture
def bench(own_server: LocalServer) -> Iterator[Bench]:
    found = Bench.of(own_server)
    found.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 1000)"
    )
    yield found


def wal_path(bench: Bench) -> Path:
    return (bench.server.data / "pg_wal").resolve()


def check_whole(bench: Bench, rows: int = 1000) -> None:
    """The server runs, has its data, writes, checkpoints, and there is one pg_wal only."""
    assert bench.execute("SELECT count(*) FROM t") == [(rows,)]
    bench.execute("INSERT INTO t VALUES (0)", "CHECKPOINT", "DELETE FROM t WHERE id = 0")
    bench.execute("SELECT pg_switch_wal()", "CHECKPOINT")
    names = {path.name for path in bench.server.data.iterdir() if path.name.startswith("pg_wal")}
    assert names == {"pg_wal"}


def killed_at(bench: Bench, phase: str, *arguments: str) -> None:
    script = KILLED.format(phase=phase, action="os.kill(os.getpid(), signal.SIGKILL)")
    command = [sys.executable, "-c", script, *bench.command(*arguments)[3:]]
    result = subprocess.run([*command, "--yes"], text=True, capture_output=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr + result.stdout


def test_there_and_back(bench: Bench) -> None:
    home = wal_path(bench)
    options = bench.execute("SELECT current_setting('port'), pg_postmaster_start_time()::text")
    bench.apply_layout(bench.layout(wal="wal"), "--restart")
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    assert (bench.server.data / "pg_wal").is_symlink()
    assert wal_path(bench).stat().st_mode & 0o777 == 0o700
    check_whole(bench)
    after = bench.execute("SELECT current_setting('port'), pg_postmaster_start_time()::text")
    assert after[0][0] == options[0][0]
    assert after[0][1] != options[0][1]

    kept = bench.apply("--undo")  # without leave to restart it stays
    assert "run again with --restart" in kept.stdout
    undone = bench.apply("--undo", "--restart")
    assert undone.returncode == 0, undone.stderr
    assert wal_path(bench) == home
    assert not (bench.server.data / "pg_wal").is_symlink()
    assert not (bench.directory / "wal" / "pg_wal").exists()
    check_whole(bench)


def test_from_volume_to_volume(bench: Bench) -> None:
    bench.apply_layout(bench.layout(wal="wal"), "--restart")
    bench.apply_layout(bench.layout(wal="fast"), "--restart")
    assert wal_path(bench) == bench.directory / "fast" / "pg_wal"
    assert not (bench.directory / "wal" / "pg_wal").exists()
    check_whole(bench)


def test_the_server_keeps_its_options(bench: Bench) -> None:
    bench.server.pg_ctl("stop", "--mode=fast")
    bench.server.pg_ctl("start", "-o", "-c work_mem=7MB -c 'search_path=\"a b\", public'")
    bench.apply_layout(bench.layout(wal="wal"), "--restart")
    assert bench.execute("SHOW work_mem") == [("7MB",)]
    check_whole(bench)


@pytest.mark.parametrize("phase", EACH)
def test_killed_and_taken_up_again(make_server, phase: str) -> None:  # type: ignore[no-untyped-def]
    server = make_server(15 if PHASES.index(phase) % 2 else 18)
    bench = Bench.of(server)
    bench.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    path = str(bench.write(bench.layout(wal="wal")))
    killed_at(bench, phase, path, "--restart")
    result = bench.apply(path, "--restart")
    assert result.returncode == 0, result.stderr
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    check_whole(bench)
    killed_at(bench, phase, "--undo", "--restart")
    result = bench.apply(path)  # recovers: home where that is safe, or on to the end
    assert result.returncode == 0, result.stderr
    check_whole(bench)


@pytest.mark.parametrize("phase", EACH)
def test_killed_and_given_up(make_server, phase: str) -> None:  # type: ignore[no-untyped-def]
    server = make_server(18 if PHASES.index(phase) % 2 else 15)
    bench = Bench.of(server)
    bench.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    home = wal_path(bench)
    path = str(bench.write(bench.layout(wal="wal")))
    killed_at(bench, phase, path, "--restart")
    result = bench.apply("--undo")  # no leave to restart: back if the new one was never used
    assert result.returncode == 0, result.stderr
    started = PHASES.index(phase) >= PHASES.index("after start")
    assert (wal_path(bench) == home) is not started
    check_whole(bench)
    if started:
        assert bench.apply("--undo", "--restart").returncode == 0
        assert wal_path(bench) == home
        check_whole(bench)
    assert not (bench.directory / "wal" / "pg_wal").exists()


@pytest.mark.parametrize("phase", EACH)
def test_ctrl_c_leaves_the_server_running(make_server, phase: str) -> None:  # type: ignore[no-untyped-def]
    bench = Bench.of(make_server(15))
    bench.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    path = str(bench.write(bench.layout(wal="wal")))
    script = KILLED.format(phase=phase, action="raise KeyboardInterrupt")
    command = [sys.executable, "-c", script, *bench.command(path, "--restart", "--yes")[3:]]
    result = subprocess.run(command, text=True, capture_output=True, check=False)
    assert result.returncode == 130, result.stderr
    assert bench.execute("SELECT count(*) FROM t") == [(1000,)]
    again = bench.apply(path, "--restart")
    assert again.returncode == 0, again.stderr
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    check_whole(bench)


def test_the_server_stays_in_its_control_group(bench: Bench) -> None:
    """A memory limit on the server outlives the restart."""
    pid = int((bench.server.data / "postmaster.pid").read_text().split()[0])
    ours = Path("/proc/self/cgroup").read_text().splitlines()
    line = next((line for line in ours if ":memory:" in line or line.startswith("0::")), None)
    if line is None or os.geteuid() != 0:
        pytest.skip("needs root and control groups")
    root = Path("/sys/fs/cgroup/memory" if ":memory:" in line else "/sys/fs/cgroup")
    group = root / f"pgstow-test-{pid}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        pytest.skip(f"needs a control group: {error}")
    try:
        bench.apply_layout(bench.layout(wal="wal"), "--restart")
        after = (bench.server.data / "postmaster.pid").read_text().split()[0]
        assert after != str(pid)
        assert after in (group / "cgroup.procs").read_text().split()
        bench.server.stop()
    finally:
        _remove_group(group)


def _remove_group(group: Path) -> None:
    """A server that has stopped may still be on its way out."""
    deadline = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    group.rmdir()


def test_a_server_someone_started_meanwhile_is_not_harmed(bench: Bench) -> None:
    """Killed after the switch, then started by hand: from then on only the new pg_wal is good."""
    path = str(bench.write(bench.layout(wal="wal")))
    killed_at(bench, "after switch", path, "--restart")
    bench.server.start()
    bench.execute("INSERT INTO t SELECT generate_series(1001, 2000)")
    bench.server.stop("immediate")
    result = bench.apply(path)  # no leave to restart, but the server is down and must come up
    assert result.returncode == 0, result.stderr
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    check_whole(bench, 2000)


def test_a_target_that_is_in_use_is_refused(bench: Bench) -> None:
    target = bench.directory / "wal" / "pg_wal"
    target.mkdir()
    (target / "000000010000000000000001").write_text("someone's")
    result = bench.apply(str(bench.write(bench.layout(wal="wal"))), "--restart")
    assert result.returncode == 2
    assert "is not empty" in result.stderr
    check_whole(bench)
    assert (target / "000000010000000000000001").read_text() == "someone's"


def test_a_server_that_does_not_start_there_comes_back(bench: Bench) -> None:
    """The copy cannot be reached by the server's user: everything is put back."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a directory the server cannot enter")
    path = str(bench.write(bench.layout(wal="wal")))
    (bench.directory / "wal").chmod(0o700)
    result = bench.apply(path, "--restart")
    assert result.returncode == 1, result.stderr
    assert wal_path(bench) == bench.server.data / "pg_wal"
    check_whole(bench)


def test_ctrl_c_after_the_first_copy_and_what_others_put_there_since(bench: Bench) -> None:
    """What is in the target by then is somebody else's: no later apply touches it."""
    target = bench.directory / "wal" / "pg_wal"
    path = str(bench.write(bench.layout(wal="wal")))
    killed_at(bench, "after first copy", path, "--restart")
    (target / "precious").write_text("somebody's")
    copied = next(p for p in sorted(target.iterdir()) if len(p.name) == 24)
    copied.write_text("somebody's too")
    other = bench.apply(str(bench.write(bench.layout(("postgres.public.t",)))))
    assert other.returncode == 0, other.stderr
    assert str(target / "precious") in " ".join(other.stderr.split())
    assert sorted(p.name for p in target.iterdir()) == sorted(["precious", copied.name])
    assert (target / "precious").read_text() == "somebody's"
    check_whole(bench)
    refused = bench.apply(str(bench.write(bench.layout(wal="wal"))), "--restart")
    assert (refused.returncode, "is not empty" in refused.stderr) == (2, True), refused.stderr
    assert copied.read_text() == "somebody's too"


def test_ctrl_c_is_recorded_as_put_back(bench: Bench) -> None:
    from pgstow.workspace import Workspace

    path = str(bench.write(bench.layout(wal="wal")))
    script = KILLED.format(phase="after first copy", action="raise KeyboardInterrupt")
    command = [sys.executable, "-c", script, *bench.command(path, "--restart", "--yes")[3:]]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 130
    with Workspace.open(bench.workspace) as store:
        assert store.journal.unfinished_wal_moves() == ()
    assert not (bench.directory / "wal" / "pg_wal").exists()
    check_whole(bench)


# Cut off in its first copy; and what is copied while the server is down is told on standard output.
CUT_OFF = """
import os, signal, sys
from pathlib import Path
from pgstow.host import postmaster
from pgstow.host.disk import Disk

copy, count = Disk.copy, 0

def watched(self, source, target, advanced):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    if postmaster.running_pid({data!r}) is None:
        print("down:", source.name)
    copy(self, source, target, advanced)

Disk.copy = watched
from pgstow.cli import main
main()
"""


def watched(bench: Bench, at: int, path: str) -> "subprocess.CompletedProcess[str]":
    script = CUT_OFF.format(at=at, data=str(bench.server.data))
    command = [sys.executable, "-c", script, *bench.command(path, "--restart", "--yes")[3:]]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def test_a_first_copy_that_was_cut_off_ends_while_the_server_runs(bench: Bench) -> None:
    """Then the server is down for what was written since, and no longer."""
    for _ in range(4):
        bench.execute("INSERT INTO t VALUES (0)", "DELETE FROM t WHERE id = 0")
        bench.execute("SELECT pg_switch_wal()")
    segments = sorted(p for p in wal_path(bench).iterdir() if len(p.name) == 24)
    assert len(segments) >= 3
    for segment in segments[:-1]:
        os.utime(segment, (1e9, 1e9))  # at rest for long
    path = str(bench.write(bench.layout(wal="wal")))
    assert watched(bench, 2, path).returncode == -signal.SIGKILL
    bench.execute("INSERT INTO t SELECT generate_series(1001, 2000)")
    result = watched(bench, 0, path)
    assert result.returncode == 0, result.stderr
    down = {line.removeprefix("down: ") for line in result.stdout.splitlines() if "down:" in line}
    assert down and not down & {segment.name for segment in segments[:-1]}
    assert "completed the interrupted move" in " ".join(result.stderr.split())
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    check_whole(bench, 2000)


def test_ctrl_c_while_the_server_stops_does_not_leave_it_down(bench: Bench) -> None:
    """It has been told to stop and will: it must be started then."""
    ((checkpointer,),) = bench.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
    )
    path = str(bench.write(bench.layout(wal="wal")))
    script = KILLED.format(phase="before stop", action=f"os.kill({checkpointer}, signal.SIGSTOP)")
    command = [sys.executable, "-c", script, *bench.command(path, "--restart", "--yes")[3:]]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lock_file = bench.server.data / "postmaster.pid"
    try:
        deadline = time.monotonic() + 60
        while "stopping" not in lock_file.read_text():
            assert time.monotonic() < deadline, "the server was not told to stop"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(1)
    finally:
        os.kill(checkpointer, signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "as before, the server was started on it again" in " ".join(errors.split())
    assert wal_path(bench) == bench.server.data / "pg_wal"
    check_whole(bench)


def opened_by_a_reader(fifo: Path) -> int:
    """Wait until somebody reads a pipe; gives its other end."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if fifo.is_fifo():
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody yet
            pass
        assert time.monotonic() < deadline, f"nobody reads {fifo}"
        time.sleep(0.01)


def test_ctrl_c_at_a_terminal_while_the_server_starts_does_not_stop_it(bench: Bench) -> None:
    """It reaches all that runs in the foreground; the server is held where it reads pg_hba.conf."""
    hba = bench.server.data / "pg_hba.conf"
    rules = hba.read_text()
    path = str(bench.write(bench.layout(wal="wal")))
    action = f"os.remove({str(hba)!r}); os.mkfifo({str(hba)!r}); os.chmod({str(hba)!r}, 0o644)"
    script = KILLED.format(phase="before start", action=action)
    command = [sys.executable, "-c", script, *bench.command(path, "--restart", "--yes")[3:]]
    process = subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with os.fdopen(opened_by_a_reader(hba), "w") as pipe:
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        hba.unlink()
        hba.write_text(rules)
        bench.server.own(hba)
        pipe.write(rules)
    assert process.returncode == 130, errors
    while True:
        assert postmaster.running_pid(str(bench.server.data)), "the server was stopped"
        try:
            rows = bench.execute("SELECT count(*) FROM t")
        except psycopg.OperationalError:
            time.sleep(0.05)
            continue
        break
    assert rows == [(1000,)]
    output = " ".join(errors.split())
    assert "has been started on" in output and "; the server runs" in output, errors
    again = bench.apply(path, "--restart")
    assert again.returncode == 0, again.stderr
    assert wal_path(bench) == bench.directory / "wal" / "pg_wal"
    check_whole(bench)
