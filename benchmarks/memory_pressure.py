"""PostgreSQL, a page-cache hog and the emulator in too little memory: does anything stand still?

    python benchmarks/memory_pressure.py --seconds 60 --limit 2GiB
    python benchmarks/memory_pressure.py --seconds 300 --whole-machine

pgbench runs on one emulated volume. On another, one process dirties a big file over and over,
faster than the volume takes it, and a second one reads a big file. With --limit they share a
memory control group with the server; with --whole-machine the second volume is made so large that
volumes and page cache fill the machine; with --fill, larger than the machine. Watched each second:
transactions, commits of a probe, the hogs' progress, the emulator's answers, kills for want of
memory. It ends with 1 where something was killed or stood still for longer than --stall-max.
Needs root.
"""

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg

from pgstow import emulate
from pgstow.emulate.control import Control
from pgstow.emulate.state import StateDirectory
from pgstow.host import cpu, processes
from pgstow.host.background import BackgroundProgram
from pgstow.host.memory_limit import MemoryLimit
from pgstow.host.server import EmbeddedServer, unprivileged_user
from pgstow.model import Device, HostSpec, Latency, Layout, Member, Placement, Volume
from pgstow.units import GIB, KIB, MIB, Bytes, parse_size

CHUNK = 1 * MIB
PROGRESS = re.compile(r"progress: [\d.]+ s, ([\d.]+) tps")
KEPT_FREE = 3 * GIB  # of the whole machine: for what else runs, and the page cache's own turn
DATA_BYTES = 3 * GIB


@dataclass
class Watched:
    """One thing that must not stand still: how long it did at most, and when."""

    name: str
    began: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    count: int = 0
    stall_s: float = 0.0
    stall_at_s: float = 0.0

    def note(self) -> None:
        """It has moved."""
        now = time.monotonic()
        if now - self.last > self.stall_s:
            self.stall_s, self.stall_at_s = now - self.last, self.last - self.began
        self.last, self.count = now, self.count + 1


def hog(kind: str, path: Path, size_bytes: int) -> None:
    """Write or read a big file for ever through the page cache; a dot for each 64 MiB."""
    block = os.urandom(CHUNK)
    flags = os.O_RDWR | os.O_CREAT if kind == "write" else os.O_RDONLY
    descriptor = os.open(path, flags, 0o644)
    while True:
        for offset in range(0, size_bytes, CHUNK):
            if kind == "write":
                os.pwrite(descriptor, block, offset)
            else:
                os.pread(descriptor, CHUNK, offset)
            if offset % (64 * CHUNK) == 0:
                print(".", file=sys.stderr, flush=True)


def oom_kills() -> int:
    """Processes killed for want of memory since boot, by control groups' limits too."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def available_mib() -> int:
    """What the kernel says can be had without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(ln.split()[1]) // 1024 for ln in lines if ln.startswith("MemAvailable:"))


@contextlib.contextmanager
def volumes(root: Path, hog_bytes: int) -> Iterator[Path]:
    """Two emulated volumes; yields their state directory."""
    sizes = {"data": DATA_BYTES, "hog": hog_bytes}
    found = [
        Volume(name, "gp3", Bytes(size), str(root / "mnt" / name)) for name, size in sizes.items()
    ]
    # The hog's volume is slower than a page cache fills: it must come to be throttled.
    limits = {"data": None, "hog": 300.0 * MIB}
    devices = [
        Device(
            volume.name,
            volume.size_bytes,
            1,
            Bytes(64 * KIB),
            Member(None, limits[volume.name], 256 * KIB, Latency(300, 600, 500, 900)),
        )
        for volume in found
    ]
    layout = Layout(HostSpec(), tuple(found), Placement("data", "data"))
    state = root / "state"
    try:
        emulate.up(layout, devices, None, state_directory=state, owner=unprivileged_user())
        yield state
    finally:
        emulate.down(state, force=True)


@contextlib.contextmanager
def memory_limit(limit_bytes: int | None) -> Iterator[MemoryLimit | None]:
    """A control group of that size, or none."""
    if limit_bytes is None:
        yield None
        return
    limit = MemoryLimit.create("pgstow-memory-pressure", limit_bytes)
    if isinstance(limit, str):
        raise SystemExit(limit)
    try:
        yield limit
    finally:
        limit.remove()


def repeatedly(watched: Watched, ended: threading.Event, act: Callable[[], object]) -> None:
    """Do something again and again until the end, and note each time."""
    while not ended.is_set():
        try:
            act()
        except (OSError, psycopg.Error) as error:
            if not ended.is_set():
                print(f"{watched.name}: {error}", file=sys.stderr)
            return
        watched.note()
        time.sleep(0.02)


def start_hogs(
    mount: Path, size_bytes: int, limit: MemoryLimit | None, watched: dict[str, Watched]
) -> list[BackgroundProgram]:
    """Two writers' worth of dirt and one reader."""
    reading = mount / "read"
    with reading.open("wb") as file:
        for _ in range(size_bytes // 4 // CHUNK):
            file.write(os.urandom(CHUNK))
    programs = []
    for kind, path, size in (
        ("write", mount / "written", size_bytes // 2),
        ("read", reading, size_bytes // 4),
    ):
        command = [sys.executable, __file__, "--hog", kind, str(path), str(size)]
        noted = watched[f"hog {kind}s"]
        programs.append(
            BackgroundProgram(
                command if limit is None else limit.inside(command),
                on_error_line=lambda _line, noted=noted: noted.note(),  # type: ignore[misc]
            )
        )
    return programs


def prepare(server: EmbeddedServer, scale: int) -> None:
    """A cluster with pgbench's tables."""
    server.initialise()
    server.start({"shared_buffers": "256MB", "max_wal_size": "512MB", "checkpoint_timeout": "60s"})
    subprocess.run(
        [*pgbench(server), "--initialize", "--quiet", f"--scale={scale}"],
        check=True,
        capture_output=True,
    )


def pgbench(server: EmbeddedServer) -> list[str]:
    """The program and how to connect."""
    connection = [f"--host={server.runtime_directory}", "--username=postgres", "postgres"]
    return [str(server.bindir / "pgbench"), *connection]


def press(options: argparse.Namespace, root: Path, limit: MemoryLimit | None) -> dict[str, object]:
    """The run itself."""
    hog_bytes = hog_size(options)
    before = oom_kills()
    with (
        volumes(root, hog_bytes) as state,
        EmbeddedServer(root / "mnt/data/pgdata", memory_limit=limit) as server,
    ):
        control = Control(StateDirectory(state).control, timeout_s=120)
        emulator = processes.identify(control.status().pid)
        assert emulator is not None
        prepare(server, options.scale)
        names = ("commit", "emulator", "hog writes", "hog reads")
        samples: list[dict[str, float]] = []
        hogs = start_hogs(
            root / "mnt/hog", hog_bytes, limit, watched := {n: Watched(n) for n in names}
        )
        try:
            watch(options, server, control, watched, samples)
        finally:
            for program in hogs:
                program.kill()
        return {
            "seconds": options.seconds,
            "machine_bytes": cpu.memory_bytes(),
            "limit_bytes": None if limit is None else limit.limit_bytes(),
            "hog_volume_bytes": hog_bytes,
            "oom_kills": oom_kills() - before,
            "emulator_survived": processes.is_running(emulator),
            "postgres_survived": server.process is not None
            and processes.is_running(server.process),
            "resident_bytes": sum(v.resident_bytes for v in control.status().volumes),
            "watched": [asdict(entry) for entry in watched.values()],
            "samples": samples,
        }


def watch(
    options: argparse.Namespace,
    server: EmbeddedServer,
    control: Control,
    watched: dict[str, Watched],
    samples: list[dict[str, float]],
) -> None:
    """pgbench, the probe and the emulator's answers for so many seconds."""
    ended = threading.Event()
    began = time.monotonic()

    def on_line(line: str) -> None:
        match = PROGRESS.search(line)
        if match:
            at_s = round(time.monotonic() - began, 1)
            samples.append({"at_s": at_s, "tps": float(match[1]), "available_mib": available_mib()})
            print(f"{at_s:6.1f} s  {float(match[1]):8.1f} TPS  {available_mib():6} MiB available")

    connection = psycopg.connect(server.dsn, autocommit=True)
    statement = "SELECT pg_logical_emit_message(true, 'probe', '')"
    jobs: tuple[tuple[str, Callable[[], object]], ...] = (
        ("commit", lambda: connection.execute(statement)),
        ("emulator", control.status),
    )
    for entry in watched.values():
        entry.began = entry.last = began
    threads = [
        threading.Thread(target=repeatedly, args=(watched[name], ended, act), daemon=True)
        for name, act in jobs
    ]
    command = [*pgbench(server), f"--time={options.seconds}", f"--client={options.clients}"]
    with BackgroundProgram([*command, "--progress=1"], on_error_line=on_line) as program:
        for thread in threads:
            thread.start()
        while program.wait(1.0) is None:
            if time.monotonic() - began > options.seconds + options.stall_max:
                print("pgbench does not end: something stands still", file=sys.stderr)
                break
    ended.set()
    for entry in watched.values():
        entry.note()  # one that stands still to this moment
    for thread in threads:
        thread.join(5.0)


def hog_size(options: argparse.Namespace) -> int:
    """The second volume's size: three quarters of it are written."""
    if not options.whole_machine:
        return int(options.hog_size)
    if options.fill:
        return cpu.memory_bytes() * 2 // GIB * GIB
    size = (cpu.memory_bytes() - DATA_BYTES - KEPT_FREE) * 4 // 3
    return size // GIB * GIB


def report(result: dict[str, object], options: argparse.Namespace) -> int:
    """Print the figures; the exit status. Where a volume was filled, its users may have ended."""
    failures = []
    stall_max_s = math.inf if options.fill else options.stall_max
    if result["oom_kills"]:
        failures.append(f"{result['oom_kills']} processes were killed for want of memory")
    needed = ("emulator",) if options.fill else ("emulator", "postgres")
    failures += [f"{name} did not survive" for name in needed if not result[f"{name}_survived"]]
    for entry in result["watched"]:  # type: ignore[attr-defined]
        where = f"longest stall {entry['stall_s']:.2f} s, at {entry['stall_at_s']:.0f} s"
        print(f"{entry['name']:12} {entry['count']:8} times  {where}")
        if entry["stall_s"] > stall_max_s:
            failures.append(f"{entry['name']} stood still for {entry['stall_s']:.1f} s")
    rates = sorted(sample["tps"] for sample in result["samples"])  # type: ignore[attr-defined]
    if rates:
        print(
            f"TPS: least {rates[0]:.0f}, median {rates[len(rates) // 2]:.0f}, most {rates[-1]:.0f}"
        )
    print(f"volumes hold {result['resident_bytes'] / GIB:.2f} GiB")  # type: ignore[operator]
    for failure in failures:
        print(f"FAILED: {failure}")
    if not failures:
        print("PASSED: nothing was killed, nothing stood still")
    return 1 if failures else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--limit", type=parse_size, default=2 * GIB, help="of the control group")
    parser.add_argument("--whole-machine", action="store_true", help="no limit: fill the machine")
    parser.add_argument(
        "--fill", action="store_true", help="a volume larger than memory: full, but nothing killed"
    )
    parser.add_argument("--hog-size", type=parse_size, default=2 * GIB, help="of the second volume")
    parser.add_argument("--scale", type=int, default=50, help="pgbench's; 16 MB each")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--stall-max", type=float, default=30.0, help="seconds")
    parser.add_argument("--directory", type=Path, help="where the volumes are mounted")
    parser.add_argument("--json", type=Path, help="write all samples there")
    parser.add_argument("--hog", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run it."""
    options = parse()
    if options.hog:
        kind, path, size = options.hog
        hog(kind, Path(path), int(size))
    with tempfile.TemporaryDirectory(prefix="pgstow-pressure-", dir=options.directory) as name:
        Path(name).chmod(0o755)
        limit_bytes = None if options.whole_machine else options.limit
        with memory_limit(limit_bytes) as limit:
            result = press(options, Path(name), limit)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))
    return report(result, options)


if __name__ == "__main__":
    sys.exit(main())
