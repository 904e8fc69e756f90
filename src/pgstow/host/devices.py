"""Block devices: what reached each, and which filesystem and device a path is on."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgstow.host import cpu
from pgstow.host.mounts import Mount, kernel_text, mounts

_SECTOR_BYTES = 512  # the unit of /proc/diskstats, whatever the device's own


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """A block device's counters since boot (the kernel's Documentation/admin-guide/iostats)."""

    reads: int
    read_bytes: int
    read_ms: int
    writes: int
    write_bytes: int
    write_ms: int
    queue_ms: int  # requests in flight, weighted by time
    flushes: int | None  # None: the kernel (before 5.5) does not count them


@dataclass(frozen=True, slots=True)
class HostSample:
    """The machine's counters at one instant; ``at_s`` is of the observer's monotonic clock."""

    at_s: float
    busy_core_s: float
    devices: dict[str, DeviceCounters]


@dataclass(frozen=True, slots=True)
class Filesystem:
    """The mounted filesystem that holds ``path``, and the block device under it, if any."""

    path: str  # as asked for, links resolved
    mount: str
    kind: str  # "ext4", "xfs", "tmpfs", …
    options: tuple[str, ...]
    size_bytes: int
    device: str | None  # as /proc/diskstats names it
    rotational: bool | None


def parse_diskstats(text: str) -> dict[str, DeviceCounters]:
    """Read the text of /proc/diskstats, by device name."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:  # the short lines that kernels before 2.6.25 had for partitions
            continue
        numbers = [int(field) for field in fields[3:]]
        found[fields[2]] = DeviceCounters(
            reads=numbers[0],
            read_bytes=numbers[2] * _SECTOR_BYTES,
            read_ms=numbers[3],
            writes=numbers[4],
            write_bytes=numbers[6] * _SECTOR_BYTES,
            write_ms=numbers[7],
            queue_ms=numbers[10],
            flushes=numbers[15] if len(numbers) > 15 else None,
        )
    return found


def sample(at_s: float) -> HostSample:
    """Read the counters of the machine's cores and block devices."""
    devices = parse_diskstats(Path("/proc/diskstats").read_text())
    return HostSample(at_s, cpu.busy_core_seconds(), devices)


def filesystem_of(path: str) -> Filesystem | None:
    """The filesystem that holds a path, which need not be readable; None where it is not here."""
    try:
        real = os.path.realpath(path)
        device_number = _nearest_visible(real).stat().st_dev
    except OSError:
        return None
    mount = mount_of(real, mounts(), device_number)
    if mount is None:
        return None
    number = _block_device(mount, device_number)
    size = os.statvfs(mount.path)
    return Filesystem(
        path=real,
        mount=mount.path,
        kind=mount.filesystem,
        options=parse_options(kernel_text("/proc/self/mounts"), mount.path),
        size_bytes=size.f_blocks * size.f_frsize,
        device=None if number is None else _device_name(number),
        rotational=None if number is None else _rotational(number),
    )


def is_mount(path: str) -> bool:
    """Whether a filesystem is mounted exactly at a path."""
    return any(mount.path == path for mount in mounts())


def mount_of(path: str, table: Iterable[Mount], device_number: int | None = None) -> Mount | None:
    """The mount that holds an absolute path: the deepest, and of those at one path the last.

    Where the path's own device number is known, a mount of it is preferred: another may be hidden
    by a mount above it.
    """
    holding = [
        mount
        for mount in table
        if path == mount.path or path.startswith(mount.path.rstrip("/") + "/")
    ]
    same = [mount for mount in holding if mount.device_number == device_number]
    candidates = list(enumerate(same or holding))
    if not candidates:
        return None
    return max(candidates, key=lambda item: (len(item[1].path), item[0]))[1]


def parse_options(text: str, path: str) -> tuple[str, ...]:
    r"""The options of the mount at a path, its filesystem's included, from /proc/self/mounts.

    >>> parse_options("/dev/vdb /mnt/a\\040b xfs rw,noatime 0 0", "/mnt/a b")
    ('rw', 'noatime')
    """
    options: tuple[str, ...] = ()
    for line in filter(None, text.split("\n")):
        fields = line.split(" ")
        mount_point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[1])
        if mount_point == path:
            options = tuple(fields[3].split(","))
    return options


def _nearest_visible(path: str) -> Path:
    """The path, or its nearest parent that this user may look at."""
    ancestor = Path(path)
    while True:
        try:
            ancestor.stat()
        except PermissionError:
            if ancestor == ancestor.parent:
                raise
            ancestor = ancestor.parent
        else:
            return ancestor


def _block_device(mount: Mount, device_number: int) -> int | None:
    """The device's number; of filesystems with a number of no device (btrfs), the source's."""
    if os.major(device_number) != 0:
        return device_number
    try:
        status = Path(mount.source).stat() if mount.source.startswith("/dev/") else None
    except OSError:
        return None
    return None if status is None or not status.st_rdev else status.st_rdev


def _sysfs(device_number: int) -> Path:
    return Path(f"/sys/dev/block/{os.major(device_number)}:{os.minor(device_number)}")


def _device_name(device_number: int) -> str | None:
    directory = _sysfs(device_number)
    # /proc/diskstats writes / where sysfs must write !
    return directory.resolve().name.replace("!", "/") if directory.exists() else None


def _rotational(device_number: int) -> bool | None:
    directory = _sysfs(device_number).resolve()
    for entry in (directory, directory.parent):  # a partition's queue is its disk's
        try:
            return (entry / "queue" / "rotational").read_text().strip() == "1"
        except OSError:
            continue
    return None
