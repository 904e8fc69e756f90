"""What goes wrong with emulated volumes, as a filesystem on them sees it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pgstow.emulate.control import Control
from pgstow.emulate.faults import PowerLoss
from pgstow.host import mounts
from pgstow.model.errors import HostError
from pgstow.units import MIB

FILESYSTEMS = ["xfs", "ext4"]


class Volume:
    """One volume that is up and mounted, and its server."""

    def __init__(self, lab: Any, filesystem: str = "xfs", **member: Any) -> None:
        lab.want("data", volume={"filesystem": filesystem}, **member)
        self.device = lab.up().volumes[0].loop_device
        self.filesystem = filesystem
        self.mount = lab.mount("data")
        self.control = Control(lab.directory.control)

    def unmount(self) -> None:
        found = mounts.mount_at(self.mount)
        assert found is not None
        mounts.unmount(found)

    def mount_again(self) -> None:
        subprocess.run(
            ["mount", "-t", self.filesystem, self.device, str(self.mount)], check=True, timeout=60
        )


def write(path: Path, content: bytes, *, sync: bool) -> None:
    with path.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
@pytest.mark.parametrize("loss", ["all", "subset", "reorder", "torn"])
def test_after_a_power_cut_what_was_synced_is_there(lab: Any, filesystem: str, loss: Any) -> None:
    volume = Volume(lab, filesystem)
    volume.control.set_volatile(True)
    synced = os.urandom(3 * MIB)
    write(volume.mount / "synced", synced, sync=True)
    sync_directory(volume.mount)
    write(volume.mount / "written", bytes(5 * MIB), sync=False)
    # Written back to the volume's cache, and no flush after it.
    subprocess.run(
        [
            "dd",
            "if=/dev/zero",
            f"of={volume.mount}/direct",
            "bs=64k",
            "count=32",
            "oflag=direct",
            "status=none",
        ],
        check=True,
    )
    before = volume.control.status().find("data")
    assert before is not None and before.volatile
    assert before.unflushed_writes >= 32
    injected = volume.control.fault(PowerLoss(loss=loss, seed=3), ["data"])
    lost = injected.lost[0]
    assert lost.unflushed_writes >= 32
    if loss == "all":
        assert lost.lost_writes == lost.unflushed_writes
    else:
        assert 0 < lost.lost_bytes < lost.unflushed_bytes
    assert volume.control.status().faults[0].lost == injected.lost
    with pytest.raises(OSError):
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


def test_what_is_not_volatile_cannot_be_lost(lab: Any) -> None:
    volume = Volume(lab)
    with pytest.raises(HostError, match="switch volatile on first"):
        volume.control.fault(PowerLoss())
    assert volume.control.status().faults == ()
