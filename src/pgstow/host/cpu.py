"""The machine's processors and memory, from /proc."""

import ctypes
import os
import time
from collections.abc import Collection
from pathlib import Path

# Columns of /proc/stat's first line (proc(5)); a core waiting for I/O is idle, guest time is in
# user time already, and stolen time is other machines' work.
BUSY = ("user", "nice", "system", "irq", "softirq")
_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def cores() -> int:
    """The processors the machine has online."""
    return os.cpu_count() or 1


def parse_ticks(text: str, names: Collection[str]) -> int:
    """The clock ticks of all cores together in these columns since boot, from /proc/stat's text.

    >>> parse_ticks("cpu  10 1 5 900 80 2 3 4 0 0", ("user", "system"))
    15
    """
    fields = text.split("\n", 1)[0].split()[1:]
    values = dict(zip(_COLUMNS, (int(field) for field in fields), strict=False))
    return sum(values.get(name, 0) for name in names)


def _core_seconds(names: Collection[str]) -> float:
    return parse_ticks(Path("/proc/stat").read_text(), names) / os.sysconf("SC_CLK_TCK")


def busy_core_seconds() -> float:
    """The seconds all cores together have worked here since boot."""
    return _core_seconds(BUSY)


def stolen_core_seconds() -> float:
    """The seconds for which a hypervisor kept cores from work that was ready, since boot."""
    return _core_seconds(("steal",))


def parse_memory_bytes(text: str, name: str = "MemTotal") -> int:
    """The machine's memory, or another row's, from the text of /proc/meminfo.

    >>> parse_memory_bytes("MemTotal:       24668964 kB")
    25261019136
    """
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{name} is not in the text")


def memory_bytes() -> int:
    """The machine's memory."""
    return parse_memory_bytes(Path("/proc/meminfo").read_text())


def available_memory_bytes() -> int:
    """The memory that can be had without swapping, by the kernel's own estimate."""
    return parse_memory_bytes(Path("/proc/meminfo").read_text(), "MemAvailable")


def process_cpu_seconds(pid: int) -> float:
    """The processor time of a process and all threads it has had, as utime + stime of proc(5).

    From the process's CPU clock (clock_getcpuclockid(3)), which counts nanoseconds where /proc
    counts ticks. Raises ProcessLookupError where there is no such process.
    """
    clock = ctypes.c_int()
    error = ctypes.CDLL(None).clock_getcpuclockid(ctypes.c_int(pid), ctypes.byref(clock))
    if error != 0:
        raise ProcessLookupError(error, os.strerror(error))
    try:
        return time.clock_gettime(clock.value)
    except OSError as gone:
        raise ProcessLookupError(gone.errno, os.strerror(gone.errno or 0)) from gone
