"""Trials on emulated volumes; and what is left of a run that was killed, or interrupted."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import bench_process
import pytest

from pgstow import emulate
from pgstow.experiment.run import run
from pgstow.experiment.steal_time import STOLEN
from pgstow.host import mounts
from pgstow.model import Trial
from pgstow.model.errors import UserError
from pgstow.units import MIB, Bytes

PROGRAM = Path(bench_process.__file__)


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pgstow-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def place(cache: Path) -> Iterator[Path]:
    """A directory for one run, with the base data of all."""
    path = Path(tempfile.mkdtemp(prefix="pgstow-test-", dir="/var/tmp"))
    path.chmod(0o755)
    (path / "cache").symlink_to(cache)
    yield path
    emulate.down(path / "emulator", force=True)
    shutil.rmtree(path)


def start(place: Path, blocks: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), str(place), str(blocks)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: "subprocess.Popen[str]", *words: str) -> list[str]:
    """Read what it says until a line has all the words."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if all(word in line for word in words):
            return lines
    raise AssertionError(f"it ended: {''.join(lines)}{process.communicate()[1]}")


def own_name(place: Path) -> str:
    """The name of the directory of the trial under way: its mounts and logs are there."""
    (record,) = (place / "state").glob("trial-*.json")
    found = re.search(r"/var/tmp/(pgstow-bench-[0-9a-f]+)", record.read_text())
    assert found is not None
    return found[1]


def left_of(name: str) -> list[str]:
    """Mounts, directories, servers and load generators of a trial."""
    left = [mount.path for mount in mounts.mounts() if name in mount.path]
    left += [str(path) for path in Path("/var/tmp").glob(name)]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            left += [command] if name in command else []
    return left


@pytest.mark.alone
@pytest.mark.timeout(120)
def test_trials_run_on_volumes_of_their_own_and_leave_none(place: Path) -> None:
    found: list[Trial] = []
    wanted = bench_process.experiment()
    run(wanted, bench_process.target(place), bench_process.TOOLS, on_trial=found.append)
    by_level = {trial.levels[0][1]: trial for trial in found}
    volumes = {
        level: {device.volume: device.writes_per_s for device in trial.instruments.devices or ()}
        for level, trial in by_level.items()
    }
    assert set(volumes["together"]) == {"data"}
    assert set(volumes["apart"]) == {"data", "wal"}
    assert volumes["apart"]["wal"] > volumes["apart"]["data"]
    for trial in found:
        # A commit waits for a gp3 volume: half a millisecond at the least, in each client.
        assert 10 < trial.outcome.tps < 4 * 2000
        assert trial.usd_month is not None
        assert {warning.code for warning in trial.warnings} <= {STOLEN}
    assert emulate.read_status(place / "emulator").volumes == ()
    assert [path.name for path in (place / "state").iterdir()] == ["lock"]


@pytest.mark.timeout(120)
def test_a_server_killed_for_want_of_memory_is_named_as_such(place: Path) -> None:
    wanted = bench_process.experiment()
    starved = tuple(
        replace(one, server=replace(one.server, memory_bytes=Bytes(16 * MIB)))
        for one in wanted.treatments
    )
    wanted = replace(wanted, treatments=starved)
    with pytest.raises(UserError, match=r"the kernel killed .* processes.*16 MiB of memory"):
        run(wanted, bench_process.target(place), bench_process.TOOLS, on_trial=print)


@pytest.mark.timeout(180)
def test_what_a_killed_run_left_the_next_clears_up(place: Path) -> None:
    first = start(place, 1)
    wait_for(first, "measuring")
    name = own_name(place)
    first.send_signal(signal.SIGKILL)
    first.wait()
    left = " ".join(left_of(name))
    assert "/volumes/data" in left
    assert "postgres" in left
    assert "pgbench" in left
    second = start(place, 1)
    lines = wait_for(second, "copying the data")
    assert left_of(name) == []
    output, errors = second.communicate()
    assert second.returncode == 0, errors
    assert sum(line.startswith("trial") for line in [*lines, *output.splitlines()]) == 2
    assert [path.name for path in (place / "state").iterdir()] == ["lock"]


@pytest.mark.timeout(120)
def test_an_interrupted_run_drops_the_trial_and_clears_up(place: Path) -> None:
    running = start(place, 3)
    wait_for(running, "trial")
    wait_for(running, "measuring")
    name = own_name(place)
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert "trial" not in output
    assert left_of(name) == []
    assert [path.name for path in (place / "state").iterdir()] == ["lock"]
