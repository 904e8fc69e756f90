"""A very short run for real: what is measured and left behind, not how fast it was."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgstow.emulate import bench
from pgstow.emulate.bench import peer_volumes
from pgstow.emulate.bench.run import _clear
from pgstow.host import loops, mounts, processes, programs

ROWS = "limit-read-8k-3000,limit-host-bytes,floor-sync-mean,replay-read-mean"
PEER_ROWS = "limit-host-bytes,latency-write-1ms"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    if programs.find("fio") is None:
        pytest.skip("needs fio: apt-get install fio")
    yield tmp_path / "bench"
    _clear(tmp_path / "bench")
    assert leftovers(tmp_path) == []


def leftovers(place: Path) -> list[str]:
    """Mounts, loop devices and processes that are still there."""
    left = [mount.path for mount in mounts.mounts() if mount.path.startswith(str(place))]
    for directory in Path("/sys/block").glob("loop*/loop"):
        if str(place) in (directory / "backing_file").read_text():
            left.append(directory.parent.name)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_text(errors="replace")
        except OSError:
            continue
        if str(place) in command and str(os.getpid()) != entry.parent.name:
            left.append(command.replace("\0", " "))
    return left


def short(plan: bench.BenchPlan) -> bench.BenchPlan:
    """The same plan in the least time."""
    rows = []
    for row in plan.rows:
        assert row.trial is not None
        job = replace(row.trial.job, ramp_s=min(row.trial.job.ramp_s, 0.5), duration_s=0.5)
        rows.append(replace(row, trial=replace(row.trial, job=job)))
    return replace(plan, rows=tuple(rows))


@pytest.mark.alone
def test_rows_are_measured_and_nothing_stays(place: Path) -> None:
    plan = short(bench.make_plan(peers=(), rows=ROWS, repeats=1))
    seen: list[tuple[float, float]] = []
    report = bench.run(plan, directory=place, progress=lambda *at: seen.append(at))
    found = {result.row.key: result.ours for result in report.rows}
    assert set(found) == set(ROWS.split(","))
    # Limits are never passed by more than the 10 ms that an idle volume may make up for.
    assert 0 < found["limit-read-8k-3000"].median <= 3000 * 1.04
    assert 0 < found["limit-host-bytes"].median <= 250 * 1024**2 * 1.04
    assert found["floor-sync-mean"].median > 0
    assert abs(found["replay-read-mean"].median) < 1
    assert seen[-1][0] == seen[-1][1]
    assert leftovers(place) == []


@pytest.mark.alone
@pytest.mark.nightly
@pytest.mark.parametrize("peer", bench.known_peers())
def test_a_peer_does_the_same_jobs(place: Path, peer: str) -> None:
    missing = bench.missing_of(peer)
    if missing:
        pytest.skip(f"{peer}: {programs.remedy(missing[0])}")
    plan = short(bench.make_plan(peers=(peer,), rows=PEER_ROWS, repeats=1))
    report = bench.run(plan, directory=place)
    assert report.warnings == () or {w.code for w in report.warnings} == {"busy-machine"}
    found = {
        result.row.key: {one.subject: one for one in result.measured} for result in report.rows
    }
    limited = found["limit-host-bytes"][peer]
    assert limited.cannot
    assert limited.median > 0
    assert found["latency-write-1ms"][peer].median > 0
    assert {(one.key, one.peer) for one in report.compared} == {
        (key, peer) for key in PEER_ROWS.split(",")
    }
    assert all(one.cpu_ratio is not None and one.cpu_ratio > 0 for one in report.compared)
    assert leftovers(place) == []


def test_a_run_that_was_killed_is_cleaned_up_by_the_next(place: Path) -> None:
    peers = bench.installed_peers()
    arguments = ["emulate", "bench", "--rows", "limit-host-iops", "--state-dir", str(place)]
    arguments += ["--peers", ",".join(peers) or "none", "--repeats", "9"]
    program = [sys.executable, "-c", "from pgstow.cli import main; main()"]
    running = subprocess.Popen(
        [*program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        # In the middle of a peer's turn where there is one, else of pgstow's.
        directory = place / ("peers/mnt" if peers else "mnt")
        while not any(mount.path.startswith(str(directory)) for mount in mounts.mounts()):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.02)
        time.sleep(1)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert leftovers(place) != []
    done = subprocess.run(
        [
            *program,
            *arguments[:3],
            "limit-read-8k-3000",
            *arguments[4:-1],
            "1",
            "--quick",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert [row["row"]["key"] for row in answer["report"]["rows"]] == ["limit-read-8k-3000"]
    assert leftovers(place) == []


def test_a_second_run_at_the_same_place_is_refused(place: Path) -> None:
    place.mkdir()
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-c", "from pgstow.cli import main; main()", "emulate", "bench"]
        done = subprocess.run(
            [*command, "--quick", "--peers", "none", "--state-dir", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "another bench is at work" in done.stderr


def test_what_is_recorded_but_gone_is_no_obstacle(tmp_path: Path) -> None:
    gone = processes.ProcessIdentity(2**22 - 1, 1, processes.boot_id())
    record = peer_volumes.Record((gone,), (loops.Loop("/dev/loop0", 2**60, "/none"),))
    directory = tmp_path / "peers"
    directory.mkdir()
    (directory / "started.json").write_bytes(peer_volumes._RECORD.dump_json(record))
    peer_volumes.clear(directory)
    assert not directory.exists()
