"""Up and down from every state: idempotent, interruptible, and by identity alone."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pgstow import emulate
from pgstow.emulate.control import Compensation, Control
from pgstow.emulate.faults import Full, Slow
from pgstow.host import loops, mounts
from pgstow.model.errors import HostError, UserError
from pgstow.units import GIB, Bytes


def test_up_twice_does_nothing_the_second_time(emulator: Any) -> None:
    emulator.want("data", iops=3000, bytes_per_second=125e6)
    first = emulator.up()
    (emulator.mount("data") / "file").write_text("kept")
    assert emulator.plan() == []
    second = emulator.up()
    assert second.actions == ()
    assert second.pid == first.pid
    assert (emulator.mount("data") / "file").read_text() == "kept"


def test_down_twice_is_fine(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    assert emulate.down(emulator.state).actions
    assert emulator.leftovers() == []
    assert emulate.down(emulator.state).actions == []


def test_a_compensation_found_before_is_taken_as_it_is(emulator: Any) -> None:
    emulator.want("data")
    given = Compensation(41.0, 43.0)
    assert emulator.up(compensation=given).compensation == given
    assert Control(emulator.directory.control).status().compensation == given


def test_a_dry_run_changes_nothing(emulator: Any) -> None:
    emulator.want("data")
    assert emulator.plan()[0] == "start server"
    assert not emulator.state.exists()


def test_a_volume_is_added_to_those_that_are_up(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    (emulator.mount("data") / "file").write_text("kept")
    emulator.want("wal", volume={"filesystem": "ext4"})
    status = emulator.up()
    assert [volume.name for volume in status.volumes] == ["data", "wal"]
    assert all(volume.is_mounted for volume in status.volumes)
    assert (emulator.mount("data") / "file").read_text() == "kept"


def test_a_volume_not_in_the_layout_is_kept_until_pruned(emulator: Any) -> None:
    emulator.want("data")
    emulator.want("old")
    emulator.up()
    del emulator.volumes["old"]
    status = emulator.up()
    assert [action.kind for action in status.actions] == ["keep"]
    assert mounts.mount_at(emulator.mount("old")) is not None
    status = emulator.up(prune=True)
    assert [volume.name for volume in status.volumes] == ["data"]
    assert not emulator.mount("old").exists()


def test_a_moved_mount_keeps_its_contents(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    (emulator.mount("data") / "file").write_text("kept")
    emulator.want("data", volume={"mount": str(emulator.mount("elsewhere"))})
    emulator.up()
    assert (emulator.mount("elsewhere") / "file").read_text() == "kept"
    assert not emulator.mount("data").exists()


def test_mounts_inside_mounts(emulator: Any) -> None:
    emulator.want("inner", volume={"mount": str(emulator.mount("outer") / "deep/inner")})
    emulator.want("outer")
    emulator.up()
    assert emulator.plan() == []
    (emulator.mount("outer") / "deep/inner/file").write_text("")
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


def test_a_smaller_size_is_refused(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    emulator.want("data", volume={"size_bytes": Bytes(GIB // 2)})
    with pytest.raises(UserError, match="cannot shrink"):
        emulator.up()


@pytest.mark.parametrize("filesystem", ["xfs", "ext4", "btrfs"])
def test_a_volume_grows_while_it_is_in_use(emulator: Any, filesystem: str) -> None:
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up()
    with (emulator.mount("data") / "file").open("w") as file:
        before = shutil.disk_usage(emulator.mount("data")).total
        wanted = {"filesystem": filesystem, "size_bytes": Bytes(2 * GIB)}
        emulator.want("data", volume=wanted, iops=4000)
        if filesystem == "ext4" and not _may_resize_ext4():
            with pytest.raises(HostError, match="CAP_SYS_RESOURCE"):
                emulator.up()
            assert emulator.plan() == ["grow"]
            return
        assert [action.kind for action in emulator.up().actions] == ["change", "grow"]
        file.write("kept")
    assert shutil.disk_usage(emulator.mount("data")).total > before + 0.9 * GIB
    assert emulator.plan() == []
    assert (emulator.mount("data") / "file").read_text() == "kept"


def test_others_than_root_see_the_mounts_and_are_told_what_they_lack(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    emulator.root.chmod(0o755)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        assert [v.mount for v in emulate.emulated_volumes(emulator.state)] == [
            str(emulator.mount("data"))
        ]
        for act in (emulate.read_status, emulate.down, lambda _: emulator.up()):
            with pytest.raises(HostError, match=r"run this as root|run it with sudo"):
                act(emulator.state)
    finally:
        os.seteuid(0)
    assert mounts.mount_at(emulator.mount("data")) is not None


def test_a_mount_point_that_is_not_empty_is_refused_before_anything_is_made(emulator: Any) -> None:
    emulator.want("data")
    emulator.want("wal")
    emulator.mount("wal").mkdir(parents=True)
    (emulator.mount("wal") / "precious").write_text("mine")
    with pytest.raises(UserError, match=r"volume wal: mount point .* is not empty"):
        emulator.up()
    assert emulator.leftovers() == []
    assert not emulator.mount("data").exists()
    assert (emulator.mount("wal") / "precious").read_text() == "mine"


def test_an_empty_directory_of_the_users_stays(emulator: Any) -> None:
    emulator.mount("data").mkdir(parents=True)
    emulator.want("data")
    emulator.up()
    emulate.down(emulator.state)
    assert emulator.mount("data").is_dir()


@pytest.mark.parametrize("filesystem", ["xfs", "btrfs"])
def test_a_busy_mount_names_who_holds_it_and_force_takes_it_down(
    emulator: Any, filesystem: str
) -> None:
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.up()
    with (emulator.mount("data") / "held").open("w"):
        with pytest.raises(HostError, match=rf"in use by .*\(pid {os.getpid()}\)"):
            emulate.down(emulator.state)
        assert mounts.mount_at(emulator.mount("data")) is not None
        assert emulator.up().volumes[0].is_mounted  # and goes on as before
        cleanup = emulate.down(emulator.state, force=True)
        assert "unmounted-lazily" in [warning.code for warning in cleanup.warnings]
        assert mounts.mount_at(emulator.mount("data")) is None
    _wait_until(lambda: emulator.leftovers() == [])


def test_one_volume_in_use_leaves_all_as_they_are(emulator: Any, tmp_path: Path) -> None:
    emulator.want("free")
    emulator.want("used")
    before = emulator.up()
    assert before.limits_enabled
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        cwd=emulator.mount("used"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        for act in (emulate.down, emulate.plan_down):
            with pytest.raises(HostError, match=rf"used is in use by .*\(pid {user.pid}\)"):
                act(emulator.state)
        after = emulate.read_status(emulator.state)
        assert after.limits_enabled
        assert all(volume.is_mounted for volume in after.volumes)
        user.communicate(b"\n")
    inner = emulator.mount("free") / "inner"
    inner.mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path), str(inner)], check=True)
    with pytest.raises(HostError, match=r"free has .*inner mounted inside it"):
        emulate.down(emulator.state)
    assert emulate.read_status(emulator.state).limits_enabled
    subprocess.run(["umount", str(inner)], check=True)
    planned = emulate.plan_down(emulator.state)
    assert any(
        line.startswith("remove volume used (") and f": unmount {emulator.mount('used')}, " in line
        for line in planned
    )
    assert all(volume.is_mounted for volume in emulate.read_status(emulator.state).volumes)


def test_what_cannot_be_seen_in_the_way_puts_back_what_was_unmounted(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.want("first")
    emulator.want("second")
    emulator.up()
    emulate.set_limits(emulator.state, False)
    control = Control(emulator.directory.control)
    control.set_limits(True, "first")
    control.fault(Slow(factor=2.0), ["first"])
    control.fault(Full(), ["second"], after_s=3600.0, for_s=60.0)
    unmount = mounts.unmount

    def refuse_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(emulator.mount("first")):
            raise HostError("target is busy")
        unmount(mount, **options)

    message = r"busy; fault 1 \(slow, factor 2\) is set again, as fault (\d+);"
    with monkeypatch.context() as patch, pytest.raises(HostError, match=message) as e:
        patch.setattr(mounts, "unmount", refuse_first)
        emulate.down(emulator.state)
    faults = {fault.fault.kind: fault for fault in control.status().faults}
    assert faults.keys() == {"slow", "full"}
    assert faults["slow"].volumes == ("first",) and faults["slow"].state == "active"
    assert f"is set again, as fault {faults['slow'].id};" in str(e.value)
    ends_in_s, starts_in_s = faults["full"].ends_in_s, faults["full"].starts_in_s
    assert ends_in_s is not None and round(ends_in_s - starts_in_s) == 60
    after = {volume.name: volume for volume in emulate.read_status(emulator.state).volumes}
    assert all(volume.is_mounted for volume in after.values())
    assert {name: one.limits_enabled for name, one in after.items()} == {
        "first": True,
        "second": False,
    }


def test_down_that_is_interrupted_puts_back_what_it_has_let_go(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.want("first")
    emulator.want("second")
    emulator.up()
    control = Control(emulator.directory.control)
    control.fault(Slow(factor=2.0), ["first"])
    unmount = mounts.unmount

    def interrupt_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(emulator.mount("first")):
            raise KeyboardInterrupt
        unmount(mount, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mounts, "unmount", interrupt_first)
        emulate.down(emulator.state)
    assert [fault.fault.kind for fault in control.status().faults] == ["slow"]
    after = emulate.read_status(emulator.state).volumes
    assert [volume.is_mounted and volume.limits_enabled for volume in after] == [True, True]


def test_mounting_anew_leaves_nothing_unmounted_where_one_volume_is_in_use(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.want("first")
    emulator.want("second")
    emulator.up()
    unmount = mounts.unmount

    def refuse_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(emulator.mount("first")):
            raise HostError("target is busy")
        unmount(mount, **options)

    with monkeypatch.context() as patch, pytest.raises(HostError, match="busy"):
        patch.setattr(mounts, "unmount", refuse_first)
        emulate.clear_faults(emulator.state, None, remount=True)
    assert all(volume.is_mounted for volume in emulate.read_status(emulator.state).volumes)


def test_status_looks_at_what_is_mounted(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    mount = mounts.mount_at(emulator.mount("data"))
    assert mount is not None
    mounts.unmount(mount)
    status = emulate.read_status(emulator.state)
    assert not status.volumes[0].is_mounted
    assert [warning.code for warning in status.warnings] == ["not-mounted"]
    assert emulate.emulated_volumes(emulator.state) == ()
    assert emulator.up().volumes[0].is_mounted


@pytest.mark.parametrize("filesystem", ["xfs", "ext4", "btrfs"])
def test_a_killed_server_leaves_nothing_after_down(emulator: Any, filesystem: str) -> None:
    emulator.want("data", volume={"filesystem": filesystem})
    emulator.want("wal")
    emulator.up()
    (emulator.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    emulator.kill_server()
    assert [w.code for w in emulate.read_status(emulator.state).warnings] == ["server-gone"]
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


def test_a_killed_server_with_an_open_file_leaves_nothing_after_down(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    with (emulator.mount("data") / "held").open("w"):
        emulator.kill_server()
        emulate.down(emulator.state)
        assert mounts.mount_at(emulator.mount("data")) is None
    _wait_until(lambda: emulator.leftovers() == [])


def test_a_server_that_hangs_does_not_keep_down_from_ending(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    (emulator.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    os.kill(emulator.server().pid, signal.SIGSTOP)
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


def test_up_after_a_killed_server_makes_the_volumes_anew(emulator: Any) -> None:
    emulator.want("data")
    first = emulator.up()
    emulator.kill_server()
    assert emulator.plan()[:2] == ["clear", "start server"]
    second = emulator.up()
    assert second.pid != first.pid
    assert second.volumes[0].is_mounted
    assert list(emulator.mount("data").iterdir()) == []


def test_a_reused_pid_is_not_killed(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    emulator.kill_server()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        record = emulator.directory.pid_file.read_text()
        stale = record.replace(f'"pid":{emulator.server().pid}', f'"pid":{other.pid}')
        assert stale != record
        emulator.directory.pid_file.write_text(stale)
        emulate.down(emulator.state)
        assert other.poll() is None
        other.kill()


def test_a_loop_device_someone_else_uses_now_is_left_alone(emulator: Any) -> None:
    emulator.want("data")
    loop = Path(emulator.up().volumes[0].loop_device or "").name
    emulator.kill_server()
    mounts.unmount(mounts.mount_at(emulator.mount("data")))  # type: ignore[arg-type]
    subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=True)
    other = emulator.root / "other.img"
    other.write_bytes(bytes(1 << 20))
    subprocess.run(["losetup", f"/dev/{loop}", str(other)], check=True)
    try:
        emulate.down(emulator.state)
        assert [found.device for found in loops.of_file(other)] == [f"/dev/{loop}"]
    finally:
        subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=True)


def test_a_lost_record_is_no_obstacle_to_down(emulator: Any) -> None:
    emulator.want("data")
    emulator.up()
    emulator.directory.state_file.unlink()
    with pytest.raises(HostError, match="pgstow emulate down"):
        emulator.up()
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


_UP = """
import os, sys
from pathlib import Path
sys.path.insert(0, {emulator!r})
import conftest
emulator = conftest.EmulatorFixture(Path({root!r}))
emulator.want("data"), emulator.want("wal")
seen = 0
def progress(done, total):
    if done >= {step}:
        os.kill(os.getpid(), 9)
emulator.up(progress=progress)
"""


@pytest.mark.parametrize("step", range(1, 12))
def test_up_killed_between_any_two_actions_is_finished_or_undone(emulator: Any, step: int) -> None:
    code = _UP.format(emulator=str(Path(__file__).parent), root=str(emulator.root), step=step)
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    emulator.want("data")
    emulator.want("wal")
    if step % 2:
        status = emulator.up()
        assert all(volume.is_mounted and volume.limits_enabled for volume in status.volumes)
        assert emulator.plan() == []
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


@pytest.mark.parametrize("delay_ms", [150, 400, 700, 1000, 1300, 1600])
def test_up_killed_at_any_moment_is_undone(emulator: Any, delay_ms: int) -> None:
    code = _UP.format(emulator=str(Path(__file__).parent), root=str(emulator.root), step=10**6)
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    time.sleep(delay_ms / 1000)
    child.kill()
    child.wait()
    emulate.down(emulator.state)
    _wait_until(lambda: emulator.leftovers() == [])


def _may_resize_ext4() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 24 & 1)  # CAP_SYS_RESOURCE


def _wait_until(condition: Any, timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.05)
