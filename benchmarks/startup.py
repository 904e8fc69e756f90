"""How long commands take that do little: the best and the median of several runs, with the limit.

.venv/bin/python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 5
LIMIT_S = 0.25
COMMANDS = (
    ["--help"],
    ["--version"],
    ["emulate", "status", "--state-dir", "/nonexistent"],
)


def main() -> None:
    """Print a table; exit with 1 where the best run is over the limit."""
    program = Path(sys.executable).parent / "pgstow"
    print(f"{'command':<50} {'best s':>8} {'median s':>9} {'limit s':>8}")
    slow = False
    for arguments in COMMANDS:
        seconds = [_time([str(program), *arguments]) for _ in range(RUNS)]
        best = min(seconds)
        slow |= best > LIMIT_S
        name = " ".join(["pgstow", *arguments])
        print(f"{name:<50} {best:>8.3f} {statistics.median(seconds):>9.3f} {LIMIT_S:>8.2f}")
    sys.exit(slow)


def _time(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
