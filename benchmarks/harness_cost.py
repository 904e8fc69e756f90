"""What the harness costs: throughput of bare pgbench beside pgbench with all that experiments read.

    .venv/bin/python benchmarks/harness_cost.py
    .venv/bin/python benchmarks/harness_cost.py --quick --workloads select-only

On an own server, in blocks of random order: pgbench by itself; with its transaction log, as
experiments run it; and with the log and the instruments (waits sampled ten times a second,
statistics, devices, processors). All throughputs are pgbench's own figure. The table has the median
of the ratios to bare pgbench in the same block, with an exact 95 % interval, and the processor time
of pgbench for each transaction, which shows the log's cost where throughput is too restless to.
select-only on data in memory has the most transactions a second, and so the most to log.

With ``--data DIRECTORY`` the server's data are there: on a volume, what binds is not a processor,
as in most experiments.

Needs an otherwise idle machine. Exits with 1 where a harness with everything on certainly costs 1 %
or more.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from scipy import stats

from pgstow.experiment.instruments import Recorder
from pgstow.experiment.workloads import generator
from pgstow.experiment.workloads.pgbench import Pgbench
from pgstow.host import programs, server
from pgstow.host.server import EmbeddedServer
from pgstow.model import DataChoice, WorkloadChoice

COST_MAX = 0.01
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
_TPS = re.compile(r"^tps = ([0-9.]+) \(without", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run's throughput, and pgbench's processor time a transaction."""

    tps: float
    client_us: float


@dataclass(frozen=True)
class Bench:
    """A server with data, and where logs go."""

    embedded: EmbeddedServer
    directory: Path
    clients: int
    seconds: int

    def generator(self, workload: str, scale: int = 1) -> Pgbench:
        """The harness's load generator."""
        choice = WorkloadChoice(workload, self.clients)
        data = DataChoice("pgbench", scale)
        found = generator(choice, data, bindir=self.embedded.bindir)
        assert isinstance(found, Pgbench)
        return found

    def bare(self, workload: str, seed: int) -> Run:
        """pgbench by itself."""
        command = [
            str(self.embedded.bindir / "pgbench"),
            f"--builtin={workload}",
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={self.clients}",
            "--jobs=2",
            f"--time={self.seconds}",
            f"--random-seed={seed}",
            self.embedded.dsn,
        ]
        before_s = _children_s()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        match = _TPS.search(done.stdout)
        assert match is not None
        return self._run(float(match[1]), before_s)

    def logged(self, workload: str, seed: int, *, full: bool = False) -> Run:
        """pgbench as experiments run it."""
        before_s = _children_s()
        logs = Path(tempfile.mkdtemp(prefix="pgstow-cost-", dir=self.directory))
        running = self.generator(workload).start(
            self.embedded.dsn, duration_s=self.seconds, log_directory=logs, seed=seed
        )
        with running:
            if full:
                recorder = Recorder(
                    self.embedded.dsn, volumes={}, client_pids=running.pids, is_local=True
                )
                with recorder:
                    running.wait()
            running.wait()
            tps = running.reported_tps
        shutil.rmtree(logs)
        assert tps is not None
        return self._run(tps, before_s)

    def _run(self, tps: float, before_s: float) -> Run:
        return Run(tps, (_children_s() - before_s) * 1e6 / (tps * self.seconds))


def _children_s() -> float:
    """Processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def variants(bench: Bench) -> dict[str, Callable[[str, int], Run]]:
    """The ways to run a workload, by name."""
    return {
        "bare": bench.bare,
        "log": bench.logged,
        "log and instruments": partial(bench.logged, full=True),
    }


def measure(bench: Bench, workload: str, blocks: int, seed: int) -> dict[str, list[Run]]:
    """The runs of each variant, by block."""
    ways = variants(bench)
    shuffle = random.Random(seed)
    found: dict[str, list[Run]] = {name: [] for name in ways}
    ways["bare"](workload, seed)  # warms the caches
    for block in range(blocks):
        order = list(ways)
        shuffle.shuffle(order)
        for name in order:
            found[name].append(ways[name](workload, seed + block))
        print(f"{workload}: block {block + 1} of {blocks}", file=sys.stderr)
    return found


def interval(ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of the median: order statistics of a sign test."""
    ordered = sorted(ratios)
    count = len(ordered)
    below = int(stats.binom.ppf((1 - confidence) / 2, count, 0.5))
    return ordered[max(below - 1, 0)], ordered[min(count - below, count - 1)]


def reading_cost(bench: Bench, workload: str) -> tuple[int, float]:
    """How many transactions a run logged, and how long it takes to make an outcome of them."""
    logs = bench.directory / "reading"
    with bench.generator(workload).start(
        bench.embedded.dsn, duration_s=bench.seconds, log_directory=logs, seed=1
    ) as running:
        running.wait()
        began = time.perf_counter()
        outcome = running.outcome()
        return outcome.transactions, time.perf_counter() - began


def report(workload: str, found: dict[str, list[Run]]) -> bool:
    """Print a workload's table; whether everything on is certainly too dear."""
    print(f"\n{workload}, n={len(found['bare'])}")
    print(f"{'':<22}{'TPS':>10}{'ratio':>9}{'95 % interval':>19}{'bar':>8}{'pgbench µs':>12}")
    dear = False
    for name, runs in found.items():
        ratios = [one.tps / bare.tps for one, bare in zip(runs, found["bare"], strict=True)]
        low, high = interval(ratios)
        bar = f">{1 - COST_MAX:.2f}" if name == "log and instruments" else ""
        dear |= bool(bar) and high < 1 - COST_MAX
        tps = statistics.median(one.tps for one in runs)
        client_us = statistics.median(one.client_us for one in runs)
        line = f"{tps:>10,.0f}{statistics.median(ratios):>9.4f}"
        spread = f"{low:.4f} – {high:.4f}"
        print(f"{name:<22}{line}{spread:>19}{bar:>8}{client_us:>12.2f}")
    return dear


def run(given: argparse.Namespace, directory: Path, data: Path) -> tuple[bool, dict[str, object]]:
    """Measure all workloads on one server."""
    user = server.unprivileged_user()
    for one in (directory, data):
        one.chmod(0o755)
        if user is not None:
            os.chown(one, *programs.user_ids(user))
    dear = False
    figures: dict[str, object] = {}
    with EmbeddedServer(data / "data") as embedded:
        embedded.initialise()
        embedded.start(SETTINGS)
        bench = Bench(embedded, directory, given.clients, given.seconds)
        bench.generator("select-only", given.scale).load(embedded.dsn)
        for workload in given.workloads:
            found = measure(bench, workload, given.blocks, given.seed)
            dear |= report(workload, found)
            figures[workload] = {
                name: [asdict(one) for one in runs] for name, runs in found.items()
            }
        count, seconds = reading_cost(bench, given.workloads[0])
        print(f"\nan outcome of {count:,} logged transactions takes {seconds:.2f} s")
    return dear, figures


def main() -> None:
    """Measure, print, exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="5 blocks of 2 s")
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workloads", nargs="+", default=["select-only", "simple-update"])
    parser.add_argument("--data", type=Path, help="where the server's data are: on a volume, say")
    parser.add_argument("--json", type=Path, help="write all runs there")
    given = parser.parse_args()
    if given.quick:
        given.blocks, given.seconds = 5, 2
    print(f"{os.cpu_count()} cores, kernel {platform.release()}, {given.clients} clients")
    with (
        tempfile.TemporaryDirectory(prefix="pgstow-cost-") as directory,
        tempfile.TemporaryDirectory(prefix="pgstow-cost-", dir=given.data) as data,
    ):
        dear, figures = run(given, Path(directory), Path(data))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1))
    sys.exit(dear)


if __name__ == "__main__":
    main()
