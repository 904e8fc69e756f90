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


def test_up_twice_does_nothing_the_second_time(lab: Any) -> None:
    lab.want("data", iops=3000, bytes_per_second=125e6)
    first = lab.up()
    (lab.mount("data") / "file").write_text("kept")
    assert lab.plan() == []
    second = lab.up()
    assert second.actions == ()
    assert second.pid == first.pid
    assert (lab.mount("data") / "file").read_text() == "kept"


def test_down_twice_is_fine(lab: Any) -> None:
    lab.want("data")
    lab.up()
    assert emulate.down(lab.state).actions
    assert lab.leftovers() == []
    assert emulate.down(lab.state).actions == []


def test_a_compensation_found_before_is_taken_as_it_is(lab: Any) -> None:
    lab.want("data")
    given = Compensation(41.0, 43.0)
    assert lab.up(compensation=given).compensation == given
    assert Control(lab.directory.control).status().compensation == given


def test_a_dry_run_changes_nothing(lab: Any) -> None:
    lab.want("data")
    assert lab.plan()[0] == "start server"
    assert not lab.state.exists()


def test_a_volume_is_added_to_those_that_are_up(lab: Any) -> None:
    lab.want("data")
    lab.up()
    (lab.mount("data") / "file").write_text("kept")
    lab.want("wal", volume={"filesystem": "ext4"})
    status = lab.up()
    assert [volume.name for volume in status.volumes] == ["data", "wal"]
    assert all(volume.is_mounted for volume in status.volumes)
    assert (lab.mount("data") / "file").read_text() == "kept"


def test_a_volume_not_in_the_layout_is_kept_until_pruned(lab: Any) -> None:
    lab.want("data")
    lab.want("old")
    lab.up()
    del lab.volumes["old"]
    status = lab.up()
    assert [action.kind for action in status.actions] == ["keep"]
    assert mounts.mount_at(lab.mount("old")) is not None
    status = lab.up(prune=True)
    assert [volume.name for volume in status.volumes] == ["data"]
    assert not lab.mount("old").exists()


def test_a_moved_mount_keeps_its_contents(lab: Any) -> None:
    lab.want("data")
    lab.up()
    (lab.mount("data") / "file").write_text("kept")
    lab.want("data", volume={"mount": str(lab.mount("elsewhere"))})
    lab.up()
    assert (lab.mount("elsewhere") / "file").read_text() == "kept"
    assert not lab.mount("data").exists()


def test_mounts_inside_mounts(lab: Any) -> None:
    lab.want("inner", volume={"mount": str(lab.mount("outer") / "deep/inner")})
    lab.want("outer")
    lab.up()
    assert lab.plan() == []
    (lab.mount("outer") / "deep/inner/file").write_text("")
    emulate.down(lab.state)
    assert lab.leftovers() == []


def test_a_smaller_size_is_refused(lab: Any) -> None:
    lab.want("data")
    lab.up()
    lab.want("data", volume={"size_bytes": Bytes(GIB // 2)})
    with pytest.raises(UserError, match="cannot shrink"):
        lab.up()


@pytest.mark.parametrize("filesystem", ["xfs", "ext4", "btrfs"])
def test_a_volume_grows_while_it_is_in_use(lab: Any, filesystem: str) -> None:
    lab.want("data", volume={"filesystem": filesystem})
    lab.up()
    with (lab.mount("data") / "file").open("w") as file:
        before = shutil.disk_usage(lab.mount("data")).total
        wanted = {"filesystem": filesystem, "size_bytes": Bytes(2 * GIB)}
        lab.want("data", volume=wanted, iops=4000)
        if filesystem == "ext4" and not _may_resize_ext4():
            with pytest.raises(HostError, match="CAP_SYS_RESOURCE"):
                lab.up()
            assert lab.plan() == ["grow"]
            return
        assert [action.kind for action in lab.up().actions] == ["change", "grow"]
        file.write("kept")
    assert shutil.disk_usage(lab.mount("data")).total > before + 0.9 * GIB
    assert lab.plan() == []
    assert (lab.mount("data") / "file").read_text() == "kept"


def test_others_than_root_see_the_mounts_and_are_told_what_they_lack(lab: Any) -> None:
    lab.want("data")
    lab.up()
    lab.root.chmod(0o755)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        assert [v.mount for v in emulate.emulated_volumes(lab.state)] == [str(lab.mount("data"))]
        for act in (emulate.read_status, emulate.down, lambda _: lab.up()):
            with pytest.raises(HostError, match=r"run this as root|run it with sudo"):
                act(lab.state)
    finally:
        os.seteuid(0)
    assert mounts.mount_at(lab.mount("data")) is not None


def test_a_mount_point_that_is_not_empty_is_refused_before_anything_is_made(lab: Any) -> None:
    lab.want("data")
    lab.want("wal")
    lab.mount("wal").mkdir(parents=True)
    (lab.mount("wal") / "precious").write_text("mine")
    with pytest.raises(UserError, match=r"volume wal: mount point .* is not empty"):
        lab.up()
    assert lab.leftovers() == []
    assert not lab.mount("data").exists()
    assert (lab.mount("wal") / "precious").read_text() == "mine"


def test_an_empty_directory_of_the_users_stays(lab: Any) -> None:
    lab.mount("data").mkdir(parents=True)
    lab.want("data")
    lab.up()
    emulate.down(lab.state)
    assert lab.mount("data").is_dir()


@pytest.mark.parametrize("filesystem", ["xfs", "btrfs"])
def test_a_busy_mount_names_who_holds_it_and_force_takes_it_down(lab: Any, filesystem: str) -> None:
    lab.want("data", volume={"filesystem": filesystem})
    lab.up()
    with (lab.mount("data") / "held").open("w"):
        with pytest.raises(HostError, match=rf"in use by .*\(pid {os.getpid()}\)"):
            emulate.down(lab.state)
        assert mounts.mount_at(lab.mount("data")) is not None
        assert lab.up().volumes[0].is_mounted  # and goes on as before
        cleanup = emulate.down(lab.state, force=True)
        assert "unmounted-lazily" in [warning.code for warning in cleanup.warnings]
        assert mounts.mount_at(lab.mount("data")) is None
    _wait_until(lambda: lab.leftovers() == [])


def test_one_volume_in_use_leaves_all_as_they_are(lab: Any, tmp_path: Path) -> None:
    lab.want("free")
    lab.want("used")
    before = lab.up()
    assert before.limits_enabled
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        cwd=lab.mount("used"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        for act in (emulate.down, emulate.plan_down):
            with pytest.raises(HostError, match=rf"used is in use by .*\(pid {user.pid}\)"):
                act(lab.state)
        after = emulate.read_status(lab.state)
        assert after.limits_enabled
        assert all(volume.is_mounted for volume in after.volumes)
        user.communicate(b"\n")
    inner = lab.mount("free") / "inner"
    inner.mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path), str(inner)], check=True)
    with pytest.raises(HostError, match=r"free has .*inner mounted inside it"):
        emulate.down(lab.state)
    assert emulate.read_status(lab.state).limits_enabled
    subprocess.run(["umount", str(inner)], check=True)
    planned = emulate.plan_down(lab.state)
    assert any(
        line.startswith("remove volume used (") and f": unmount {lab.mount('used')}, " in line
        for line in planned
    )
    assert all(volume.is_mounted for volume in emulate.read_status(lab.state).volumes)


def test_what_cannot_be_seen_in_the_way_puts_back_what_was_unmounted(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.want("first")
    lab.want("second")
    lab.up()
    emulate.set_limits(lab.state, False)
    control = Control(lab.directory.control)
    control.set_limits(True, "first")
    control.fault(Slow(factor=2.0), ["first"])
    control.fault(Full(), ["second"], after_s=3600.0, for_s=60.0)
    unmount = mounts.unmount

    def refuse_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(lab.mount("first")):
            raise HostError("target is busy")
        unmount(mount, **options)

    said = r"busy; fault 1 \(slow, factor 2\) is set again, as fault (\d+);"
    with monkeypatch.context() as patch, pytest.raises(HostError, match=said) as e:
        patch.setattr(mounts, "unmount", refuse_first)
        emulate.down(lab.state)
    faults = {fault.fault.kind: fault for fault in control.status().faults}
    assert faults.keys() == {"slow", "full"}
    assert faults["slow"].volumes == ("first",) and faults["slow"].state == "active"
    assert f"is set again, as fault {faults['slow'].id};" in str(e.value)
    ends_in_s, starts_in_s = faults["full"].ends_in_s, faults["full"].starts_in_s
    assert ends_in_s is not None and round(ends_in_s - starts_in_s) == 60
    after = {volume.name: volume for volume in emulate.read_status(lab.state).volumes}
    assert all(volume.is_mounted for volume in after.values())
    assert {name: one.limits_enabled for name, one in after.items()} == {
        "first": True,
        "second": False,
    }


def test_down_that_is_interrupted_puts_back_what_it_has_let_go(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.want("first")
    lab.want("second")
    lab.up()
    control = Control(lab.directory.control)
    control.fault(Slow(factor=2.0), ["first"])
    unmount = mounts.unmount

    def interrupt_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(lab.mount("first")):
            raise KeyboardInterrupt
        unmount(mount, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mounts, "unmount", interrupt_first)
        emulate.down(lab.state)
    assert [fault.fault.kind for fault in control.status().faults] == ["slow"]
    after = emulate.read_status(lab.state).volumes
    assert [volume.is_mounted and volume.limits_enabled for volume in after] == [True, True]


def test_mounting_anew_leaves_nothing_unmounted_where_one_volume_is_in_use(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.want("first")
    lab.want("second")
    lab.up()
    unmount = mounts.unmount

    def refuse_first(mount: mounts.Mount, **options: Any) -> None:
        if mount.path == str(lab.mount("first")):
            raise HostError("target is busy")
        unmount(mount, **options)

    with monkeypatch.context() as patch, pytest.raises(HostError, match="busy"):
        patch.setattr(mounts, "unmount", refuse_first)
        emulate.clear_faults(lab.state, None, remount=True)
    assert all(volume.is_mounted for volume in emulate.read_status(lab.state).volumes)


def test_status_looks_at_what_is_mounted(lab: Any) -> None:
    lab.want("data")
    lab.up()
    mount = mounts.mount_at(lab.mount("data"))
    assert mount is not None
    mounts.unmount(mount)
    status = emulate.read_status(lab.state)
    assert not status.volumes[0].is_mounted
    assert [warning.code for warning in status.warnings] == ["not-mounted"]
    assert emulate.emulated_volumes(lab.state) == ()
    assert lab.up().volumes[0].is_mounted


@pytest.mark.parametrize("filesystem", ["xfs", "ext4", "btrfs"])
def test_a_killed_server_leaves_nothing_after_down(lab: Any, filesystem: str) -> None:
    lab.want("data", volume={"filesystem": filesystem})
    lab.want("wal")
    lab.up()
    (lab.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    lab.kill_server()
    assert [w.code for w in emulate.read_status(lab.state).warnings] == ["server-gone"]
    emulate.down(lab.state)
    assert lab.leftovers() == []


def test_a_killed_server_with_an_open_file_leaves_nothing_after_down(lab: Any) -> None:
    lab.want("data")
    lab.up()
    with (lab.mount("data") / "held").open("w"):
        lab.kill_server()
        emulate.down(lab.state)
        assert mounts.mount_at(lab.mount("data")) is None
    _wait_until(lambda: lab.leftovers() == [])


def test_a_server_that_hangs_does_not_keep_down_from_ending(lab: Any) -> None:
    lab.want("data")
    lab.up()
    (lab.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    os.kill(lab.server().pid, signal.SIGSTOP)
    emulate.down(lab.state)
    assert lab.leftovers() == []


def test_up_after_a_killed_server_makes_the_volumes_anew(lab: Any) -> None:
    lab.want("data")
    first = lab.up()
    lab.kill_server()
    assert lab.plan()[:2] == ["clear", "start server"]
    second = lab.up()
    assert second.pid != first.pid
    assert second.volumes[0].is_mounted
    assert list(lab.mount("data").iterdir()) == []


def test_a_reused_pid_is_not_killed(lab: Any) -> None:
    lab.want("data")
    lab.up()
    lab.kill_server()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        record = lab.directory.pid_file.read_text()
        stale = record.replace(f'"pid":{lab.server().pid}', f'"pid":{other.pid}')
        assert stale != record
        lab.directory.pid_file.write_text(stale)
        emulate.down(lab.state)
        assert other.poll() is None
        other.kill()


def test_a_loop_device_someone_else_uses_now_is_left_alone(lab: Any) -> None:
    lab.want("data")
    loop = Path(lab.up().volumes[0].loop_device or "").name
    lab.kill_server()
    mounts.unmount(mounts.mount_at(lab.mount("data")))  # type: ignore[arg-type]
    subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=True)
    other = lab.root / "other.img"
    other.write_bytes(bytes(1 << 20))
    subprocess.run(["losetup", f"/dev/{loop}", str(other)], check=True)
    try:
        emulate.down(lab.state)
        assert [found.device for found in loops.of_file(other)] == [f"/dev/{loop}"]
    finally:
        subprocess.run(["losetup", "--detach", f"/dev/{loop}"], check=True)


def test_a_lost_record_is_no_obstacle_to_down(lab: Any) -> None:
    lab.want("data")
    lab.up()
    lab.directory.state_file.unlink()
    with pytest.raises(HostError, match="pgstow emulate down"):
        lab.up()
    emulate.down(lab.state)
    assert lab.leftovers() == []


_UP = """
import os, sys
from pathlib import Path
sys.path.insert(0, {lab!r})
import conftest
lab = conftest.Lab(Path({root!r}))
lab.want("data"), lab.want("wal")
seen = 0
def progress(done, total):
    if done >= {step}:
        os.kill(os.getpid(), 9)
lab.up(progress=progress)
"""


@pytest.mark.parametrize("step", range(1, 12))
def test_up_killed_between_any_two_actions_is_finished_or_undone(lab: Any, step: int) -> None:
    code = _UP.format(lab=str(Path(__file__).parent), root=str(lab.root), step=step)
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lab.want("data")
    lab.want("wal")
    if step % 2:
        status = lab.up()
        assert all(volume.is_mounted and volume.limits_enabled for volume in status.volumes)
        assert lab.plan() == []
    emulate.down(lab.state)
    assert lab.leftovers() == []


@pytest.mark.parametrize("delay_ms", [150, 400, 700, 1000, 1300, 1600])
def test_up_killed_at_any_moment_is_undone(lab: Any, delay_ms: int) -> None:
    code = _UP.format(lab=str(Path(__file__).parent), root=str(lab.root), step=10**6)
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    time.sleep(delay_ms / 1000)
    child.kill()
    child.wait()
    emulate.down(lab.state)
    _wait_until(lambda: lab.leftovers() == [])


def _may_resize_ext4() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 24 & 1)  # CAP_SYS_RESOURCE


def _wait_until(condition: Any, patience_s: float = 10) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.05)
