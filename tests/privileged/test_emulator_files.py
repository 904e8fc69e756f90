"""Volumes made of files: where they lie, what becomes of them, and what survives what."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgstow import emulate
from pgstow.emulate import Choice, default_directory
from pgstow.model.errors import UserError
from pgstow.units import GIB, MIB, Bytes

FILESYSTEMS = ["xfs", "ext4", "btrfs"]


@pytest.fixture
def disk(lab: Any) -> Path:
    """A directory for the volumes' files."""
    directory: Path = lab.root / "disk"
    directory.mkdir()
    return directory


def write(file: Path, content: bytes) -> None:
    with file.open("wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())


def test_the_file_holds_the_data_and_goes_at_down(lab: Any, disk: Path) -> None:
    lab.want("data")
    status = lab.up(choice=Choice(disk))
    assert status.volumes[0].backing.path == str(disk / "data.volume")
    content = os.urandom(8 * MIB)
    write(lab.mount("data") / "file", content)
    (file,) = disk.iterdir()
    assert file.stat().st_size == GIB
    assert 8 * MIB < file.stat().st_blocks * 512 < GIB / 2
    assert file.stat().st_mode & 0o077 == 0
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert (lab.mount("data") / "file").read_bytes() == content
    cleanup = emulate.down(lab.state)
    assert f"deleted {file}" in cleanup.actions
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_kept_file_comes_back_with_what_was_on_it(lab: Any, disk: Path, filesystem: str) -> None:
    lab.want("data", volume={"filesystem": filesystem})
    lab.up(choice=Choice(disk, keep=True))
    (lab.mount("data") / "file").write_text("kept")
    assert f"kept {disk}/data.volume" in emulate.down(lab.state).actions
    status = lab.up(choice=Choice(disk, keep=True))
    assert "format" not in [action.kind for action in status.actions]
    assert (lab.mount("data") / "file").read_text() == "kept"
    lab.want("data", volume={"filesystem": filesystem, "mount": str(lab.mount("moved"))})
    lab.up()
    assert (lab.mount("moved") / "file").read_text() == "kept"


def test_a_kept_file_with_something_else_in_it_is_refused(lab: Any, disk: Path) -> None:
    lab.want("data", volume={"filesystem": "ext4"})
    lab.up(choice=Choice(disk, keep=True))
    emulate.down(lab.state)
    lab.want("data")
    with pytest.raises(UserError, match="exists already with ext4 in it, not xfs; delete it"):
        lab.up(choice=Choice(disk, keep=True))
    lab.want("data", volume={"filesystem": "ext4", "size_bytes": Bytes(2 * GIB)})
    with pytest.raises(UserError, match="exists already with 1GiB, not 2GiB; delete it"):
        lab.up(choice=Choice(disk, keep=True))


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_what_was_synced_survives_a_killed_server_in_a_kept_file(
    lab: Any, disk: Path, filesystem: str
) -> None:
    lab.want("data", volume={"filesystem": filesystem})
    lab.up(choice=Choice(disk, keep=True))
    write(lab.mount("data") / "file", b"synced")
    lab.kill_server()
    status = lab.up(choice=Choice(disk, keep=True))
    assert "clear" in [action.kind for action in status.actions]
    assert (lab.mount("data") / "file").read_bytes() == b"synced"


def test_a_killed_server_leaves_a_file_and_down_deletes_it(lab: Any, disk: Path) -> None:
    lab.want("data")
    lab.up(choice=Choice(disk))
    lab.kill_server()
    assert list(disk.iterdir()) != []
    emulate.down(lab.state)
    assert list(disk.iterdir()) == []
    assert lab.leftovers() == []


def test_a_file_that_was_not_noted_is_known_after_the_next_up(lab: Any, disk: Path) -> None:
    """As where a run was killed after the server had made it."""
    lab.want("data")
    lab.up(choice=Choice(disk))
    state = lab.directory.read()
    lab.directory.write(state.with_volume(replace(state.volumes[0], inode=None)))
    assert lab.up(choice=Choice(disk)).actions == ()
    lab.kill_server()
    lab.up(choice=Choice(disk))
    lab.kill_server()
    emulate.down(lab.state)
    assert list(disk.iterdir()) == []


def test_up_after_a_killed_server_makes_the_file_anew(lab: Any, disk: Path) -> None:
    lab.want("data")
    lab.up(choice=Choice(disk))
    write(lab.mount("data") / "file", b"gone")
    lab.kill_server()
    lab.up(choice=Choice(disk))
    assert list(lab.mount("data").iterdir()) == []


def test_a_pruned_volume_takes_its_file_along(lab: Any, disk: Path) -> None:
    lab.want("data")
    lab.want("old")
    lab.up(choice=Choice(disk))
    del lab.volumes["old"]
    lab.up(prune=True)
    assert [file.name for file in disk.iterdir()] == ["data.volume"]


def test_memory_and_files_side_by_side_and_neither_becomes_the_other(lab: Any, disk: Path) -> None:
    lab.want("data")
    lab.up()
    lab.want("wal")
    with pytest.raises(UserError, match=r"is up with its data in memory, not .*/data\.volume"):
        lab.up(choice=Choice(disk))
    assert list(disk.iterdir()) == []
    emulate.down(lab.state)
    lab.up(choice=Choice(disk))
    assert lab.plan() == []
    assert lab.plan(choice=Choice(disk)) == []
    with pytest.raises(UserError, match="not memory; take the volumes down first"):
        lab.up(choice=Choice())


def test_a_file_grows_with_its_volume(lab: Any, disk: Path) -> None:
    lab.want("data")
    lab.up(choice=Choice(disk))
    lab.want("data", volume={"size_bytes": Bytes(2 * GIB)})
    lab.up()
    assert (disk / "data.volume").stat().st_size == 2 * GIB


def test_the_default_directory_comes_and_goes(lab: Any) -> None:
    directory = default_directory(lab.state)
    assert not directory.exists()
    lab.want("data")
    lab.up(choice=Choice(directory))
    assert directory.stat().st_mode & 0o077 == 0
    lab.kill_server()
    lab.up(choice=Choice(directory))
    emulate.down(lab.state)
    assert not directory.exists()


def test_a_disk_that_runs_full_fails_writes_and_not_the_emulator(lab: Any, disk: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", str(disk)], check=True)
    try:
        lab.want("data", volume={"filesystem": "ext4"})
        status = lab.up(choice=Choice(disk), thin=True)
        assert "more-volume-than-disk" in [warning.code for warning in status.warnings]
        with pytest.raises(OSError, match=r"No space left on device|Input/output error"):
            write(lab.mount("data") / "file", os.urandom(300 * MIB))
        assert emulate.read_status(lab.state).is_running
        emulate.down(lab.state, force=True)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
