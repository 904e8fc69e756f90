"""Processes, identified so that a reused pid is another; and those that hold a filesystem."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_REAPED_POLL_S = 0.01
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid with the clock ticks between boot and the process's start, and the boot itself."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that keeps a filesystem busy."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def boot_id() -> str:
    """The identity of this boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where it is gone or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return parse_start_ticks(text)


def parse_start_ticks(stat: str) -> int | None:
    """Read the start time out of /proc/PID/stat, whatever the process is called.

    >>> parse_start_ticks("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0")
    4242
    """
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process."""
    ticks = start_ticks(pid)
    return None if ticks is None else ProcessIdentity(pid, ticks, boot_id())


def is_running(process: ProcessIdentity) -> bool:
    """Whether that process still runs."""
    return process.boot_id == boot_id() and start_ticks(process.pid) == process.start_ticks


def end(
    process: ProcessIdentity, *, timeout_s: float, first: signal.Signals = signal.SIGTERM
) -> bool:
    """Terminate that process, by SIGKILL if it does not end; whether it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # The descriptor is of whatever has the pid now, and stays of that: checked once is enough.
        if not is_running(process):
            return True
        for number in (first, signal.SIGKILL):
            signal.pidfd_send_signal(descriptor, number)
            if _gone(descriptor, timeout_s):
                return True
        return not is_running(process)
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def family(pid: int) -> tuple[ProcessIdentity, ...]:
    """A process and its children, as a PostgreSQL server is; nothing where it is gone."""
    found = [identify(pid)]
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and _parent(int(entry.name)) == pid:
            found.append(identify(int(entry.name)))
    return tuple(identity for identity in found if identity is not None)


def _parent(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return int(text[text.rindex(")") + 2 :].split()[1])


def kill(family: Sequence[ProcessIdentity], *, timeout_s: float) -> tuple[ProcessIdentity, ...]:
    """Kill those processes in their order; returns those that are still there."""
    for process in family:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                if is_running(process):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
    deadline = time.monotonic() + timeout_s
    return tuple(
        process
        for process in family
        if not wait_until_gone(process, timeout_s=max(0.0, deadline - time.monotonic()))
    )


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Inside, we are the parent of what our children leave behind when they end.

    So its zombies are ours to reap: an init may take a second for that, and a container without
    one for ever.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def wait_until_reaped(family: Sequence[ProcessIdentity], *, timeout_s: float) -> bool:
    """Wait until nothing is left of ended processes, not even zombies; whether that is so.

    A server that starts takes the zombie of the one before for a running one. Ours are reaped.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        for process in family:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        if not any((_PROC / str(process.pid)).exists() for process in family):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_REAPED_POLL_S)


def wait_until_gone(process: ProcessIdentity, *, timeout_s: float) -> bool:
    """Wait for that process to end; whether it did."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        return not is_running(process) or _gone(descriptor, timeout_s)
    finally:
        os.close(descriptor)


def _gone(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def holders(*device_numbers: int) -> tuple[Holder, ...]:
    """The processes with a file, directory or program of a filesystem in use.

    The filesystem is known by its ``st_dev``, and where the mount table has another, by both.
    """
    found = []
    for directory in _PROC.iterdir():
        if directory.name.isdigit() and _holds(directory, device_numbers):
            found.append(Holder(int(directory.name), _name(directory)))
    return tuple(sorted(found, key=lambda holder: holder.pid))


def _holds(directory: Path, device_numbers: Collection[int]) -> bool:
    for link in _links(directory):
        try:
            if link.stat().st_dev in device_numbers:
                return True
        except OSError:  # gone meanwhile, or another user's
            continue
    return _maps(directory, device_numbers)


def _links(directory: Path) -> Iterator[Path]:
    yield from (directory / name for name in ("cwd", "root", "exe"))
    try:
        yield from (directory / "fd").iterdir()
    except OSError:
        return


def _maps(directory: Path, device_numbers: Collection[int]) -> bool:
    needed = {b"%02x:%02x" % (os.major(number), os.minor(number)) for number in device_numbers}
    try:
        lines = (directory / "maps").read_bytes().split(b"\n")
    except OSError:
        return False
    return any(line and line.split(maxsplit=4)[3] in needed for line in lines)


def _name(directory: Path) -> str:
    try:
        return (directory / "comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"
