"""Loop devices, identified by their disk sequence number, which is never reused."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgstow.host import programs
from pgstow.host.mounts import kernel_text
from pgstow.model.errors import HostError

_LOSETUP_TIMEOUT_S = 30.0
_POLL_S = 0.02
_SYS_BLOCK = Path("/sys/block")


@dataclass(frozen=True, slots=True)
class Loop:
    """An attached loop device. ``sequence`` is the kernel's diskseq at the time (5.15 on)."""

    device: str  # /dev/loop3
    sequence: int | None
    file: str  # as the kernel had it when it was attached

    @property
    def directory(self) -> Path:
        """The device's directory in sysfs."""
        return _SYS_BLOCK / Path(self.device).name


def attach(file: Path, *, max_request_bytes: int) -> Loop:
    """Make a loop device of a file, with direct I/O and requests of at most that size."""
    arguments = ["losetup", "--find", "--show", "--direct-io=on", "--", str(file)]
    device = programs.run(arguments, timeout_s=_LOSETUP_TIMEOUT_S).strip()
    loop = _loop(device, str(file))
    if _read(loop.directory / "loop/dio") != "1":
        detach(loop)
        raise HostError(
            f"{device} does not do direct I/O to {file}", "use Linux 5.10 or a later kernel"
        )
    (loop.directory / "queue/max_sectors_kb").write_text(str(max_request_bytes // 1024))
    set_write_cache(loop, True)
    return loop


def set_write_cache(loop: Loop, present: bool) -> None:
    """Tell the kernel whether the device has a volatile write cache, which it then flushes.

    It asks at each flush, so this may change while a filesystem is mounted. The kernel keeps it
    for the next file behind the same device, whosever that is.
    """
    (loop.directory / "queue/write_cache").write_text("write back" if present else "write through")


def backing(loop: Loop) -> str | None:
    """The path of the file behind a loop device, as the kernel has it; None: not attached."""
    return _read(loop.directory / "loop/backing_file")


def file_of(device: str) -> str | None:
    """The path of the file behind whatever loop device has that name now."""
    return _read(_SYS_BLOCK / Path(device).name / "loop/backing_file")


def is_attached(loop: Loop) -> bool:
    """Whether that loop device is still attached as it was."""
    file = backing(loop)
    if loop.sequence is None:  # an older kernel: the path must do, where it is still whole
        return file == loop.file
    return file is not None and _sequence(loop.directory) == loop.sequence


def of_file(file: Path) -> tuple[Loop, ...]:
    """The loop devices whose backing file is exactly that path."""
    found = []
    for directory in _SYS_BLOCK.glob("loop*"):
        if _read(directory / "loop/backing_file") == str(file):
            found.append(_loop(f"/dev/{directory.name}", str(file)))
    return tuple(found)


def in_directory(directory: Path) -> tuple[Loop, ...]:
    """The loop devices whose backing file is directly in a directory."""
    found = []
    for entry in _SYS_BLOCK.glob("loop*"):
        file = _read(entry / "loop/backing_file")
        if file is not None and Path(file).parent == directory:
            found.append(_loop(f"/dev/{entry.name}", file))
    return tuple(found)


def took_us(loop: Loop) -> float | None:
    """How long its reads and writes took in all, by the kernel's clock; None: not attached."""
    text = _read(loop.directory / "stat")
    if text is None:
        return None
    fields = text.split()
    return (int(fields[3]) + int(fields[7])) * 1e3  # Linux, Documentation/block/stat.rst


def grow(loop: Loop) -> None:
    """Take on the present size of the file."""
    arguments = ["losetup", "--set-capacity", loop.device]
    programs.run(arguments, timeout_s=_LOSETUP_TIMEOUT_S)


def detach(loop: Loop, *, timeout_s: float = 5.0) -> bool:
    """Detach that loop device; False if something still holds it: then it goes later."""
    if not is_attached(loop):
        return True
    with suppress(OSError):  # its next user's flushes must reach the file behind it
        set_write_cache(loop, True)
    programs.run(["losetup", "--detach", loop.device], timeout_s=_LOSETUP_TIMEOUT_S)
    deadline = time.monotonic() + timeout_s
    while is_attached(loop):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _loop(device: str, file: str) -> Loop:
    return Loop(device, _sequence(_SYS_BLOCK / Path(device).name), file)


def _sequence(directory: Path) -> int | None:
    text = _read(directory / "diskseq")
    return None if text is None else int(text)


def _read(path: Path) -> str | None:
    try:
        return kernel_text(path).removesuffix("\n")
    except OSError:
        return None
