"""How long the virtual clock takes for 24 hours of credits on 16 volumes; with the limit.

.venv/bin/python benchmarks/virtual_clock.py
"""

import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

from pgstow import catalog
from pgstow.host import cpu
from pgstow.model import HostCap, HostSpec, LoadPhase, LoadPlan, SyntheticLoad, Volume
from pgstow.prediction.forecast import forecast
from pgstow.units import GIB, Bytes, Seconds, format_size

RUNS = 7
LIMIT_S = 2.0
VOLUMES = 16
DAY_S = 86400.0


def main() -> None:
    """Print a table; exit with 1 where the median of any row is over the limit."""
    print(f"{platform.processor() or platform.machine()}, {cpu.cores()} cores, ", end="")
    print(f"{format_size(cpu.memory_bytes())}, Linux {platform.release()}")
    print(f"Python {platform.python_version()}, pgstow {version('pgstow')}, {RUNS} runs each\n")
    print(f"{VOLUMES} gp2 volumes of 100 GiB, 24 h in steps of 1 s, full credits at first")
    print(
        f"{'load of each volume':<44} {'median s':>9} {'least s':>8} {'most s':>7} {'limit s':>8}"
    )
    slow = False
    for name, run in _rows():
        run()
        seconds = [_time(run) for _ in range(RUNS)]
        median = statistics.median(seconds)
        slow |= median > LIMIT_S
        spread = f"{min(seconds):>8.3f} {max(seconds):>7.3f}"
        print(f"{name:<44} {median:>9.3f} {spread} {LIMIT_S:>8.1f}")
    sys.exit(slow)


def _rows() -> list[tuple[str, Callable[[], object]]]:
    day = (LoadPhase(Seconds(DAY_S / 2), iops=100), LoadPhase(Seconds(DAY_S / 2), iops=1500))
    closed = (LoadPhase(Seconds(DAY_S), depth=32),)
    cap = HostCap(20_000, 593.75 * 1024**2, 40_000, 1187.5 * 1024**2)
    return [
        ("3,000 IOPS all day", _run((LoadPhase(Seconds(DAY_S), iops=3000),), None)),
        ("12 h at 100, 12 h at 1,500 IOPS", _run(day, None)),
        ("32 under way", _run(closed, None)),
        ("32 under way, all below a bursting host cap", _run(closed, cap)),
    ]


def _run(phases: tuple[LoadPhase, ...], cap: HostCap | None) -> Callable[[], object]:
    rules = catalog.load()
    size = Bytes(100 * GIB)
    names = [f"v{index}" for index in range(VOLUMES)]
    devices = [rules.device(Volume(name, "gp2", size, f"/{name}"), HostSpec()) for name in names]
    loads = tuple(SyntheticLoad(name, phases) for name in names)
    plan = LoadPlan(loads, duration_s=Seconds(DAY_S), host_credits=None if cap is None else 1.0)
    return lambda: forecast(plan, devices, cap)


def _time(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
