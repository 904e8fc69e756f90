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
def disk(emulator: Any) -> Path:
    """A directory for the volumes' files."""
    directory: Path = emulator.root / "disk"
    directory.mkdir()
    return directory


def write(file: Path, content: bytes) -> None:
    with file.open("wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())


def test_the_file_holds_the_data_and_goes_at_down(emulator: Any, disk: Path) -> None:
    emulator.want("data")
    status = emulator.up(choice=Choice(disk))
    assert status.volumes[0].backing.path == str(disk / "data.volume")
    content = os.urandom(8 * MIB)
    write(emulator.mount("data") / "file", content)
    (file,) = disk.iterdir()
    assert file.stat().st_size == GIB
    assert 8 * MIB < file.stat().st_blocks * 512 < GIB / 2
    assert file.stat().st_mode & 0o077 == 0
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert (emulator.mount("data") / "file").read_bytes() == content
    cleanup = emulate.down(emulator.state)
    assert f"deleted {file}" in cleanup.actions
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_kept_file_comes_back_with_what_was_on_it(
    emulator: Any, disk: Path, filesystem: str
) -> None:
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up(choice=Choice(disk, keep=True))
    (emulator.mount("data") / "file").write_text("kept")
    assert f"kept {disk}/data.volume" in emulate.down(emulator.state).actions
    status = emulator.up(choice=Choice(disk, keep=True))
    assert "format" not in [action.kind for action in status.actions]
    assert (emulator.mount("data") / "file").read_text() == "kept"
    emulator.want("data", volume={"filesystem": filesystem, "mount": str(emulator.mount("moved"))})
    emulator.up()
    assert (emulator.mount("moved") / "file").read_text() == "kept"


def test_a_kept_file_with_something_else_in_it_is_refused(emulator: Any, disk: Path) -> None:
    emulator.want("data", volume={"filesystem": "ext4"})
    emulator.up(choice=Choice(disk, keep=True))
    emulate.down(emulator.state)
    emulator.want("data")
    with pytest.raises(UserError, match="exists already with ext4 in it, not xfs; delete it"):
        emulator.up(choice=Choice(disk, keep=True))
    emulator.want("data", volume={"filesystem": "ext4", "size_bytes": Bytes(2 * GIB)})
    with pytest.raises(UserError, match="exists already with 1GiB, not 2GiB; delete it"):
        emulator.up(choice=Choice(disk, keep=True))


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_what_was_synced_survives_a_killed_server_in_a_kept_file(
    emulator: Any, disk: Path, filesystem: str
) -> None:
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up(choice=Choice(disk, keep=True))
    write(emulator.mount("data") / "file", b"synced")
    emulator.kill_server()
    status = emulator.up(choice=Choice(disk, keep=True))
    assert "clear" in [action.kind for action in status.actions]
    assert (emulator.mount("data") / "file").read_bytes() == b"synced"


def test_a_killed_server_leaves_a_file_and_down_deletes_it(emulator: Any, disk: Path) -> None:
    emulator.want("data")
    emulator.up(choice=Choice(disk))
    emulator.kill_server()
    assert list(disk.iterdir()) != []
    emulate.down(emulator.state)
    assert list(disk.iterdir()) == []
    assert emulator.leftovers() == []


def test_a_file_that_was_not_noted_is_known_after_the_next_up(emulator: Any, disk: Path) -> None:
    """As where a run was killed after the server had made it."""
    emulator.want("data")
    emulator.up(choice=Choice(disk))
    state = emulator.directory.read()
    emulator.directory.write(state.with_volume(replace(state.volumes[0], inode=None)))
    assert emulator.up(choice=Choice(disk)).actions == ()
    emulator.kill_server()
    emulator.up(choice=Choice(disk))
    emulator.kill_server()
    emulate.down(emulator.state)
    assert list(disk.iterdir()) == []


def test_up_after_a_killed_server_makes_the_file_anew(emulator: Any, disk: Path) -> None:
    emulator.want("data")
    emulator.up(choice=Choice(disk))
    write(emulator.mount("data") / "file", b"gone")
    emulator.kill_server()
    emulator.up(choice=Choice(disk))
    assert list(emulator.mount("data").iterdir()) == []


def test_a_pruned_volume_takes_its_file_along(emulator: Any, disk: Path) -> None:
    emulator.want("data")
    emulator.want("old")
    emulator.up(choice=Choice(disk))
    del emulator.volumes["old"]
    emulator.up(prune=True)
    assert [file.name for file in disk.iterdir()] == ["data.volume"]


def test_memory_and_files_side_by_side_and_neither_becomes_the_other(
    emulator: Any, disk: Path
) -> None:
    emulator.want("data")
    emulator.up()
    emulator.want("wal")
    with pytest.raises(UserError, match=r"is up with its data in memory, not .*/data\.volume"):
        emulator.up(choice=Choice(disk))
    assert list(disk.iterdir()) == []
    emulate.down(emulator.state)
    emulator.up(choice=Choice(disk))
    assert emulator.plan() == []
    assert emulator.plan(choice=Choice(disk)) == []
    with pytest.raises(UserError, match="not memory; take the volumes down first"):
        emulator.up(choice=Choice())


def test_a_file_grows_with_its_volume(emulator: Any, disk: Path) -> None:
    emulator.want("data")
    emulator.up(choice=Choice(disk))
    emulator.want("data", volume={"size_bytes": Bytes(2 * GIB)})
    emulator.up()
    assert (disk / "data.volume").stat().st_size == 2 * GIB


def test_the_default_directory_comes_and_goes(emulator: Any) -> None:
    directory = default_directory(emulator.state)
    assert not directory.exists()
    emulator.want("data")
    emulator.up(choice=Choice(directory))
    assert directory.stat().st_mode & 0o077 == 0
    emulator.kill_server()
    emulator.up(choice=Choice(directory))
    emulate.down(emulator.state)
    assert not directory.exists()


def test_a_disk_that_runs_full_fails_writes_and_not_the_emulator(emulator: Any, disk: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", str(disk)], check=True)
    try:
        emulator.want("data", volume={"filesystem": "ext4"})
        status = emulator.up(choice=Choice(disk), thin=True)
        assert "more-volume-than-disk" in [warning.code for warning in status.warnings]
        with pytest.raises(OSError, match=r"No space left on device|Input/output error"):
            write(emulator.mount("data") / "file", os.urandom(300 * MIB))
        assert emulate.read_status(emulator.state).is_running
        emulate.down(emulator.state, force=True)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
