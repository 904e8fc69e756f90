"""The emulator's record: round trips, refusals, identities."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgstow.emulate import backing, emulated_volumes, read_status, take_down
from pgstow.emulate.backing import Backing
from pgstow.emulate.control import Compensation, ServerBacking, ServerStatus, ServerVolume
from pgstow.emulate.observation import observe
from pgstow.emulate.state import State, StateDirectory, VolumeState, write_atomically
from pgstow.emulate.volumes import check_mount_point, missing_directories, remove_directories
from pgstow.host import mounts, processes, programs
from pgstow.host.loops import Loop
from pgstow.model import Burst, Device, HostCap, Latency, Mechanics, Member, Restore, Volume
from pgstow.model.errors import HostError, UserError
from pgstow.units import GIB, MIB, Bytes

VOLUME = Volume("data", "gp2", Bytes(GIB), "/mnt/pgstow-none", mkfs_options=("-m", "reflink=0"))
MEMBER = Member(
    iops=100,
    bytes_per_second=128 * MIB,
    io_unit_bytes=262144,
    latency=Latency(600, 1200.5, 700, 1500, 16384, 800, 3.25),
    burst=Burst("iops", 5.4e6, 100, 3000, 0.5),
    mechanics=Mechanics(230, 7400.5, 8333, 150e6, True),
    restored=Restore(524288, 30000, 100000.5, None, 100e6),
)
DEVICE = Device("data", Bytes(GIB), 1, Bytes(65536), MEMBER)


def test_the_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    assert directory.read() is None
    entry = VolumeState(
        VOLUME, DEVICE, Loop("/dev/loop7", 99, "/f"), GIB, True, ("/mnt/pgstow-none",)
    )
    state = State(
        "boot", Compensation(131.5, 150.0), HostCap(12_000, None, 40_000, None, 0.25), (entry,)
    )
    directory.write(state)
    assert directory.read() == state
    assert directory.read().volumes[0].device == DEVICE


def test_an_unknown_state_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.state_file.write_text('{"version": "later"}')
    with pytest.raises(HostError, match=r"is damaged; clear up with pgstow emulate down"):
        directory.read()
    directory.write(State("boot", version=99))
    with pytest.raises(HostError, match="is of another version of pgstow; clear up with"):
        directory.read()


def test_a_directory_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="too long a path"):
        StateDirectory(tmp_path / ("x" * 100))


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    write_atomically(target, b"old")
    with pytest.raises(TypeError):
        write_atomically(target, "not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"


def test_status_and_mapping_of_an_emulator_that_never_was(tmp_path: Path) -> None:
    status = read_status(tmp_path / "none")
    assert not status.is_running
    assert status.volumes == ()
    assert emulated_volumes(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


def test_volumes_without_their_server_have_unknown_counters(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.write(State("boot", Compensation(131.5, 150.0), None, (VolumeState(VOLUME, DEVICE),)))
    status = read_status(tmp_path)
    assert status.volumes[0].reads is None
    assert [warning.code for warning in status.warnings] == ["server-gone"]


def test_an_inode_that_was_not_noted_is_that_of_the_file_the_server_has(tmp_path: Path) -> None:
    file = tmp_path / "data.volume"
    file.touch()
    entry = VolumeState(VOLUME, DEVICE, backing=Backing("file", str(file)))

    def observed(entry: VolumeState, path: Path) -> int | None:
        made_of = ServerBacking("file", str(path))
        present = ServerVolume(
            "data", GIB, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, True, DEVICE, made_of, False, 0, 0, 0
        )
        server = ServerStatus(1, Compensation(), True, None, (present,), ())
        found = observe(StateDirectory(tmp_path), State("boot", volumes=(entry,)), server)
        return found.volumes[0].inode

    inode = file.stat().st_ino
    assert observed(entry, file) == inode
    assert observed(replace(entry, inode=inode + 1), file) == inode + 1
    assert observed(entry, tmp_path / "other.volume") is None
    file.unlink()
    assert observed(entry, file) is None


def test_a_dry_run_says_which_files_stay_and_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server a file goes only if it is known to have been made for its volume."""
    directory = StateDirectory(tmp_path / "state")
    directory.path.mkdir()
    ours, theirs = tmp_path / "ours.volume", tmp_path / "theirs.volume"
    entries = []
    for file in (ours, theirs):
        file.touch()
        volume = replace(VOLUME, name=file.stem)
        inode = file.stat().st_ino if file == ours else None
        made_of = Backing("file", str(file))
        entries.append(VolumeState(volume, DEVICE, backing=made_of, inode=inode))
    directory.write(State("boot", volumes=tuple(entries)))
    first, second = take_down.plan_down(directory.path)
    assert first.endswith(f": delete {ours}")
    assert second.endswith(f": leave {theirs}, which is not known to be the emulator's")
    with monkeypatch.context() as patch:
        patch.setattr(backing, "default_directory", lambda _: tmp_path)
        first, second = take_down.plan_down(directory.path, purge=True)
        assert first.endswith(f": delete {ours}")
        assert second.endswith(f": delete {theirs}")
    cleanup = take_down.down(directory.path)
    assert [warning.code for warning in cleanup.warnings] == ["file-not-ours"]
    assert (ours.exists(), theirs.exists()) == (False, True)


def test_a_process_is_known_by_its_start_and_boot() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = processes.identify(child.pid)
        assert identity is not None
        assert processes.is_running(identity)
        earlier = processes.ProcessIdentity(child.pid, identity.start_ticks - 1, identity.boot_id)
        assert not processes.is_running(earlier)
        assert processes.end(earlier, timeout_s=5)  # nothing to end, and nothing is ended
        assert child.poll() is None
        assert processes.end(identity, timeout_s=5)
    assert not processes.is_running(identity)
    assert processes.wait_until_gone(identity, timeout_s=5)


def test_holders_are_named(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as file:
        found = processes.holders(os.fstat(file.fileno()).st_dev)
    assert os.getpid() in [holder.pid for holder in found]


def test_a_missing_program_says_what_to_install() -> None:
    with pytest.raises(HostError, match=r"mkfs\.nothing is not installed"):
        programs.require("mkfs.nothing")
    assert programs.remedy("mkfs.xfs") == "install it: apt-get install xfsprogs"


def test_a_failing_program_is_named_with_its_last_line() -> None:
    with pytest.raises(HostError) as raised:
        programs.run(["sh", "-c", "echo first >&2; echo 'the last' >&2; exit 3"], timeout_s=10)
    assert str(raised.value) == "sh failed: the last"


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(HostError, match="did not end within"):
        programs.run(["sleep", "60"], timeout_s=0.05)


def test_a_program_reads_its_input_and_answers() -> None:
    assert programs.run(["cat"], timeout_s=10, input="naïve\n") == "naïve\n"


def test_a_user_that_does_not_exist_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="no-such-user"):
        programs.run(["true"], timeout_s=10, user="no-such-user")


def test_mount_table_is_read_from_the_end_of_optional_fields() -> None:
    text = (
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        "40 22 7:1 / /mnt/a rw shared:5 master:2 - xfs /dev/loop1 rw,noquota\n"
    )
    rows = mounts.parse_mountinfo(text)
    assert [(row.path, row.filesystem, row.source) for row in rows] == [
        ("/", "ext4", "/dev/root"),
        ("/mnt/a", "xfs", "/dev/loop1"),
    ]
    assert rows[1].device_number == os.makedev(7, 1)


def test_mount_points_that_will_not_do(tmp_path: Path) -> None:
    def volume_at(path: Path) -> Volume:
        return Volume("data", "gp3", Bytes(GIB), str(path))

    check_mount_point(volume_at(tmp_path / "missing"))
    check_mount_point(volume_at(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a directory"):
        check_mount_point(volume_at(tmp_path / "file"))
    with pytest.raises(UserError, match="is not empty"):
        check_mount_point(volume_at(tmp_path))
    with pytest.raises(UserError, match="mounted on it already"):
        check_mount_point(volume_at(Path("/")))


def test_only_directories_that_were_made_are_removed(tmp_path: Path) -> None:
    made = missing_directories(tmp_path / "a/b/c")
    assert made == (str(tmp_path / "a"), str(tmp_path / "a/b"), str(tmp_path / "a/b/c"))
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/kept").write_text("")
    remove_directories(made)
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "kept"]
