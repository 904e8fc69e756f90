"""What cannot be is refused in one line with its remedy, and nothing is made of it."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgstow import emulate
from pgstow.emulate.backing import FILE_SUFFIX
from pgstow.model.errors import HostError, UserError

PGSTOW = [sys.executable, "-c", "from pgstow.cli import main; main()"]
LAYOUT = """
[host]
platform = "ec2"

[volumes.data]
type = "gp3"
size = "1GiB"
mount = "{root}/mnt/data"

[postgres]
data = "data"
"""
Refused = Callable[..., str]


@pytest.fixture
def layout(emulator: Any) -> Path:
    """A layout's file, of one volume of 1 GiB."""
    file: Path = emulator.root / "layout.toml"
    file.write_text(LAYOUT.format(root=emulator.root))
    return file


def start(emulator: Any, *arguments: str, inside: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*inside, *PGSTOW, "emulate", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PGSTOW_EMULATOR": str(emulator.state)},
    )


@pytest.fixture
def refused(emulator: Any, command: Any) -> Refused:
    """``refused("up", layout, code=2)``: the one line that the command says."""

    def refused(*arguments: object, code: int, inside: tuple[str, ...] = ()) -> str:
        if inside:
            running = start(emulator, *map(str, arguments), inside=inside)
            output, line = running.communicate(timeout=120)
            status = running.returncode
        else:
            done = command("emulate", *map(str, arguments))
            output, line, status = done.stdout, done.stderr, done.returncode
        assert status == code, line
        assert output == ""
        assert line.startswith("pgstow: ")
        assert line.count("\n") == 1, line
        assert "; " in line  # what to do about it
        assert "internal error" not in line
        return line

    return refused


def change(layout: Path, old: str, new: str) -> Path:
    text = layout.read_text()
    assert old in text
    layout.write_text(text.replace(old, new))
    return layout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"1GiB"', '"16TiB"', "16 TiB, to be made of memory, of which"),
        ('"gp3"', '"gp9"', "volumes.data.type: the catalog has no volume type 'gp9'; did you mean"),
        ('"gp3"', '"gp3"\niops = 16000', "IOPS per GiB"),
        ('"gp3"', '"gp3"\nthroughput = "1000MiB/s"', "MiB/s per IOPS × 3,000 IOPS"),
        ('"gp3"', '"gp2"\niops = 100', "cannot be set for gp2"),
        ('"1GiB"', '"100MiB"', "is under gp3's least, 1GiB"),
        ('"1GiB"', '"1GiB"\nfilesystem = "zfs"', "input should be 'xfs', 'ext4' or 'btrfs'"),
        ('platform = "ec2"', 'platform = "ec2"\ninstance = "r6i.huge"', "no instance type"),
    ],
)
def test_a_layout_that_cannot_be(
    emulator: Any, layout: Path, refused: Refused, old: str, new: str, says: str
) -> None:
    change(layout, old, new)
    assert says in refused("up", layout, code=2)
    assert says in refused("up", layout, "--dry-run", code=2)
    assert emulator.leftovers() == []
    assert not emulator.directory.state_file.exists()


def test_a_size_over_memory_names_both_ways_out_and_thin_makes_it(
    emulator: Any, layout: Path, refused: Refused
) -> None:
    change(layout, '"1GiB"', '"200GiB"')
    line = refused("up", layout, code=2)
    assert "put them on disk with --backing file:DIRECTORY, or add --thin" in line
    running = start(emulator, "up", str(layout), "--thin")
    output, warnings = running.communicate(timeout=120)
    assert running.returncode == 0, warnings
    assert "200 GiB" in output
    assert "of which" in warnings
    again = start(emulator, "up", str(layout))  # what is up already is no reason to refuse
    assert "Nothing to do" in again.communicate(timeout=120)[0]


NO_ROOT = ("unshare", "--user")
NO_MOUNTING = ("setpriv", "--bounding-set=-sys_admin")
# A /dev of its own, without the devices that are needed.
NO_DEVICES = (
    "unshare", "--mount", "--propagation=private", "sh", "-c",
    "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9"
    ' && exec "$@"', "sh",
)  # fmt: skip


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        (NO_ROOT, ["this is not root", "run it with sudo"]),
        (NO_MOUNTING, ["no CAP_SYS_ADMIN", "run it outside the container, or in a privileged one"]),
        (
            NO_DEVICES,
            [
                "/dev/fuse does not exist",
                "/dev/loop-control does not exist",
                "load it: modprobe fuse",
                "load it: modprobe loop",
            ],
        ),
    ],
)
def test_a_machine_that_lacks_what_is_needed(
    emulator: Any, layout: Path, refused: Refused, inside: tuple[str, ...], says: list[str]
) -> None:
    line = refused("up", layout, code=1, inside=inside)
    assert line.startswith("pgstow: volumes cannot be emulated here: ")
    for part in says:
        assert part in line
    assert not emulator.state.exists()


def test_a_dry_run_says_what_the_machine_lacks(emulator: Any, layout: Path) -> None:
    running = start(emulator, "up", str(layout), "--dry-run", inside=NO_DEVICES)
    output, warnings = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "add data: 1 GiB" in output
    assert "/dev/fuse does not exist; load it: modprobe fuse" in warnings


def test_a_mount_point_in_use(emulator: Any, layout: Path, refused: Refused) -> None:
    mount = emulator.mount("data")
    mount.mkdir(parents=True)
    (mount / "precious").touch()
    assert "is not empty; empty it, or choose another" in refused("up", layout, code=2)
    (mount / "precious").unlink()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mount)], check=True)
    try:
        line = refused("up", layout, code=2)
        assert "has none mounted on it already; unmount it, or choose another mount" in line
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert not emulator.directory.state_file.exists()


def test_a_second_up_with_another_state_directory(
    emulator: Any, layout: Path, refused: Refused
) -> None:
    emulator.want("data")
    emulator.up()
    line = refused("up", layout, "--state-dir", emulator.root / "other", code=2)
    assert f"has a volume of the emulator in {emulator.state} mounted on it already" in line
    assert f"run pgstow emulate down --state-dir {emulator.state}, or choose another mount" in line
    assert [path.name for path in (emulator.root / "other").iterdir()] == ["lock"]


def test_btrfs_beside_an_emulator_that_has_ended(
    emulator: Any, layout: Path, refused: Refused
) -> None:
    emulator.want("data")
    emulator.up()
    emulator.kill_server()
    other = LAYOUT.format(root=emulator.root / "other")
    (emulator.root / "other.toml").write_text(
        other.replace('type = "gp3"', 'type = "gp3"\nfilesystem = "btrfs"')
    )
    state = emulator.root / "other/state"
    line = refused("up", emulator.root / "other.toml", "--state-dir", state, code=1)
    emulate.down(state)
    assert f"an emulator in {emulator.state} that has ended" in line
    assert f"run pgstow emulate down --state-dir {emulator.state}" in line


def test_a_second_up_at_the_same_time_finds_all_done(emulator: Any, layout: Path) -> None:
    both = [start(emulator, "up", str(layout)) for _ in range(2)]
    outputs = [running.communicate(timeout=120)[0] for running in both]
    assert [running.returncode for running in both] == [0, 0]
    assert sum("Nothing to do" in output for output in outputs) == 1


def test_an_up_that_is_locked_out_says_so(
    emulator: Any, layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgstow.emulate.state._LOCK_TIMEOUT_S", 0.1)
    emulator.state.mkdir()
    with emulator.directory.lock_file.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        emulator.want("data")
        with pytest.raises(HostError, match=r"is at work in .*; wait until it has ended"):
            emulator.up()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is damaged; clear up with pgstow emulate down --state-dir"),
        ("", "is damaged; clear up with"),
        ('{"boot_id": "x", "version": 99}', "is of another version of pgstow; clear up with"),
    ],
)
def test_a_state_that_cannot_be_read(
    emulator: Any, layout: Path, refused: Refused, content: str, says: str
) -> None:
    emulator.want("data")
    emulator.up()
    emulator.directory.state_file.write_text(content)
    for command in (["up", layout], ["status"], ["set", "data", "--iops", "4000"]):
        assert says in refused(*command, code=1)
    running = start(emulator, "down")
    _, warnings = running.communicate(timeout=60)
    assert running.returncode == 0
    assert says.split(";")[0] in warnings
    assert emulator.leftovers() == []
    assert emulator.up().volumes[0].is_mounted


@dataclass
class LaterStatus:
    """What a server of a later version would say, and this one does not."""

    pid: int
    news: str


def test_a_server_of_another_version_is_named_and_taken_down(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.want("data")
    emulator.up()
    (emulator.mount("data") / "dirty").write_bytes(b"x" * 1_000_000)
    monkeypatch.setattr("pgstow.emulate.control.ServerStatus", LaterStatus)
    for act in (lambda: emulate.read_status(emulator.state), emulator.up, emulator.plan):
        with pytest.raises(HostError, match=r"is of another version of pgstow; end it with pgstow"):
            act()
    emulate.down(emulator.state)
    assert emulator.leftovers() == []


def test_a_state_of_another_boot_is_cleared_up(emulator: Any, layout: Path) -> None:
    """After a reboot the record is all there is: no server, mounts or loop devices."""
    emulator.want("data")
    emulator.up()
    record = {path: path.read_bytes() for path in emulator.state.iterdir() if path.is_file()}
    boot = emulator.server().boot_id.encode()
    emulate.down(emulator.state)
    for path, content in record.items():
        path.write_bytes(content.replace(boot, b"an earlier boot"))
    assert "server has ended" in start(emulator, "status").communicate(timeout=60)[1]
    assert emulator.plan()[:2] == ["clear", "start server"]
    assert emulator.up().volumes[0].is_mounted
    emulate.down(emulator.state)
    for path, content in record.items():
        path.write_bytes(content.replace(boot, b"an earlier boot"))
    emulate.down(emulator.state)
    assert list(emulator.state.iterdir()) == []


def test_a_port_in_use_for_metrics(emulator: Any, layout: Path, refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refused("up", layout, "--metrics", port, code=2)
        assert f"port {port} of 127.0.0.1 cannot be had for metrics: Address already in use" in line
        assert "choose another, or 0 for any" in line
    assert not emulator.directory.state_file.exists()
    emulator.want("data")
    status = emulator.up(metrics_port=0)
    line = refused("up", layout, "--metrics", port, code=2)
    assert f"runs with metrics on port {status.metrics_port}" in line
    assert emulator.up(metrics_port=0).metrics_port == status.metrics_port


def test_directories_for_files_that_will_not_do(
    emulator: Any, layout: Path, refused: Refused
) -> None:
    missing = emulator.root / "missing"
    line = refused("up", layout, "--backing", f"file:{missing}", code=2)
    assert f"directory {missing} for the volumes' files does not exist; make it: mkdir -p" in line
    file = emulator.root / "file"
    file.touch()
    assert "is not a directory" in refused("up", layout, "--backing", f"file:{file}", code=2)
    own = emulator.mount("data") / "files"
    line = refused("up", layout, "--backing", f"file:{emulator.root}/mnt/data", code=2)
    assert "does not exist" in line
    emulator.mount("data").mkdir(parents=True)
    line = refused("up", layout, "--backing", f"file:{emulator.mount('data')}", code=2)
    assert "is on volume data itself; name one on a disk of the machine" in line
    assert not own.exists()
    for backing in ("disk", "file:", "files:/tmp"):
        line = refused("up", layout, "--backing", backing, code=2)
        assert "is neither memory nor file nor file:DIRECTORY; write it like" in line
    line = refused("up", layout, "--backing", "memory", "--keep-files", code=2)
    assert "--keep-files does not go with --backing memory" in line


def test_a_directory_on_another_volume_of_the_emulator(
    emulator: Any, layout: Path, refused: Refused
) -> None:
    emulator.want("wal")
    emulator.up()
    line = refused("up", layout, "--backing", f"file:{emulator.mount('wal')}", code=2)
    assert "is on an emulated volume itself; name one on a disk of the machine" in line
    assert list(emulator.mount("wal").iterdir()) == []


def test_a_full_disk_and_a_file_from_before(emulator: Any, layout: Path, refused: Refused) -> None:
    disk = emulator.root / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", str(disk)], check=True)
    try:
        line = refused("up", layout, "--backing", f"file:{disk}", code=2)
        assert f"the volumes are 1 GiB, and {disk} has 80 MiB free; make room there" in line
        assert "or add --thin" in line
        (disk / "ballast").write_bytes(bytes(40 << 20))
        line = refused("up", layout, "--backing", f"file:{disk}", "--thin", code=2)
        assert "has 40 MiB free; make room there, or name another directory" in line
        (disk / "ballast").unlink()
        (disk / f"data{FILE_SUFFIX}").write_bytes(b"precious")
        line = refused("up", layout, "--backing", f"file:{disk}", "--thin", code=2)
        assert "exists already; add --keep-files to use what is in it, or delete it" in line
        assert (disk / f"data{FILE_SUFFIX}").read_bytes() == b"precious"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_mount_inside_a_data_directory_or_on_another_volume_is_refused(
    emulator: Any, tmp_path: Path
) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    emulator.want("data", volume={"mount": str(tmp_path / "base" / "new")})
    with pytest.raises(UserError, match="inside PostgreSQL's data directory"):
        emulator.up()
    assert not (tmp_path / "base").exists()
    emulator.want("data", volume={"mount": str(emulator.mount("data"))})
    emulator.up()
    emulator.volumes.clear()
    emulator.want("wal", volume={"mount": str(emulator.mount("data") / "wal")})
    with pytest.raises(UserError, match="is on the emulated volume at"):
        emulator.up()
    assert list(emulator.mount("data").iterdir()) == []
