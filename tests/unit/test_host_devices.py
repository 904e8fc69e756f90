"""Reading /proc: files of several kernels, and this machine's own."""

import os
from pathlib import Path

from pgstow.host import cpu, devices
from pgstow.host.mounts import Mount, parse_mountinfo

KERNEL_6 = """\
   7       0 loop0 12 0 96 3 4 1 32 9 0 8 14 0 0 0 0 2 2
 259       0 nvme0n1 140173 65854 14225314 74020 37836 35397 5577432 28251 3 1 103650 1 2 8 8 4530 2
"""
KERNEL_4_15 = "   8       0 sda 100 2 1600 300 200 4 3200 500 0 600 800\n"
KERNEL_4_18 = "   8       0 sda 100 2 1600 300 200 4 3200 500 0 600 800 1 0 8 2\n"


def test_diskstats_of_a_new_kernel() -> None:
    found = devices.parse_diskstats(KERNEL_6)
    assert list(found) == ["loop0", "nvme0n1"]
    disk = found["nvme0n1"]
    assert (disk.reads, disk.read_bytes, disk.read_ms) == (140173, 14225314 * 512, 74020)
    assert (disk.writes, disk.write_bytes, disk.write_ms) == (37836, 5577432 * 512, 28251)
    assert (disk.queue_ms, disk.flushes) == (103650, 4530)


def test_flushes_that_a_kernel_does_not_count_are_unknown() -> None:
    for text in (KERNEL_4_15, KERNEL_4_18):
        disk = devices.parse_diskstats(text)["sda"]
        assert disk.flushes is None
        assert disk.queue_ms == 800


def test_waiting_is_not_work() -> None:
    ticks = "cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9 9 9"
    assert cpu.parse_ticks(ticks, cpu.BUSY) == 31
    assert cpu.parse_ticks(ticks, ["steal"]) == 32
    assert cpu.parse_ticks("cpu  1 2 4 1000", cpu.BUSY) == 7


TABLE = parse_mountinfo(
    "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 20 8:2 / /mnt/data rw - xfs /dev/sdb rw\n"
    "31 20 8:3 / /mnt/data rw - xfs /dev/sdc rw\n"
    "32 20 8:4 / /mnt/data2 rw - xfs /dev/sdd rw\n"
)


def of(path: str) -> Mount:
    found = devices.mount_of(path, TABLE)
    assert found is not None
    return found


def test_the_deepest_mount_holds_a_path_and_the_last_hides_the_others() -> None:
    assert of("/mnt/data/pg").source == "/dev/sdc"
    assert of("/mnt/data2/pg").source == "/dev/sdd"
    assert of("/mnt/data").source == "/dev/sdc"
    assert of("/var").source == "/dev/sda1"


def test_the_device_of_the_path_decides_between_mounts() -> None:
    found = devices.mount_of("/mnt/data/pg", TABLE, os.makedev(8, 2))
    assert found is not None and found.source == "/dev/sdb"


def test_this_machine_can_be_sampled(tmp_path: Path) -> None:
    first, second = devices.sample(0.0), devices.sample(1.0)
    assert second.busy_core_s >= first.busy_core_s >= 0
    assert cpu.cores() >= 1 and cpu.memory_bytes() > 0
    place = devices.filesystem_of(str(tmp_path))
    assert place is not None and tmp_path.is_relative_to(place.mount) and place.size_bytes > 0


def test_a_path_that_is_not_here_has_no_filesystem() -> None:
    assert devices.filesystem_of("/no/such/place") is None


def test_a_mount_whose_name_holds_what_ends_a_line_elsewhere_is_one_mount() -> None:
    r"""The kernel writes out blanks, newlines and backslashes alone."""
    odd = "/mnt/a\x0cb\x85c\u2028d\re\udcff"
    table = parse_mountinfo(
        f"36 35 7:3 / {odd} rw,noatime - xfs /dev/loop3 rw\n37 35 0:5 / /x rw - tmpfs none rw\n"
    )
    assert [mount.path for mount in table] == [odd, "/x"]
    text = f"/dev/loop3 {odd} xfs rw,noatime 0 0\nnone /x tmpfs ro 0 0\n"
    assert devices.parse_options(text, odd) == ("rw", "noatime")
    assert devices.parse_options(text, "/x") == ("ro",)
