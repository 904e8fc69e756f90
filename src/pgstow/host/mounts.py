"""The mount table; mounting and unmounting, with errors that name who is in the way."""

import fcntl
import os
import re
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgstow.host import processes, programs
from pgstow.model.errors import HostError

_ENDING_S = 5.0  # a process that was killed shows no open files and holds them until its I/O ends
_POLL_S = 0.1
_MOUNT_TIMEOUT_S = 60.0
# XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are one number: _IOR('X', 125, uint32_t).
_IOC_SHUTDOWN = 0x8004587D
_SHUTDOWN_NO_LOG_FLUSH = 2


@dataclass(frozen=True, slots=True)
class Mount:
    """A row of /proc/self/mountinfo."""

    device_number: int  # as st_dev has it, except on btrfs: there st_dev is the subvolume's own
    path: str
    filesystem: str
    source: str

    def is_of(self, device: str) -> bool:
        """Whether it is a mount of a block device."""
        if os.major(self.device_number) == 0:  # btrfs: a number of no device
            return self.source == device
        return self.device_number == Path(device).stat().st_rdev


def mounts() -> tuple[Mount, ...]:
    """What is mounted, in the order it was."""
    return parse_mountinfo(kernel_text("/proc/self/mountinfo"))


def kernel_text(path: Path | str) -> str:
    """A text of the kernel's as it is: the names in it may hold any byte but the end of a line."""
    return Path(path).read_bytes().decode(errors="surrogateescape")


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    r"""Read the mount table's text.

    >>> parse_mountinfo("36 35 7:3 / /mnt/a\\040b rw,noatime shared:1 - xfs /dev/loop3 rw")[0].path
    '/mnt/a b'
    """
    rows = []
    for line in filter(None, text.split("\n")):  # a name may hold what splitlines takes for an end
        fields = line.split(" ")
        after = fields.index("-") + 1
        major, minor = fields[2].split(":")
        device_number = os.makedev(int(major), int(minor))
        path, source = _unescape(fields[4]), _unescape(fields[after + 1])
        rows.append(Mount(device_number, path, fields[after], source))
    return tuple(rows)


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def mount_at(path: Path | str) -> Mount | None:
    """The topmost mount exactly at a path."""
    found = [mount for mount in mounts() if mount.path == str(path)]
    return found[-1] if found else None


def mounts_of(device: str) -> tuple[Mount, ...]:
    """The mounts of a block device, latest first: the order in which to undo them."""
    return tuple(mount for mount in reversed(mounts()) if mount.is_of(device))


def mount(device: str, path: Path, filesystem: str, options: tuple[str, ...]) -> None:
    """Mount a block device."""
    arguments = ["mount", "-t", filesystem]
    if options:
        arguments += ["-o", ",".join(options)]
    programs.run([*arguments, "--", device, str(path)], timeout_s=_MOUNT_TIMEOUT_S)


def unmount(target: Mount, *, lazy: bool = False, timeout_s: float = _MOUNT_TIMEOUT_S) -> None:
    """Unmount; a busy filesystem is an error that names who holds it, unless ``lazy``."""
    # The path is from the kernel; looking it up again would fail on a dead FUSE mount.
    arguments = ["umount", "--no-canonicalize", *(["--lazy"] if lazy else []), "--", target.path]
    deadline = time.monotonic() + _ENDING_S
    while True:
        try:
            programs.run(arguments, timeout_s=timeout_s)
        except HostError as error:
            if mount_at(target.path) is None:
                return  # someone else was faster
            found = in_the_way(target)
            if found is not None:
                raise HostError(found, "end that, then run this again") from error
            if lazy or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


def shut_down(path: Path) -> None:
    """Stop a filesystem at once, as when its device is gone: nothing more is written, not even
    its log, and nothing is tried again when it is unmounted. XFS and ext4 have this call.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _IOC_SHUTDOWN, struct.pack("I", _SHUTDOWN_NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def in_the_way(target: Mount, own: Collection[str] = ()) -> str | None:
    """What keeps a filesystem from being unmounted; None: nothing that can be seen.

    ``own`` are the paths of mounts that go too.
    """
    inside = [
        other.path
        for other in mounts()
        if other.path.startswith(f"{target.path}/") and other.path not in own
    ]
    if inside:
        return f"{target.path} has {inside[-1]} mounted inside it"
    numbers = {target.device_number}
    with suppress(OSError):  # the filesystem is gone with its device
        numbers.add(Path(target.path).stat().st_dev)
    found = processes.holders(*numbers)
    if not found:
        return None
    names = ", ".join(str(holder) for holder in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{target.path} is in use by {names}{more}"
