"""Whether plans are the best there are: small ones against all assignments, and by measurement.

    python benchmarks/plan_quality.py                      # against exhaustive search
    sudo python benchmarks/plan_quality.py --measure       # on emulated volumes, against the rules

Against exhaustive search: profiles from seeds with up to ten relations, a WAL and up to four types
of volume at the catalog's prices, each wanted at a speed of its own. Every assignment is priced by
arithmetic that the planner does not use; the price of the plan must be the least of all. Exits
with 1 where a bar is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from synthetic_profile import TPS, profile

from pgstow import catalog
from pgstow.model import Goal
from pgstow.planning.placement import PlacementProblem, PlacementSolution, place
from pgstow.planning.planner import case_of
from pgstow.planning.search import Tightening

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))  # the tests' arithmetic

import placement_samples

CASES, QUICK_CASES = 40, 8
TYPES = ("gp3", "gp2", "io1", "io2", "st1", "sc1")
TYPES_MAX = 4
CHUNK = 1 << 18  # assignments priced at a time
_SAME = 1e-6  # of the price


@dataclass(frozen=True, slots=True)
class Small:
    """One small case: the least price of all assignments beside the plan's; None: no way."""

    seed: int
    relations: int
    types: tuple[str, ...]
    assignments: int
    least_usd: float | None
    planned_usd: float | None
    bound_usd: float | None

    @property
    def is_equal(self) -> bool:
        """Whether the plan is as cheap as the cheapest, and its bound not above."""
        if self.least_usd is None or self.planned_usd is None or self.bound_usd is None:
            return self.least_usd is self.planned_usd
        slack = _SAME * self.least_usd + 1e-4
        return abs(self.planned_usd - self.least_usd) <= slack and (
            self.bound_usd <= self.least_usd + slack
        )


def small_cases(count: int, relations_max: int) -> Iterator[tuple[int, PlacementProblem]]:
    """Problems from seeds that may have a solution."""
    rules = catalog.load()
    for seed in range(1, count + 1):
        random = np.random.default_rng(seed)
        relations = int(random.integers(4, relations_max + 1))
        types = list(random.permutation(TYPES)[: random.integers(1, TYPES_MAX)])
        goal = Goal(
            tps=TPS * float(random.uniform(0.6, 3.0)),
            max_volumes=int(random.integers(1, TYPES_MAX + 1)),
            headroom=float(random.choice([0.0, 0.2, 0.4])),
            read_p99_ms=float(random.choice([1.0, 5.0])) if random.random() < 0.3 else None,
        )
        planner = case_of(profile(relations, seed), goal, rules).planner()
        keys = ["data:gp3", *(f"{volume_type}x1" for volume_type in types)]
        candidates = tuple(candidate for candidate in planner.candidates if candidate.key in keys)
        assert goal.tps is not None
        problem = replace(planner, candidates=candidates).problem(goal.tps, Tightening())
        if problem is not None:
            yield seed, problem


def searched(seed: int, problem: PlacementProblem) -> Small:
    """One case both ways."""
    least, assignments = np.inf, 0
    for choice in _every_allowed(problem):
        assignments += len(choice)
        least = min(least, float(placement_samples.cheapest(problem, choice).min()))
    placed = place(problem, breaks_ties=False)
    found = placed if isinstance(placed, PlacementSolution) else None
    types = tuple(sorted({candidate.type for candidate in problem.candidates}))
    return Small(
        seed=seed,
        relations=problem.items.count,
        types=types,
        assignments=assignments,
        least_usd=None if np.isinf(least) else least,
        planned_usd=None if found is None else _priced(problem, found),
        bound_usd=None if found is None else found.bound_usd,
    )


def _priced(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """The plan's assignment, priced by the same arithmetic as all others."""
    choice = placement_samples.choice_of(placed)
    return float(placement_samples.cheapest(problem, choice)[0])


def _every_allowed(problem: PlacementProblem) -> Iterator[np.ndarray]:  # type: ignore[type-arg]
    """All assignments of relations and special items to allowed candidates, by the chunk."""
    allowed = np.concatenate(
        (problem.item_classes.allowed[problem.items.item_class], problem.special_items.allowed)
    )
    ways = [np.nonzero(row)[0] for row in allowed]
    counts = np.array([len(way) for way in ways])
    total = int(counts.prod())
    place_of = np.concatenate(([1], np.cumprod(counts[:-1])))
    for first in range(0, total, CHUNK):
        numbers = np.arange(first, min(total, first + CHUNK))
        digits = numbers[:, None] // place_of % counts
        yield np.stack([way[digits[:, unit]] for unit, way in enumerate(ways)], axis=1)


def search_all(*, quick: bool) -> list[Small]:
    """All small cases."""
    found = []
    cases = small_cases(QUICK_CASES, 6) if quick else small_cases(CASES, 10)
    for seed, problem in cases:
        found.append(searched(seed, problem))
        _say(found[-1])
    return found


def _say(case: Small) -> None:
    usd = "no way" if case.least_usd is None else f"${case.least_usd:,.4f}"
    planned = "no way" if case.planned_usd is None else f"${case.planned_usd:,.4f}"
    sys.stderr.write(
        f"{case.seed:>4} {case.relations:>3} relations, {', '.join(case.types)}:"
        f" least of {case.assignments:,} {usd}, planned {planned}\n"
    )


def main() -> None:
    """Run, print, exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few and small cases")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--measure", action="store_true", help="on emulated volumes, as root")
    parser.add_argument("--only", action="append", help="with --measure: a workload")
    parser.add_argument("--minutes", type=float, default=120.0, help="with --measure: at most")
    given = parser.parse_args()
    if given.measure:
        import plan_quality_measured

        missed = plan_quality_measured.run(
            given.only or [], quick=given.quick, is_json=given.json, minutes=given.minutes
        )
        sys.exit(missed)
    began = time.perf_counter()
    cases = search_all(quick=given.quick)
    unequal = [case for case in cases if not case.is_equal]
    solved = sum(case.least_usd is not None for case in cases)
    if given.json:
        print(json.dumps({"cases": [asdict(case) for case in cases]}, indent=1))
    else:
        print(
            f"{len(cases)} cases ({solved} that can be met), "
            f"{sum(case.assignments for case in cases):,} assignments priced in "
            f"{time.perf_counter() - began:.0f} s: {len(cases) - len(unequal)} plans are the "
            "cheapest of all"
        )
    for case in unequal:
        print(f"missed: {case}", file=sys.stderr)
    sys.exit(bool(unequal))


if __name__ == "__main__":
    main()
