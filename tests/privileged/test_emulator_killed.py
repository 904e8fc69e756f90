"""kill -9 of the server in the middle of I/O: down leaves nothing, whatever was under way."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pgstow import emulate

DOWN_WITHIN_S = 30.0
DYING_S = 20.0
FILESYSTEMS = ["xfs", "ext4", "btrfs"]

# Each goes on until its volume fails, and then ends by itself as most programs do.
WORK = {
    "buffered": "exec dd if=/dev/zero of={mount}/buffered bs=1M count=2000 status=none",
    "direct": "exec dd if=/dev/zero of={mount}/direct bs=64k count=32000 oflag=direct status=none",
    "fsync": (
        "exec dd if=/dev/zero of={mount}/synced bs=8k count=100000 oflag=dsync conv=fsync"
        " status=none"
    ),
    "names": (
        "while mkdir {mount}/n && : >{mount}/n/f && sync {mount}/n && rm -r {mount}/n; do :; done"
    ),
    "reads": "while cat {mount}/read >/dev/null && echo 1 >/proc/sys/vm/drop_caches; do :; done",
}


@contextmanager
def work(commands: list[str]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Shell commands that run meanwhile."""
    running = [
        subprocess.Popen(
            ["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        for command in commands
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait(DYING_S)


def files(emulator: Any) -> list[str]:
    """What is left in the emulator's directories, those of its mounts included."""
    return [str(path) for path in emulator.root.rglob("*") if not path.is_dir()]


def nothing_is_left(emulator: Any) -> None:
    deadline = time.monotonic() + DYING_S
    while emulator.leftovers():  # of a lazy unmount the rest goes when the last process has ended
        assert time.monotonic() < deadline, emulator.leftovers()
        time.sleep(0.05)
    assert files(emulator) == []
    assert not emulator.mount("data").exists()


def take_down(emulator: Any) -> emulate.Cleanup:
    began = time.monotonic()
    cleanup = emulate.down(emulator.state)
    assert time.monotonic() - began < DOWN_WITHIN_S
    return cleanup


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
@pytest.mark.parametrize("kinds", [["buffered"], ["direct"], ["fsync"], ["names"], list(WORK)])
def test_down_after_a_kill_in_the_middle_of_io(
    emulator: Any, filesystem: str, kinds: list[str]
) -> None:
    emulator.want("data", volume={"filesystem": filesystem}, iops=2000)
    emulator.want("wal", volume={"filesystem": filesystem})
    emulator.up()
    (emulator.mount("data") / "read").write_bytes(os.urandom(1 << 20))
    with work([WORK[kind].format(mount=emulator.mount("data")) for kind in kinds]) as running:
        time.sleep(0.7)
        assert any(process.poll() is None for process in running)
        emulator.kill_server()
        take_down(emulator)
    nothing_is_left(emulator)


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_down_while_io_goes_on_after_the_kill(emulator: Any, filesystem: str) -> None:
    """A program that minds no error keeps its file open: the mount goes now, the rest with it."""
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up()
    stubborn = "exec 3>{mount}/held; while :; do echo x >&3; sleep 0.01; done"
    with work([stubborn.format(mount=emulator.mount("data"))]):
        time.sleep(0.3)
        emulator.kill_server()
        cleanup = take_down(emulator)
        assert not os.path.ismount(emulator.mount("data"))
        codes = [warning.code for warning in cleanup.warnings]
        assert codes == [] or "unmounted-lazily" in codes
    nothing_is_left(emulator)


@pytest.mark.alone  # seven fio have to be at work within two seconds
def test_down_after_a_kill_with_many_volumes_under_fio(emulator: Any) -> None:
    if shutil.which("fio") is None:
        pytest.skip("needs fio: apt-get install fio")
    for number in range(6):
        filesystem = FILESYSTEMS[number % 3]
        emulator.want(f"v{number}", volume={"filesystem": filesystem}, iops=3000)
    emulator.want("data")
    emulator.up()
    job = (
        "exec fio --name=j --directory={mount} --rw=randrw --bs=8k --size=64m --iodepth=16"
        " --ioengine=libaio --direct=1 --fsync=8 --time_based --runtime=30 --fallocate=none"
    )
    with work([job.format(mount=emulator.mount(name)) for name in emulator.volumes]):
        time.sleep(2)
        emulator.kill_server()
        take_down(emulator)
    nothing_is_left(emulator)


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_down_of_a_stalled_server_that_is_killed(emulator: Any, filesystem: str) -> None:
    """Whoever waits for a reply that never comes is let go by the server's end."""
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up()
    emulate.inject(emulator.state, [emulate.Planned(emulate.parse_fault({"kind": "stall"}, ""))])
    with work([WORK["fsync"].format(mount=emulator.mount("data"))]):
        time.sleep(0.5)
        emulator.kill_server()
        take_down(emulator)
    nothing_is_left(emulator)


@pytest.mark.parametrize("delay_ms", [0, 50, 200])
def test_down_killed_in_its_middle_can_be_run_again(
    emulator: Any, delay_ms: int, pgstow: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    emulator.want("data")
    emulator.want("wal")
    emulator.up()
    (emulator.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    emulator.kill_server()
    first = pgstow("down")
    time.sleep(0.25 + delay_ms / 1000)
    first.kill()
    first.wait()
    take_down(emulator)
    nothing_is_left(emulator)


@pytest.fixture
def pgstow(emulator: Any) -> Callable[..., "subprocess.Popen[bytes]"]:
    """Start ``pgstow emulate`` on the test's own emulator."""

    def start(*arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", "from pgstow.cli import main; main()", "emulate"]
        return subprocess.Popen(
            [*command, *arguments],
            env=os.environ | {"PGSTOW_EMULATOR": str(emulator.state)},
            stdout=subprocess.DEVNULL,
        )

    return start


@pytest.mark.parametrize("kind", ["stall", "disappear", "full"])
def test_down_with_a_fault_in_force(emulator: Any, kind: str) -> None:
    """A stall would keep the unmounting waiting for good: faults end first."""
    emulator.want("data")
    emulator.up()
    emulate.inject(emulator.state, [emulate.Planned(emulate.parse_fault({"kind": kind}, ""))])
    with work([WORK["buffered"].format(mount=emulator.mount("data"))]) as running:
        time.sleep(0.3)
        running[0].kill()
        with suppress(subprocess.TimeoutExpired):  # what a stall holds ends only after it
            running[0].wait(2.0)
        take_down(emulator)
    nothing_is_left(emulator)
