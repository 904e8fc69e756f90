"""How long it takes to place up to a million relations on eight candidate volumes, and the bound.

    .venv/bin/python benchmarks/plan_scale.py
    .venv/bin/python benchmarks/plan_scale.py --quick

Profiles are made from seeds: sizes and accesses are Pareto-distributed with shape 1.5, which has no
variance, and independent of each other; three in ten relations are never accessed. Reads may wait
60 % of what they would on gp3, so that what is hot needs a quicker type. The eight choices are gp3
alone, of two and of four, gp2, io1, io2, st1 and sc1 at the catalog's prices.

Each size runs in a process of its own, so that its memory is its own. HiGHS is given the linear
relaxation of the same problem, with a variable for each relation and choice and everything bought,
and is stopped at LP_TIMES times what pgstow took for everything; building that model is not
counted. The frontier is of a whole profile with every candidate of the catalog, from profile to
knee. Exits with 1 where a bar is missed.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import highspy
import numpy as np
from synthetic_profile import profile

from pgstow import catalog, planning
from pgstow.host import cpu
from pgstow.model import Goal, HostSpec, Layout, Placement, Volume
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.candidates import candidate_volumes
from pgstow.planning.placement import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    ItemClasses,
    Items,
    NoSolution,
    PlacementProblem,
    SpecialItems,
    place,
)
from pgstow.planning.placement.sizing import UseRows, sizing
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB, Bytes, format_size

CHOICES = ("gp3x1", "gp3x2", "gp3x4", "gp2x1", "io1x1", "io2x1", "st1x1", "sc1x1")
LIMIT_S = {1_000: 0.3, 10_000: 0.5, 100_000: 2.0, 1_000_000: 15.0}
GAP_PCT = {1_000: 0.1, 10_000: 0.02, 100_000: 0.02, 1_000_000: 0.02}
LIMIT_BYTES = 2 * BYTES_OF_GIB
LP_RELATIONS = 100_000
LP_TIMES = 30.0
LP_LIMIT = 20.0
TPS = 1000.0
FRONTIER_RELATIONS, FRONTIER_POINTS, FRONTIER_LIMIT_S = 10_000, 30, 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """One size: times of the runs, each on a profile of its own seed."""

    relations: int
    seconds: list[float]
    gap_pct: list[float]
    usd_month: list[float]
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Relaxation:
    """HiGHS on the linear relaxation. ``is_finished`` False: stopped at ``seconds``."""

    relations: int
    seconds: float
    own_seconds: float
    is_finished: bool

    @property
    def times(self) -> float:
        """How many times as long it took, at least."""
        return self.seconds / self.own_seconds


@dataclass(frozen=True, slots=True)
class Curve:
    """A whole frontier: times of the runs, each on a profile of its own seed."""

    relations: int
    points: int
    seconds: list[float]
    gap_pct: list[float]  # the widest of each
    knee_tps: list[float]


def main() -> None:
    """Run, print, exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="to 10,000 relations, no relaxation")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", default="place", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(asdict(PARTS[given.part](given.only, given.runs))))
        return
    sizes = [size for size in LIMIT_S if size <= 10_000 or not given.quick]
    rows = [Row(**_apart(size, given.runs, "place")) for size in sizes]
    curve = Curve(**_apart(FRONTIER_RELATIONS, 1 if given.quick else 3, "frontier"))
    relaxation = None if given.quick else Relaxation(**_apart(LP_RELATIONS, 1, "relaxation"))
    missed = [*_missed(rows), *_missed_frontier(curve), *_missed_relaxation(relaxation)]
    if given.json:
        figures = {
            "machine": _machine(),
            "rows": [asdict(row) for row in rows],
            "frontier": asdict(curve),
            "relaxation": asdict(relaxation) if relaxation else None,
            "missed": missed,
        }
        print(json.dumps(figures, indent=1))
    else:
        _print(rows, curve, relaxation)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    sys.exit(bool(missed))


def candidates() -> tuple[CandidateVolume, ...]:
    """The eight choices, as the planner would make them."""
    present = Layout(
        host=HostSpec("ec2", "us-east-1"),
        volumes=(Volume("data", "gp3", Bytes(BYTES_OF_GIB), "/data"),),
        postgres=Placement(data="data", wal="data"),
    )
    every = {
        one.key: one for one in candidate_volumes(present, Goal(max_stripes=4), catalog.load())
    }
    return tuple(every[key] for key in CHOICES)


def synthetic(relations: int, seed: int) -> PlacementProblem:
    """A heavy-tailed profile on the eight choices."""
    random = np.random.default_rng(seed)
    offered = candidates()
    size = random.pareto(1.5, relations) + 1
    size *= 1536 * (relations / 1000) ** 0.6 / size.sum()
    access = (random.pareto(1.5, relations) + 1) * (random.random(relations) < 0.7)
    access *= 8000 * (relations / 1000) ** 0.25 / access.sum()
    demand = np.column_stack((size, access[:, None] * random.dirichlet((2, 1, 0.3), relations)))
    use = np.zeros((len(offered), USES, 4))
    use[:, GIB, 0] = 1
    use[:, IOPS, 1:] = 1e-3
    for c, candidate in enumerate(offered):
        use[c, BYTES, 1:3] = candidate.random_io_bytes / MIB
        use[c, BYTES, 3] = 1 / 8
        use[c, WAIT, (1, 3)] = candidate.read_us / 1000 / TPS
    wal = np.zeros((1, len(offered), USES))
    wal[:, :, GIB], wal[:, :, IOPS], wal[:, :, BYTES] = 4.0, 0.5, 10.0
    wal[:, :, WAIT] = [candidate.write_us / 2000 for candidate in offered]
    anywhere = np.ones((1, len(offered)), dtype=bool)
    gp3_ms = float((demand @ use[0, WAIT]).sum())
    return PlacementProblem(
        candidates=offered,
        use_per_demand=use,
        items=Items(demand, np.zeros(relations, dtype=np.int64)),
        item_classes=ItemClasses(anywhere, ~anywhere),
        special_items=SpecialItems(
            wal,
            np.array([[not candidate.is_hdd for candidate in offered]]),
            np.zeros((1, len(offered)), dtype=bool),
        ),
        free_space=0.3,
        headroom=0.2,
        response_ms=0.6 * gp3_ms + float(wal[0, 0, WAIT]),
        host_kiops=80.0,
        host_mibps=2400.0,
        max_volumes=6,
    )


def measure(relations: int, runs: int) -> Row:
    """Place ``runs`` profiles of one size; the first of all is run once more, to warm up."""
    place(synthetic(1000, 1))
    seconds, gaps, prices = [], [], []
    for seed in range(1, runs + 1):
        problem = synthetic(relations, seed)
        began = time.perf_counter()
        placed = place(problem, gap=GAP_PCT[relations] / 100)
        seconds.append(time.perf_counter() - began)
        if isinstance(placed, NoSolution):
            raise SystemExit(f"{relations} relations, seed {seed}: nothing was found")
        gaps.append((placed.usd_month / placed.bound_usd - 1) * 100)
        prices.append(placed.usd_month)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Row(relations, seconds, gaps, prices, peak)


def frontier(relations: int, runs: int) -> Curve:
    """Whole frontiers."""
    rules = catalog.load()
    planning.frontier(profile(1000, 1), Goal(), rules, points=3)
    seconds, gaps, knees = [], [], []
    for seed in range(1, runs + 1):
        given = profile(relations, seed)
        began = time.perf_counter()
        found = planning.frontier(given, Goal(), rules, points=FRONTIER_POINTS)
        seconds.append(time.perf_counter() - began)
        gaps.append(max((one.usd_month / one.bound_usd_month - 1) * 100 for one in found.points))
        knees.append(found.points[found.knee].tps)
        if len(found.points) != FRONTIER_POINTS:
            raise SystemExit(f"seed {seed}: a frontier of {len(found.points)} points")
    return Curve(relations, FRONTIER_POINTS, seconds, gaps, knees)


def relaxed(relations: int, _runs: int) -> Relaxation:
    """HiGHS's own solution of the linear relaxation, beside pgstow's of the whole."""
    problem = synthetic(relations, 1)
    place(problem)
    began = time.perf_counter()
    place(problem, gap=GAP_PCT[relations] / 100)
    own = time.perf_counter() - began
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("time_limit", LP_TIMES * own)
    highs.passModel(_relaxation(problem))
    began = time.perf_counter()
    highs.run()
    took = time.perf_counter() - began
    finished = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Relaxation(relations, took, own, finished)


def _relaxation(problem: PlacementProblem) -> highspy.HighsLp:
    """Every relation on every choice as a variable, with all choices bought."""
    count, choices = problem.items.count, len(problem.candidates)
    rows = UseRows(choices, linked=False)
    base = np.zeros((choices, USES))
    base[0] = problem.special_items.use[0, 0]  # the WAL on gp3
    small = sizing(problem, rows, base, base, integer=False)
    for c in range(choices):
        small.column_lower[4 * c] = 1.0
    small.row_upper[-1] = float(choices)
    first, columns = len(small.row_lower), len(small.cost)
    incidence = rows.incidence(problem).reshape(rows.count, choices, USES)
    per_demand = np.einsum("rcu,cuk->crk", incidence, problem.use_per_demand)
    for c in range(choices):
        entries = problem.items.demand @ per_demand[c].T  # relations × rows
        item, row = np.nonzero(entries)
        small.entries(row, columns + item * choices + c, entries[item, row])
        every = np.arange(count)
        small.entries(first + every, columns + every * choices + c, np.ones(count))
    more = count * choices
    small.cost += [0.0] * more
    small.column_lower += [0.0] * more
    small.column_upper += [1.0] * more
    small.is_integer += [False] * more
    small.row_lower += [1.0] * count
    small.row_upper += [1.0] * count
    return small.model()


PARTS: dict[str, Callable[[int, int], Row | Curve | Relaxation]] = {
    "place": measure,
    "frontier": frontier,
    "relaxation": relaxed,
}


def _apart(relations: int, runs: int, part: str) -> dict[str, Any]:
    """One part in a process of its own."""
    command = [sys.executable, __file__, "--only", str(relations), "--runs", str(runs)]
    found: dict[str, Any] = json.loads(
        subprocess.check_output([*command, "--part", part], text=True)
    )
    return found


def _missed(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        name = f"{row.relations:,} relations"
        median = statistics.median(row.seconds)
        if median > LIMIT_S[row.relations]:
            lines.append(f"{name}: {median:.2f} s, over {LIMIT_S[row.relations]:g} s")
        if max(row.gap_pct) > GAP_PCT[row.relations]:
            lines.append(f"{name}: gap {max(row.gap_pct):.4f} %, over {GAP_PCT[row.relations]:g} %")
        if row.memory_bytes > LIMIT_BYTES:
            lines.append(f"{name}: {format_size(Bytes(row.memory_bytes))} of memory")
    return lines


def _missed_frontier(found: Curve) -> list[str]:
    median = statistics.median(found.seconds)
    if median <= FRONTIER_LIMIT_S:
        return []
    return [f"the frontier took {median:.2f} s, over {FRONTIER_LIMIT_S:g} s"]


def _missed_relaxation(found: Relaxation | None) -> list[str]:
    if found is None or found.times >= LP_LIMIT:
        return []
    return [f"the relaxation took {found.times:.1f} times as long, under {LP_LIMIT:g}"]


def _machine() -> dict[str, str]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": str(cpu.cores()),
        "memory": format_size(cpu.memory_bytes()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "highspy", "pgstow")},
    }


def _print(rows: list[Row], curve: Curve, relaxation: Relaxation | None) -> None:
    print(", ".join(f"{key} {value}" for key, value in _machine().items()))
    print(f"{len(CHOICES)} choices; {len(rows[0].seconds)} profiles a size, each run once\n")
    head = ("relations", "median s", "least s", "most s", "limit s", "gap % most", "limit %")
    print("".join(f"{name:>12}" for name in head) + f"{'memory':>12}{'$/month':>14}")
    for row in rows:
        figures = (
            f"{row.relations:>12,}{statistics.median(row.seconds):>12.3f}{min(row.seconds):>12.3f}"
            f"{max(row.seconds):>12.3f}{LIMIT_S[row.relations]:>12.1f}{max(row.gap_pct):>12.4f}"
            f"{GAP_PCT[row.relations]:>12.2f}{format_size(Bytes(row.memory_bytes)):>12}"
        )
        print(f"{figures}{statistics.median(row.usd_month):>14,.2f}")
    print(
        f"\nfrontier of {curve.points} points at {curve.relations:,} relations:"
        f" {statistics.median(curve.seconds):.2f} s (limit {FRONTIER_LIMIT_S:g} s),"
        f" widest gap {max(curve.gap_pct):.3f} %"
    )
    if relaxation is not None:
        least = "" if relaxation.is_finished else "stopped after "
        print(
            f"\nHiGHS's linear relaxation of {relaxation.relations:,} relations: {least}"
            f"{relaxation.seconds:.1f} s, {relaxation.times:.0f} times as long as the whole plan"
            f" ({relaxation.own_seconds:.2f} s)"
        )


if __name__ == "__main__":
    main()
