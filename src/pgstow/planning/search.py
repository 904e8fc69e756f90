"""The search: solve, check by simulation, tighten; the cheapest, or the fastest for a price.

The placement problem knows capacities, sizes, prices and mean waits; what it cannot know (queueing,
percentiles) the simulator checks afterwards. Where the check fails the problem is tightened and
solved again. The bound comes from the programme before any tightening, so the gap printed counts
all that tightening and rounding cost.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pgstow.model import Goal, HostCap, Layout, Prediction, Profile
from pgstow.planning.build import layout_of
from pgstow.planning.candidates import PlanningCatalog, in_place_groups
from pgstow.planning.needs import WAL, response_budget_us
from pgstow.planning.placement import WAIT, Placed, PlacementProblem
from pgstow.planning.placement.moving import place_within
from pgstow.planning.problem import (
    Allowed,
    Demands,
    Limits,
    Load,
    Solution,
    problem_at,
    solution_of,
)
from pgstow.planning.shapes import Shape
from pgstow.prediction import Predictor, Workload

_ATTEMPTS = 12
_BISECTIONS = 7  # to 0.8 % of the range: the steps below it are 5 %
_STEPS, _STEP = 8, 0.05
_BUSY = 0.9  # a volume used this much is what holds the clients up, not its latency
_LESS_WAITING, _LEAST_WAITING = 0.02, 0.25  # how much less each time: twice as much, to a quarter
CENT = 0.005  # dollars that a price may be over a budget: it is rounded
TPS_TOLERANCE = 0.98  # of the wanted TPS: the simulator's own noise


@dataclass(frozen=True, slots=True)
class Tightening:
    """What the simulator's check added to the programme."""

    throughput: float = 1.0  # factor on the wanted TPS
    response: float = 1.0  # factor on the time a transaction may wait for I/O
    less_waiting: float = _LESS_WAITING  # by which it is lowered next
    headroom: float = 0.0
    is_wal_alone: bool = False
    wal_forbidden: frozenset[str] = frozenset()  # shapes


@dataclass(slots=True)
class Planner:
    """One planning run: everything that stays the same between its programmes.

    ``base`` is the present layout on the host that is planned for.
    """

    profile: Profile
    base: Layout
    goal: Goal
    catalog: PlanningCatalog
    predictor: Predictor
    workload: Workload
    shapes: tuple[Shape, ...]
    cap: HostCap
    demands: Demands
    allowed: Allowed
    checked: dict[Layout, Prediction] = field(default_factory=dict, init=False)

    def problem(self, tps: float, tight: Tightening) -> PlacementProblem | None:
        """The programme for a wanted TPS; None where the clients cannot reach it."""
        response_us = response_budget_us(self.workload, tps * tight.throughput)
        if response_us is None:
            return None
        limits = Limits(
            free_space=self.goal.free_space,
            headroom=min(0.9, self.goal.headroom + tight.headroom),
            response_us=response_us * tight.response,
            host=self.cap,
            max_volumes=self.goal.max_volumes,
            is_wal_alone=tight.is_wal_alone,
            max_move_bytes=self.goal.max_move_bytes,
        )
        load = Load(tps * tight.throughput, self.profile, self.workload, self.demands)
        allowed = replace(self.allowed, wal=self.allowed.wal - tight.wal_forbidden)
        return problem_at(load, self.shapes, allowed, limits, in_place_groups(self.shapes))

    def unlimited(self, tps: float) -> PlacementProblem:
        """The programme without what all volumes share, and with any number of them."""
        limits = Limits(
            free_space=self.goal.free_space,
            headroom=self.goal.headroom,
            response_us=None,
            host=HostCap(None, None),
            max_volumes=len(self.shapes),
        )
        load = Load(tps, self.profile, self.workload, self.demands)
        return problem_at(load, self.shapes, self.allowed, limits, ())

    def solve(self, tps: float, tight: Tightening) -> Solution | None:
        """The cheapest solution for a wanted TPS."""
        problem = self.problem(tps, tight)
        return None if problem is None else self.solved(problem)

    def solved(self, problem: PlacementProblem) -> Solution | None:
        """The cheapest solution of one problem."""
        placed = place_within(problem)
        return None if placed is None else solution_of(problem, placed, self.demands)

    def check(self, layout: Layout) -> Prediction:
        """What the simulator says of a layout; it is asked once for each."""
        if layout not in self.checked:
            found = self.predictor.predict(layout, clients=self.workload.clients)
            self.checked[layout] = found
        return self.checked[layout]


@dataclass(frozen=True, slots=True)
class Found:
    """A layout that passed the check."""

    layout: Layout
    prediction: Prediction
    solution: Solution
    problem: PlacementProblem
    bound_usd: float
    tps: float
    tight: Tightening


def highest(low: float, high: float, rounds: int, reaches: Callable[[float], bool]) -> float:
    """The highest speed between two that is reached, by bisection; ``low`` where none is."""
    for _ in range(rounds):
        middle = (low + high) / 2
        if reaches(middle):
            low = middle
        else:
            high = middle
    return low


def cheapest(planner: Planner, tps: float) -> Found | None:
    """The cheapest layout for a TPS that the simulator agrees to; None where no attempt did."""
    return _met(planner, tps, Tightening(), budget=None)


def _met(planner: Planner, tps: float, tight: Tightening, budget: float | None) -> Found | None:
    """Solve, check, tighten, until the simulator agrees; None where no attempt met the goal.

    With a budget what costs more is none, and the TPS is the programme's alone.
    """
    bound: float | None = None
    for _ in range(_ATTEMPTS):
        problem = planner.problem(tps, tight)
        solution = None if problem is None else planner.solved(problem)
        if solution is None or problem is None:
            return None
        bound = solution.bound_usd if bound is None else bound
        layout = layout_of(planner.base, solution)
        prediction = planner.check(layout)
        price = prediction.performance.usd_month
        if budget is not None and (price is None or price > budget + CENT):
            return None
        found = Found(layout, prediction, solution, problem, bound, tps, tight)
        tighter = _tighten(planner, found if budget is None else replace(found, tps=0.0))
        if tighter is None:
            return found
        tight = tighter
    return None


def _tighten(planner: Planner, found: Found) -> Tightening | None:
    """What to add so that the next solution meets what this one missed; None: nothing missed."""
    goal, tps, tight, solution = planner.goal, found.tps, found.tight, found.solution
    speed = found.prediction.performance
    if speed.tps < tps * TPS_TOLERANCE:
        if any(volume.utilisation >= _BUSY for volume in found.prediction.volumes):
            return replace(tight, throughput=tight.throughput * min(1.3, tps / speed.tps * 1.01))
        return _wait_less(found)
    commit = speed.commit_ms.p99
    if goal.commit_p99_ms is not None and commit is not None and commit > goal.commit_p99_ms:
        if not tight.is_wal_alone:
            return replace(tight, is_wal_alone=True)
        slow = next(s for s in planner.shapes if s.key == solution.single_shape[WAL])
        as_slow = {s.key for s in planner.shapes if s.write_us_p99 >= slow.write_us_p99}
        return replace(tight, wal_forbidden=tight.wal_forbidden | as_slow)
    read = speed.read_ms.p99 if speed.read_ms else None
    if goal.read_p99_ms is not None and read is not None and read > goal.read_p99_ms:
        return replace(tight, headroom=tight.headroom + 0.1)
    return None


def _wait_less(found: Found) -> Tightening:
    """Less waiting than this solution has, by little at first: the programme's own is no guide."""
    tight, allowed_ms = found.tight, found.problem.response_ms
    less = 1 - tight.less_waiting
    response = tight.response * less
    if allowed_ms is not None:
        waiting = waiting_ms(found.problem, found.solution.placed) / allowed_ms
        response = min(tight.response, tight.response * waiting) * less
    return replace(
        tight, response=response, less_waiting=min(_LEAST_WAITING, 2 * tight.less_waiting)
    )


def waiting_ms(problem: PlacementProblem, placed: Placed) -> float:
    """What one transaction waits in an answer, as the programme counts it."""
    own = problem.use_per_demand[placed.item_shape, WAIT]
    singles = np.arange(problem.singles.count)
    others = problem.singles.use[singles, placed.single_shape[: len(singles)], WAIT]
    return float((own * problem.items.demand).sum() + others.sum())


def fastest(planner: Planner, budget: float) -> Found | None:
    """The highest TPS whose cheapest layout is within the budget, by bisection; None: none is.

    The programme's TPS is a floor; the closed load may reach more, and reaches more where the WAL
    has a volume of its own, whose worth under bursts of data writes the programme does not see. Of
    the layouts whose simulated TPS is as good as the best one's, the cheapest is taken.
    """
    work = planner.workload

    def is_affordable(tps: float) -> bool:
        solution = planner.solve(tps, Tightening())
        return solution is not None and solution.usd_month <= budget

    # No headroom of the processors: nothing that is bought keeps them free.
    most = min(work.tps_of_cores, work.tps_of_clients)
    low = highest(0.0, most, _BISECTIONS, is_affordable)
    if low <= 0:
        return None
    steps = [low * (1 - _STEP * number) for number in range(_STEPS)]
    every = [found for tps in steps for found in _with_wal_apart(planner, tps, budget)]
    if not every:
        return None
    best = max(found.prediction.performance.tps for found in every)
    good = [f for f in every if f.prediction.performance.tps >= best * TPS_TOLERANCE]
    return min(good, key=lambda found: found.prediction.performance.usd_month or 0.0)


def _with_wal_apart(planner: Planner, tps: float, budget: float) -> list[Found]:
    """The cheapest layout for a TPS, and the cheapest with the WAL apart; the former's bound."""
    found = _met(planner, tps, Tightening(), budget)
    if found is None:
        return []
    if found.tight.is_wal_alone:
        return [found]
    apart = _met(planner, tps, Tightening(is_wal_alone=True), budget)
    return [found] if apart is None else [found, replace(apart, bound_usd=found.bound_usd)]
