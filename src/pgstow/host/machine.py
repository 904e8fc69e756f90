"""What machine this is, in a line: figures of different machines are not compared."""

import platform
from pathlib import Path

from pgstow.host import cpu
from pgstow.units import GIB


def kernel() -> str:
    """The running kernel, like "Linux 6.12.1"."""
    found = platform.uname()
    return f"{found.system} {found.release}"


def describe() -> str:
    """The processor's model, the cores and the memory."""
    model = parse_model(Path("/proc/cpuinfo").read_text(errors="replace"))
    cores = cpu.cores()
    memory = f"{cpu.memory_bytes() / GIB:.0f} GiB"
    return f"{model or platform.machine()}, {cores} core{'s' * (cores > 1)}, {memory}"


def parse_model(text: str) -> str | None:
    """The processor's model, from the text of /proc/cpuinfo; None where it has none (Arm).

    >>> parse_model("processor\\t: 0\\nmodel name\\t: AMD EPYC 7B13  \\n")
    'AMD EPYC 7B13'
    """
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return " ".join(value.split())
    return None
