"""The emulator's fidelity and speed, repeated, beside nbdkit and qemu-storage-daemon.

    sudo .venv/bin/python benchmarks/emulator.py --repeats 5

Runs what `pgstow emulate bench` does, with more repeats, on an otherwise idle machine; prints its
tables and, with --out, writes every sample with the machine and the versions as JSON.
"""

import argparse
import json
import sys
from pathlib import Path

from pydantic import TypeAdapter

from pgstow.cli.emulate_bench import print_report
from pgstow.emulate import bench


def main() -> None:
    """Measure, print, write; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", help="only these rows, as 'limit-*,speed-*'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path, help="a JSON file for every sample")
    given = parser.parse_args()
    peers = () if given.no_peers else bench.installed_peers()
    plan = bench.make_plan(peers=peers, rows=given.rows, repeats=given.repeats, seed=given.seed)
    print(f"about {plan.seconds / 60:.0f} min", file=sys.stderr)
    report = bench.run(plan, progress=_progress)
    for warning in report.warnings:
        print(f"warning: {warning.message}", file=sys.stderr)
    print_report(report)
    if given.out is not None:
        plain = TypeAdapter(bench.BenchReport).dump_python(report, mode="json")
        given.out.write_text(json.dumps(plain, indent=1) + "\n")
    sys.exit(bool(report.failed))


def _progress(done_s: float, total_s: float) -> None:
    print(f"{done_s:.0f} of {total_s:.0f} s", end="\r", file=sys.stderr)


if __name__ == "__main__":
    main()
