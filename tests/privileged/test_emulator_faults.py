"""What goes wrong with emulated volumes, as a filesystem on them sees it."""

import errno
import mmap
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pgstow import emulate
from pgstow.emulate.control import Control, FileBacking, ServerVolume
from pgstow.emulate.faults import Disappear, Error, Fault, Full, PowerLoss, Slow, Stall
from pgstow.host import loops, mounts
from pgstow.model.errors import HostError
from pgstow.units import KIB, MIB

FILESYSTEMS = ["xfs", "ext4"]
BLOCK_BYTES = 4096


class Volume:
    """One volume with a filesystem, mounted, of memory or of a file, and its server."""

    def __init__(self, emulator: Any, filesystem: str = "xfs", file: Path | None = None) -> None:
        emulator.want("data", volume={"filesystem": filesystem})
        device = emulator.up().volumes[0].loop_device
        self.control = Control(emulator.directory.control)
        self.name = "data"
        self.filesystem = filesystem
        self.mount = emulator.mount("data")
        if file is not None:
            self.name = "file"
            self.mount = emulator.mount("file")
            self.mount.mkdir()
            self.control.add(make_device(emulator, "file"), FileBacking(path=str(file), keep=True))
            device = loops.attach(
                emulator.directory.mountpoint / "file", max_request_bytes=256 * KIB
            ).device
            arguments = {"xfs": ["-q", "-f"], "ext4": ["-q", "-F"]}[filesystem]
            subprocess.run([f"mkfs.{filesystem}", *arguments, device], check=True, timeout=60)
        self.device = device
        if file is not None:
            self.mount_again()

    def unmount(self) -> None:
        found = mounts.mount_at(self.mount)
        assert found is not None
        mounts.unmount(found)

    def mount_again(self) -> None:
        subprocess.run(
            ["mount", "-t", self.filesystem, self.device, str(self.mount)],
            check=True,
            timeout=60,
            capture_output=True,
        )

    def status(self) -> ServerVolume:
        found = self.control.status().find(self.name)
        assert found is not None
        return found

    def fault(self, fault: Fault, **when: Any) -> int:
        return self.control.fault(fault, [self.name], **when).id


def make_device(emulator: Any, name: str, size_bytes: int = 1 << 30) -> Any:
    emulator.want(name, volume={"size_bytes": size_bytes})
    return emulator.volumes.pop(name)[1]


def write(path: Path, content: bytes, *, sync: bool) -> None:
    with path.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_directly(path: Path, blocks: int) -> None:
    """Write past the page cache, so that the writes reach the volume, and no flush after them."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600)
    try:
        with mmap.mmap(-1, 64 * KIB) as buffer:
            buffer.write(b"x" * 64 * KIB)
            for block in range(blocks):
                os.pwritev(descriptor, [buffer], block * 64 * KIB)
    finally:
        os.close(descriptor)


def read_directly(device: str, offset: int = 0) -> bytes:
    """Read one block of a device past the page cache."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:
            assert os.preadv(descriptor, [buffer], offset) == BLOCK_BYTES
            return buffer[:]
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("backing", ["memory", "file"])
@pytest.mark.parametrize("filesystem", FILESYSTEMS)
@pytest.mark.parametrize("loss", ["all", "subset", "reorder", "torn"])
def test_after_a_power_cut_what_was_synced_is_there(
    emulator: Any, filesystem: str, loss: Any, backing: str
) -> None:
    volume = Volume(emulator, filesystem, emulator.root / "volume" if backing == "file" else None)
    assert volume.status().backing.kind == backing
    emulate.set_volatile(emulator.state, True)
    synced = os.urandom(3 * MIB)
    write(volume.mount / "synced", synced, sync=True)
    sync_directory(volume.mount)
    write(volume.mount / "written", bytes(5 * MIB), sync=False)
    write_directly(volume.mount / "direct", 32)
    before = volume.status()
    assert before.volatile
    assert before.unflushed_writes >= 32
    injected = volume.control.fault(PowerLoss(loss=loss, seed=3), [volume.name])
    lost = injected.lost[0]
    assert lost.unflushed_writes >= 32
    if loss == "all":
        assert lost.lost_writes == lost.unflushed_writes
    else:
        assert 0 < lost.lost_bytes < lost.unflushed_bytes
    assert volume.control.status().faults[0].lost == injected.lost
    with pytest.raises(OSError, match=r"error|read-only|shutting"):
        write(volume.mount / "late", b"x" * 4096, sync=True)
    volume.unmount()
    with pytest.raises(subprocess.CalledProcessError):
        volume.mount_again()
    volume.control.clear(injected.id)
    volume.mount_again()
    assert (volume.mount / "synced").read_bytes() == synced
    if loss == "all":
        assert not (volume.mount / "direct").exists()
    assert not (volume.mount / "late").exists()
    volume.unmount()


def test_what_is_not_volatile_cannot_be_lost(emulator: Any) -> None:
    volume = Volume(emulator)
    with pytest.raises(HostError, match="switch volatile on first"):
        volume.control.fault(PowerLoss())
    assert volume.control.status().faults == ()


def test_an_error_hits_its_range_and_its_operations(emulator: Any) -> None:
    volume = Volume(emulator)
    number = volume.fault(Error(operations=("read",), offset=8 * MIB, length=MIB))
    read_directly(volume.device, 0)
    read_directly(volume.device, 9 * MIB)
    with pytest.raises(OSError, match="Input/output error"):
        read_directly(volume.device, 8 * MIB + BLOCK_BYTES)
    volume.control.clear(number)
    read_directly(volume.device, 8 * MIB + BLOCK_BYTES)


def test_a_flush_that_fails_is_told_to_whoever_syncs(emulator: Any) -> None:
    volume = Volume(emulator, "ext4")
    emulate.set_volatile(emulator.state, True)  # what has no cache is sent no flushes
    volume.fault(Error(operations=("flush",)))
    with pytest.raises(OSError, match=r"Input/output error|Read-only"):
        write(volume.mount / "file", b"x", sync=True)


def test_a_full_volume_takes_nothing_new(emulator: Any) -> None:
    volume = Volume(emulator, "ext4")
    write(volume.mount / "old", b"x" * BLOCK_BYTES, sync=True)
    volume.fault(Full())
    with pytest.raises(OSError) as raised:
        write(volume.mount / "new", bytes(8 * MIB), sync=True)
    assert raised.value.errno in (errno.ENOSPC, errno.EIO)
    volume.control.clear()
    assert (volume.mount / "old").read_bytes() == b"x" * BLOCK_BYTES


def test_a_stall_holds_answers_back_for_its_time(emulator: Any) -> None:
    volume = Volume(emulator)
    volume.fault(Stall(), for_s=0.7)
    started = time.monotonic()
    read_directly(volume.device)
    assert time.monotonic() - started > 0.4
    assert volume.control.status().faults == ()


def test_a_stall_ends_with_the_server_and_leaves_nobody_waiting(emulator: Any) -> None:
    volume = Volume(emulator)
    volume.unmount()
    volume.fault(Stall())
    done: list[bytes] = []
    reader = threading.Thread(target=lambda: done.append(read_directly(volume.device)))
    reader.start()
    time.sleep(0.3)
    assert done == []
    assert volume.status().in_flight > 0
    volume.control.shutdown()
    reader.join(10)
    assert [block[:4] for block in done] == [b"XFSB"]


def test_a_slow_volume_is_slower_by_its_factor(emulator: Any) -> None:
    volume = Volume(emulator)
    number = volume.fault(Slow(factor=100))
    started = time.monotonic()
    read_directly(volume.device)
    assert time.monotonic() - started > 0.025  # half of what 0.5 ms become
    volume.control.clear(number)


def test_a_device_that_disappears_comes_back_when_cleared(emulator: Any) -> None:
    volume = Volume(emulator)
    number = volume.fault(Disappear())
    with pytest.raises(OSError):
        read_directly(volume.device)
    volume.control.clear(number)
    assert read_directly(volume.device)[:4] == b"XFSB"


def test_a_schedule_is_several_faults_that_wait(emulator: Any) -> None:
    volume = Volume(emulator)
    first = volume.fault(Disappear(), after_s=0.5, for_s=0.5)
    second = volume.fault(Stall(), after_s=600)
    waiting = volume.control.status().faults
    assert [(fault.id, fault.state) for fault in waiting] == [
        (first, "waiting"),
        (second, "waiting"),
    ]
    read_directly(volume.device)
    deadline = time.monotonic() + 10
    while volume.control.status().faults[0].state == "waiting" and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(OSError):
        read_directly(volume.device)
    while len(volume.control.status().faults) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    read_directly(volume.device)


def test_a_fault_that_cannot_be_is_refused_in_one_line(emulator: Any) -> None:
    volume = Volume(emulator)
    for fault, options, message in [
        (Slow(factor=-1), {}, "factor"),
        (PowerLoss(sector_bytes=100), {}, "512 or 4096"),
        (Error(operations=()), {}, "operations"),
        (Stall(), {"for_s": 0.0}, "for_s"),
        (Stall(), {"after_s": -1.0}, "after_s"),
    ]:
        with pytest.raises(HostError, match=message):
            volume.control.fault(fault, **options)
    with pytest.raises(HostError, match="no volume"):
        volume.control.fault(Stall(), ["nothing"])
    with pytest.raises(HostError, match="no fault 99"):
        volume.control.clear(99)


def blocks_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_file_can_be_larger_than_memory_and_is_thin(emulator: Any, filesystem: str) -> None:
    path = emulator.root / "volume"
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up()
    control = Control(emulator.directory.control)
    size_bytes = 4 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    control.add(make_device(emulator, "big", size_bytes), FileBacking(path=str(path)))
    loop = loops.attach(emulator.directory.mountpoint / "big", max_request_bytes=256 * KIB)
    options = {"xfs": ["-q", "-f"], "ext4": ["-q", "-F", "-E", "lazy_itable_init=1"]}[filesystem]
    subprocess.run([f"mkfs.{filesystem}", *options, loop.device], check=True, timeout=60)
    mount = emulator.mount("big")
    mount.mkdir()
    subprocess.run(["mount", loop.device, str(mount)], check=True)
    made_bytes = blocks_bytes(path)
    content = os.urandom(64 * MIB)
    write(mount / "file", content, sync=True)
    assert path.stat().st_size == size_bytes
    assert made_bytes + 60 * MIB < blocks_bytes(path) < made_bytes + 128 * MIB
    with (mount / "file").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert (mount / "file").read_bytes() == content
    status = control.status().find("big")
    assert status is not None
    assert status.backing.free_bytes is not None and status.backing.free_bytes > 0
    (mount / "file").unlink()
    deadline = time.monotonic() + 30
    while blocks_bytes(path) > made_bytes + 32 * MIB:  # XFS frees in the background
        assert time.monotonic() < deadline
        sync_directory(mount)
        subprocess.run(["fstrim", str(mount)], check=True)
        time.sleep(0.1)
    subprocess.run(["umount", str(mount)], check=True)
    loops.detach(loop)
    control.remove("big")
    assert not path.exists()


def test_a_file_that_is_kept_is_there_for_the_next_server(emulator: Any) -> None:
    path = emulator.root / "volume"
    volume = Volume(emulator, file=path)
    write(volume.mount / "file", b"kept", sync=False)
    emulate.down(emulator.state)
    emulator.up()
    control = Control(emulator.directory.control)
    with pytest.raises(HostError, match="add it with keep"):
        control.add(make_device(emulator, "file"), FileBacking(path=str(path)))
    control.add(make_device(emulator, "file"), FileBacking(path=str(path), keep=True))
    volume.device = loops.attach(
        emulator.directory.mountpoint / "file", max_request_bytes=256 * KIB
    ).device
    volume.mount_again()
    assert (volume.mount / "file").read_text() == "kept"


def test_a_full_disk_under_a_file_is_no_space_left(emulator: Any) -> None:
    small, image = emulator.root / "small", emulator.root / "image"
    small.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(small)], check=True)
    try:
        emulator.want("data")
        emulator.up()
        control = Control(emulator.directory.control)
        control.add(make_device(emulator, "file"), FileBacking(path=str(small / "volume")))
        file = emulator.directory.mountpoint / "file"
        with pytest.raises(OSError, match="No space left"):
            write_directly(file, 2048)
        control.remove("file")
    finally:
        emulate.down(emulator.state)
        subprocess.run(["umount", str(small)], check=True)
