"""The demo's claims, repeated: speed-up, commit latency, price, and the prediction's errors.

    python benchmarks/demo.py --repeats 3

Needs root and an otherwise idle machine. Prints a table with the machine, versions, and the
median, least and largest value of each figure.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Summary = dict[str, Any]
BARS: tuple[tuple[str, str, Callable[[Summary], float]], ...] = (
    ("TPS before", "", lambda s: s["before"]["tps"]),
    ("TPS after", "", lambda s: s["after"]["tps"]),
    ("TPS after ÷ before", ">= 4", lambda s: s["after"]["tps"] / s["before"]["tps"]),
    (
        "p99 commit after ÷ before",
        "<= 0.25",
        lambda s: s["after"]["commit_ms"]["p99"] / s["before"]["commit_ms"]["p99"],
    ),
    (
        "$ per 1,000 TPS after ÷ before",
        "< 1",
        lambda s: s["after"]["dollars_per_1000_tps"] / s["before"]["dollars_per_1000_tps"],
    ),
    ("error of predicted TPS, %", "within 25", lambda s: s["errors_pct"]["tps"]),
    ("error of mean latency, %", "within 25", lambda s: s["errors_pct"]["latency_ms.mean"]),
    ("optimality gap, %", "", lambda s: s["gap_pct"]),
    ("seconds", "< 480", lambda s: s["seconds"]),
)


def run_once(directory: Path) -> Summary:
    """One demo; its summary."""
    command = [sys.executable, "-c", "from pgstow.cli import main; main()"]
    subprocess.run([*command, "demo", "--out", str(directory)], check=True, stdout=sys.stderr)
    summary: Summary = json.loads((directory / "summary.json").read_text())
    if summary["volumes"] != "emulated":
        raise SystemExit(f"not emulated: {summary['not_emulated_because']}")
    return summary


def main() -> None:
    """Repeat, then print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as scratch:
        runs = [run_once(Path(scratch) / str(number)) for number in range(repeats)]
    kernel = platform.release()
    print(
        f"{os.cpu_count()} cores, kernel {kernel}, Python {platform.python_version()}, n={repeats}"
    )
    print(f"{'':<34}{'bar':>10}{'median':>10}{'min':>10}{'max':>10}")
    for name, bar, value in BARS:
        values = [value(run) for run in runs]
        figures = (statistics.median(values), min(values), max(values))
        print(f"{name:<34}{bar:>10}" + "".join(f"{figure:>10,.2f}" for figure in figures))


if __name__ == "__main__":
    main()
