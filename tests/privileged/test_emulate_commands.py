"""``pgstow emulate`` at the command line: set, fault and volatile on volumes that are up."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgstow.units import GIB, KIB, MIB

Run = Callable[..., subprocess.CompletedProcess[str]]

LAYOUT = """
[host]
platform = "ec2"

[volumes.data]
type = "gp3"
size = "1GiB"
mount = "{root}/mnt/data"

[volumes.wal]
type = "gp3"
size = "1GiB"
mount = "{root}/mnt/wal"
filesystem = "ext4"

[postgres]
data = "data"
wal = "wal"
"""


@pytest.fixture
def run(command: Run) -> Run:
    """``run("status")``: the command on the test's own emulator."""

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command("emulate", *arguments)
        assert done.returncode == code, (done.stdout, done.stderr)
        if code:
            assert done.stderr.startswith("pgstow: "), done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
        return done

    return run


@pytest.fixture
def layout(emulator: Any) -> Path:
    """The layout's file."""
    file: Path = emulator.root / "layout.toml"
    file.write_text(LAYOUT.format(root=emulator.root))
    return file


def volume(run: Run, name: str) -> dict[str, Any]:
    found = json.loads(run("status", "--json").stdout)["volumes"]
    return next(one for one in found if one["name"] == name)


def write_through(file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, b"x" * KIB)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_a_volume_is_modified_by_its_providers_rules(emulator: Any, run: Run, layout: Path) -> None:
    run("up", str(layout))
    small = shutil.disk_usage(emulator.mount("data")).total
    dry = run("set", "data", "--size", "12GiB", "--iops", "6000", "--dry-run")
    assert "modify data from gp3 1 GiB, 3,000 IOPS" in dry.stdout
    assert volume(run, "data")["modifications_24h"] == 0
    with (emulator.mount("data") / "open").open("w") as held:
        run("set", "data", "--size", "12GiB", "--iops", "6000", "--optimising", "1h")
        held.write("kept")
    assert shutil.disk_usage(emulator.mount("data")).total > small + 10 * GIB
    data = volume(run, "data")
    assert data["device"]["member"]["iops"] == 6000
    assert data["modifications_24h"] == 1
    assert 3500 < data["modification"]["ends_in_s"] <= 3600
    assert "optimising, 0% done" in run("status").stdout
    assert "under way" in run("set", "data", "--iops", "5000", code=2).stderr
    run("set", "data", "--iops", "4000", "--now")
    assert volume(run, "data")["modification"] is None
    for iops in (5000, 4000, 5000):
        run("set", "data", "--iops", str(iops), "--optimising", "0s")
    assert "4 times within 24 hours" in run("set", "data", "--iops", "4000", code=2).stderr
    assert run("set", "data", "--iops", "5000").stdout.startswith("Nothing to do")
    # The layout's file is the last word: it cannot shrink the volume, and says so.
    assert "cannot shrink" in run("up", str(layout), code=2).stderr


MISTAKES_OF_SET = [
    (["data"], "there is nothing to set on data; name at least one of --type"),
    (["dat", "--iops", "4000"], "no volume 'dat' is up; use one of: data, wal"),
    (["data", "--type", "gp9"], "the catalog has no volume type 'gp9'; did you mean gp"),
    (["data", "--iops", "16000"], "IOPS per GiB"),
    (["data", "--throughput", "1000MiB/s"], "MiB/s per IOPS"),
    (["data", "--throughput", "fast"], "--throughput: 'fast' is not a bandwidth"),
    (["data", "--type", "io2", "--size", "4GiB"], "is bought by IOPS"),
    (["data", "--type", "st1"], "volumes.data.size: 1GiB is under st1's least"),
    (["data", "--size", "1MiB"], "volumes.data.size: 1MiB is under"),
    (["wal", "--iops", "3500", "--optimising", "soon"], "--optimising: 'soon' is not a"),
]


def test_a_modification_that_cannot_be_is_one_line(run: Run, layout: Path) -> None:
    run("up", str(layout))
    for arguments, says in MISTAKES_OF_SET:
        assert says in run("set", *arguments, code=2).stderr
    assert volume(run, "data")["modifications_24h"] == 0


def test_nothing_is_set_where_nothing_is_up(run: Run) -> None:
    for arguments in (["set", "data", "--iops", "1"], ["volatile", "on"], ["fault", "stall"]):
        stderr = run(*arguments, code=2).stderr
        assert "no emulated volumes are up; start them with pgstow emulate up LAYOUT" in stderr


@pytest.mark.parametrize("loss", ["all", "torn"])
def test_a_power_loss_says_what_was_lost_and_the_power_comes_back(
    emulator: Any, run: Run, layout: Path, loss: str
) -> None:
    run("up", str(layout))
    refused = run("fault", "power-loss", code=2).stderr
    assert "pgstow emulate volatile on" in refused
    assert "data: volatile; 0 writes" in run("volatile", "on").stdout
    kept = emulator.mount("wal") / "kept"
    kept.write_bytes(b"x" * MIB)
    subprocess.run(["sync", str(kept)], check=True)
    write = ["dd", "if=/dev/urandom", f"of={emulator.mount('wal')}/lost", "bs=4k", "oflag=direct"]
    # It goes on until the power fails: what a filesystem flushes by itself meanwhile is not all.
    with subprocess.Popen(write, stderr=subprocess.DEVNULL) as writing:
        while volume(run, "wal")["unflushed_writes"] < 16:
            assert writing.poll() is None
        output = run("fault", "power-loss", "--loss", loss, "-v", "wal").stdout
        assert writing.wait(60) != 0
    assert output.startswith("wal: lost ")
    assert "unflushed writes" in output
    with pytest.raises(OSError, match=r"Input/output error|Read-only"):
        write_through(emulator.mount("wal") / "new")
    (fault,) = json.loads(run("fault", "list", "--json").stdout)
    assert (fault["fault"]["loss"], fault["state"], fault["volumes"]) == (loss, "active", ["wal"])
    assert fault["lost"][0]["lost_writes"] > 0
    run("fault", "clear", str(fault["id"]), "--remount")
    assert kept.read_bytes() == b"x" * MIB
    assert run("fault", "list").stdout == "No faults.\n"


def test_faults_come_by_a_schedule_and_go(emulator: Any, run: Run, layout: Path) -> None:
    schedule = emulator.root / "faults.toml"
    schedule.write_text(
        '[[faults]]\nkind = "error"\noperations = ["write"]\nvolumes = ["data"]\n'
        '[[faults]]\nat = "1h"\nfor = "5s"\nkind = "stall"\n'
    )
    assert "2 faults" in run("fault", "schedule", str(schedule), "--check").stdout
    run("up", str(layout))
    assert "in 1 h" in run("fault", "schedule", str(schedule)).stdout
    with pytest.raises(OSError, match="Input/output error"):
        write_through(emulator.mount("data") / "file")
    (emulator.mount("wal") / "file").write_bytes(b"x" * KIB)
    states = [fault["state"] for fault in json.loads(run("fault", "list", "--json").stdout)]
    assert states == ["active", "waiting"]
    assert "there is no fault 99" in run("fault", "clear", "99", code=2).stderr
    assert "active" not in run("fault", "clear", "--remount").stdout
    (emulator.mount("data") / "file").write_bytes(b"x" * KIB)


MISTAKES_OF_FAULT = [
    (["stall", "--volume", "dat"], "no volume 'dat' is up; use one of: data, wal"),
    (["stall", "--for", "long"], "--for: 'long' is not a duration"),
    (["slow", "--factor", "-1"], "--factor: input should be greater than or equal to 0"),
    (["power-loss", "--loss", "some"], "--loss: input should be 'all', 'subset'"),
    (["power-loss", "--sector", "1KiB"], "--sector: '1KiB' is no sector's size; use 512 or"),
    (["error", "--operations", "reed"], "--operations: input should be 'read'"),
    (["error", "--offset", "1Gi"], "--offset: '1Gi' is not a size"),
    (["schedule", "/nonexistent.toml"], "schedule /nonexistent.toml does not exist"),
]


def test_a_fault_that_cannot_be_is_one_line(run: Run, layout: Path) -> None:
    run("up", str(layout))
    for arguments, says in MISTAKES_OF_FAULT:
        assert says in run("fault", *arguments, code=2).stderr
    assert run("fault", "list").stdout == "No faults.\n"


def test_credits_are_shown_and_set_and_stand_still_without_limits(run: Run, layout: Path) -> None:
    text = layout.read_text().replace('type = "gp3"', 'type = "gp2"\nburst_credits = 0.3', 1)
    layout.write_text(text)
    up = run("up", str(layout)).stdout
    assert "burst 3,000 IOPS" in up
    assert "data: 30.0 % of its burst credits left" in up
    run("limits", "off")
    before = volume(run, "data")["burst_balance_percent"]
    time.sleep(0.5)
    assert volume(run, "data")["burst_balance_percent"] == before
    began_s = time.monotonic()
    run("limits", "on")
    earned = volume(run, "data")["burst_balance_percent"] - before
    percent_per_s = 100 * 100 / 5_400_000  # a small gp2 volume earns 100 credits a second
    assert 0 <= earned <= (time.monotonic() - began_s) * percent_per_s + 1e-6
    dry = run("set", "data", "--credits", "0", "--dry-run").stdout
    assert dry == "fill the burst credits of data to 0%\n"
    assert volume(run, "data")["burst_balance_percent"] > 29
    assert "data: 0.0 % of its burst credits left" in run("set", "data", "--credits", "0").stdout
    assert "no burst credits" in run("set", "wal", "--credits", "0", code=2).stderr
    both = run("set", "data", "--credits", "0", "--size", "2GiB", code=2).stderr
    assert "a run of its own" in both
    assert "no volume 'x'" in run("set", "x", "--credits", "0", "--dry-run", code=2).stderr
