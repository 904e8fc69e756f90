"""The search: solve, check by simulation, tighten; the cheapest, or the fastest for a price.

The placement problem knows capacities, sizes, prices and mean waits; what it cannot know (queueing,
percentiles) the simulator checks afterwards. Where the check fails the problem is tightened and
solved again. The bound comes from the model before any tightening, so the gap printed counts
all that tightening and rounding cost. That a tightened problem has no solution proves nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from pgstow.catalog.catalog import Catalog
from pgstow.model import Goal, HostCap, Layout, Prediction, Profile
from pgstow.planning.build import layout_of
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.candidates import in_place_groups
from pgstow.planning.headroom import bottleneck_at
from pgstow.planning.needs import WAL, response_budget_us
from pgstow.planning.placement import WAIT, NoSolution, PlacementProblem, PlacementSolution
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
from pgstow.prediction import Period, Predictor, Workload

_ATTEMPTS = 12
_BISECTIONS = 7  # to 0.8 % of the range: the steps below it are 5 %
_STEPS, _STEP = 8, 0.05
_PATIENCE = 2  # steps that find nothing better, after which no more are tried
_BUSY = 0.9  # a volume used this much is what holds the clients up, not its latency
_LESS_WAITING, _LEAST_WAITING = 0.02, 0.25  # how much less each time: twice as much, to a quarter
_REFINED = 3  # how often less tightening is tried
_NEAR_FACTOR = 1.002  # a price within it of its bound is near enough
_QUICK_CHECK = 10_000  # transactions: they tell the speed, and how much of limits is used, to 1 %
_HEADROOM_TOLERANCE = 0.02  # of a limit, that a simulation may use more than is to be used
CENT = 0.005  # dollars that a price may be over a budget: it is rounded
TPS_TOLERANCE = 0.98  # of the target TPS: the simulator's own noise

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tightening:
    """What the simulator's check added to the model."""

    throughput: float = 1.0  # factor on the target TPS
    response: float = 1.0  # factor on the time a transaction may wait for I/O
    less_waiting: float = _LESS_WAITING  # by which it is lowered next
    headroom: float = 0.0
    is_wal_exclusive: bool = False
    wal_forbidden: frozenset[str] = frozenset()  # candidates


@dataclass(frozen=True, slots=True)
class Answer:
    """The solution of one model, before it is simulated."""

    problem: PlacementProblem
    solution: Solution
    layout: Layout


@dataclass(slots=True)
class Planner:
    """One planning run: everything that its models share.

    ``base`` is the present layout on the host that is planned for, ``io_units`` the bytes that
    count as one operation by volume type, ``beside_usd`` what is paid a month beside the volumes
    that are planned (backups'). ``place`` solves one model. Where ``allows_quick_check``, what
    a short simulation leaves no doubt of is not simulated for longer.
    """

    profile: Profile
    base: Layout
    goal: Goal
    catalog: Catalog
    predictor: Predictor
    workload: Workload
    candidates: tuple[CandidateVolume, ...]
    cap: HostCap
    demands: Demands
    allowed: Allowed
    io_units: Mapping[str, int] = field(default_factory=dict)
    beside_usd: float = 0.0
    place: Callable[..., PlacementSolution | NoSolution] = place_within
    allows_quick_check: bool = False
    checked: dict[Layout, Prediction] = field(default_factory=dict, init=False)
    answers: dict[tuple[float, Tightening], Answer | NoSolution] = field(
        default_factory=dict, init=False
    )
    quick_checks: dict[tuple[Layout, float], Future[Prediction]] = field(
        default_factory=dict, init=False
    )

    def problem(self, tps: float, tight: Tightening) -> PlacementProblem | None:
        """The model for a target TPS; None where the clients cannot reach it."""
        target_tps = tps * tight.throughput
        response_us = response_budget_us(self.workload, target_tps * TPS_TOLERANCE)
        if response_us is None:
            return None
        limits = Limits(
            free_space=self.goal.free_space,
            headroom=min(0.9, self.goal.headroom + tight.headroom),
            response_us=response_us * tight.response,
            host=self.cap,
            max_volumes=self.goal.max_volumes,
            is_wal_exclusive=tight.is_wal_exclusive,
            max_move_bytes=self.goal.max_move_bytes,
        )
        allowed = replace(self.allowed, wal=self.allowed.wal - tight.wal_forbidden)
        groups = in_place_groups(self.candidates)
        return problem_at(self._load(target_tps), self.candidates, allowed, limits, groups)

    def unlimited(self, tps: float) -> PlacementProblem:
        """The model without the limits that all volumes share, and with any number of volumes."""
        limits = Limits(
            free_space=self.goal.free_space,
            headroom=self.goal.headroom,
            response_us=None,
            host=HostCap(None, None),
            max_volumes=len(self.candidates),
        )
        return problem_at(self._load(tps), self.candidates, self.allowed, limits, ())

    def _load(self, tps: float) -> Load:
        return Load(
            tps,
            self.profile,
            self.workload,
            self.demands,
            self.predictor.overhead.handover_us,
            self.io_units,
        )

    def priced(self, tps: float) -> PlacementSolution | NoSolution:
        """What the cheapest solution for a target TPS costs; ties are not broken."""
        problem = self.problem(tps, Tightening())
        return NoSolution.INFEASIBLE if problem is None else self.place(problem, breaks_ties=False)

    def affords(self, tps: float, budget: float) -> PlacementSolution | NoSolution:
        """Any solution for a target TPS within the budget."""
        problem = self.problem(tps, Tightening())
        if problem is None:
            return NoSolution.INFEASIBLE
        placed = self.place(problem, breaks_ties=False, within_usd=budget)
        if isinstance(placed, PlacementSolution) and placed.usd_month > budget:
            return NoSolution.INFEASIBLE if placed.bound_usd > budget else NoSolution.NOT_FOUND
        return placed

    def reaches(self, tps: float) -> bool:
        """Whether the model has a solution for a TPS, whatever it costs; not simulated."""
        return not isinstance(self.affords(tps, math.inf), NoSolution)

    def answer(self, tps: float, tight: Tightening) -> Answer | NoSolution:
        """The model's cheapest layout for a target TPS; each is solved once."""
        if (tps, tight) not in self.answers:
            self.answers[tps, tight] = self._answer(tps, tight)
        return self.answers[tps, tight]

    def _answer(self, tps: float, tight: Tightening) -> Answer | NoSolution:
        problem = self.problem(tps, tight)
        if problem is None:
            return NoSolution.INFEASIBLE
        solution = self.solved(problem)
        if isinstance(solution, NoSolution):
            return solution
        return Answer(problem, solution, layout_of(self.base, solution))

    def solved(self, problem: PlacementProblem) -> Solution | NoSolution:
        """The cheapest solution of one problem."""
        placed = self.place(problem)
        if isinstance(placed, NoSolution):
            return placed
        return solution_of(problem, placed, self.demands)

    @property
    def most_tps(self) -> float:
        """The most TPS of any layout of these candidates: asymptotic bounds with least waits."""
        work = self.workload
        problem = self.unlimited(work.transactions_per_second)
        waits = problem.use_per_demand[:, WAIT]
        may = problem.item_classes.allowed[problem.items.item_class]
        own = np.where(may, problem.items.demand @ waits.T, np.inf).min(axis=1, initial=np.inf)
        others = np.where(
            problem.special_items.allowed, problem.special_items.use[:, :, WAIT], np.inf
        )
        least_ms = float(own.sum() + others.min(axis=1, initial=np.inf).sum())
        # a simulation may show it so much too fast
        least_s = (work.think_us + work.cpu_us) / 1e6 + least_ms / 1e3
        return min(work.tps_of_cores, work.clients / max(least_s, 1e-9)) / TPS_TOLERANCE

    def check(self, layout: Layout) -> Prediction:
        """What the simulator says of a layout; each is simulated once."""
        found = self.checked.get(layout)
        if found is None:
            found = self.predictor.predict(layout, clients=self.workload.clients)
            self.checked[layout] = found
        return found

    def quick_check(self, layout: Layout, tps: float) -> Prediction:
        """What a short simulation says of a layout; with burst credits, a full one."""
        begun = self.quick_checks.get((layout, tps))
        return self._quick_check(layout, tps) if begun is None else begun.result()

    def begin(self, tps: float, pool: Executor) -> None:
        """Solve the first model for a target TPS, and have ``pool`` simulate its layout."""
        found = self.answer(tps, Tightening())
        if isinstance(found, Answer):
            self.quick_checks[found.layout, tps] = pool.submit(self._quick_check, found.layout, tps)

    def _quick_check(self, layout: Layout, tps: float) -> Prediction:
        host, device = layout.host, self.catalog.device
        bursts = [device(volume, host).member.burst for volume in layout.volumes]
        if host.burst_credits is not None or any(bursts):
            return self.check(layout)
        length_s = _QUICK_CHECK / tps
        period = Period(length_s / 5, length_s)
        return self.predictor.predict(layout, clients=self.workload.clients, period=period)


@dataclass(frozen=True, slots=True)
class Found:
    """A layout that passed the check. ``bound_usd`` is of all layouts of the goal's model."""

    layout: Layout
    prediction: Prediction
    solution: Solution
    problem: PlacementProblem
    bound_usd: float
    tps: float
    tight: Tightening

    @property
    def usd_month(self) -> float:
        """What it costs."""
        return self.prediction.performance.usd_month or 0.0

    @property
    def is_near(self) -> bool:
        """Whether its price is so near the bound that nothing can be much cheaper."""
        return self.usd_month <= self.bound_usd * _NEAR_FACTOR + CENT


def highest(low: float, high: float, rounds: int, reaches: Callable[[float], bool]) -> float:
    """The highest speed between two that is reached, by bisection; ``low`` where none is."""
    for _ in range(rounds):
        middle = (low + high) / 2
        if reaches(middle):
            low = middle
        else:
            high = middle
    return low


def cheapest(planner: Planner, tps: float) -> Found | NoSolution:
    """The cheapest layout for a TPS that the simulator agrees to, or why there is none.

    Where the simulator made the model tighter, the goal is also tried with nothing moved: with the
    same tightening, less freedom may happen to be cheaper.
    """
    found = _met(planner, tps, Tightening(), budget=None)
    limit = planner.goal.max_move_bytes
    if limit == 0 or found is NoSolution.INFEASIBLE:
        return found
    if isinstance(found, Found) and (found.is_near or found.tight == Tightening()):
        return found
    staying = replace(planner, goal=replace(planner.goal, max_move_bytes=0))
    other = _met(staying, tps, Tightening(), budget=None)
    if isinstance(other, NoSolution):
        return found
    if isinstance(found, NoSolution):
        first = planner.priced(tps)
        bound = 0.0 if isinstance(first, NoSolution) else first.bound_usd  # 0: nothing is proved
        return replace(other, bound_usd=bound)
    return replace(other, bound_usd=found.bound_usd) if other.usd_month < found.usd_month else found


def _met(
    planner: Planner, tps: float, tight: Tightening, budget: float | None
) -> Found | NoSolution:
    """Solve, check, tighten, until the simulator agrees; else why no attempt met the goal.

    With a budget, what costs more is no solution, and the TPS is only the model's.
    """
    bound: float | None = None
    spare: Found | None = None  # meets all but the headroom
    failed: Tightening | None = None
    for _ in range(_ATTEMPTS):
        found = _attempt(planner, tps, tight, bound)
        if isinstance(found, NoSolution):
            return spare or (found if bound is None else NoSolution.NOT_FOUND)
        bound = found.bound_usd
        if budget is not None and found.usd_month > budget + CENT:
            return NoSolution.INFEASIBLE if bound > budget + CENT else NoSolution.NOT_FOUND
        tighter = _tighten(planner, found if budget is None else replace(found, tps=0.0))
        if tighter is None:
            fuller = None if budget is not None else _more_headroom(planner, found)
            if fuller is None:
                return found if failed is None else _refined(planner, found, failed)
            spare, tighter = spare or found, fuller
        failed, tight = tight, tighter
    return spare or NoSolution.NOT_FOUND


def _attempt(
    planner: Planner, tps: float, tight: Tightening, bound: float | None
) -> Found | NoSolution:
    """The layout of one model, with its simulation; ``bound`` is that of the first one."""
    answer = planner.answer(tps, tight)
    if isinstance(answer, NoSolution):
        return answer
    problem, solution, layout = answer.problem, answer.solution, answer.layout
    first = solution.bound_usd if bound is None else bound
    if planner.allows_quick_check:
        checked = planner.quick_check(layout, tps)
        found = Found(layout, checked, solution, problem, first, tps, tight)
        if _is_clear(planner, found):
            return found
    return Found(layout, planner.check(layout), solution, problem, first, tps, tight)


def _is_clear(planner: Planner, found: Found) -> bool:
    """Whether a short simulation shows that the goal is met, beyond what its length may be off."""
    goal = planner.goal
    if goal.commit_p99_ms is not None or goal.read_p99_ms is not None:
        return False
    over = bottleneck_at(found.prediction, found.tps).used - (1 - goal.headroom)
    return found.prediction.performance.tps >= found.tps and over <= _HEADROOM_TOLERANCE / 2


def _refined(planner: Planner, found: Found, failed: Tightening) -> Found:
    """Less tightening, where there is something to gain: between what passed and what did not."""
    low, high = found.tight, failed
    if replace(low, response=high.response, less_waiting=high.less_waiting) != high:
        return found  # it was not the waiting
    for _ in range(_REFINED):
        if found.is_near:
            break
        middle = replace(low, response=(low.response + high.response) / 2)
        other = _attempt(planner, found.tps, middle, found.bound_usd)
        if isinstance(other, NoSolution) or _tighten(planner, other) is not None:
            high = middle
            continue
        low = middle
        if other.usd_month < found.usd_month and _more_headroom(planner, other) is None:
            found = other
    return found


def _tighten(planner: Planner, found: Found) -> Tightening | None:
    """What to add so that the next solution meets what this one missed; None: nothing missed."""
    goal, tps, tight, solution = planner.goal, found.tps, found.tight, found.solution
    speed = found.prediction.performance
    if speed.tps < tps * TPS_TOLERANCE:
        if any(volume.utilisation >= _BUSY for volume in found.prediction.volumes):
            return replace(tight, throughput=tight.throughput * min(1.3, tps / speed.tps * 1.01))
        return _wait_less(planner, found)
    commit = speed.commit_ms.p99
    if goal.commit_p99_ms is not None and commit is not None and commit > goal.commit_p99_ms:
        if not tight.is_wal_exclusive:
            return replace(tight, is_wal_exclusive=True)
        slow = next(s for s in planner.candidates if s.key == solution.special_candidate[WAL])
        as_slow = {s.key for s in planner.candidates if s.write_us_p99 >= slow.write_us_p99}
        return replace(tight, wal_forbidden=tight.wal_forbidden | as_slow)
    read = speed.read_ms.p99 if speed.read_ms else None
    if goal.read_p99_ms is not None and read is not None and read > goal.read_p99_ms:
        return replace(tight, headroom=tight.headroom + 0.1)
    return None


def _more_headroom(planner: Planner, found: Found) -> Tightening | None:
    """What to add where a limit is fuller at the target TPS than the goal says; None: none is."""
    tight = found.tight
    over = bottleneck_at(found.prediction, found.tps).used - (1 - planner.goal.headroom)
    if over <= _HEADROOM_TOLERANCE or tight.headroom + over > 0.9:
        return None
    return replace(tight, headroom=tight.headroom + over)


def _wait_less(planner: Planner, found: Found) -> Tightening:
    """Less waiting than this solution has: by what queues took in its simulation, step by step."""
    tight, allowed_ms, work = found.tight, found.problem.response_ms, planner.workload
    less = 1 - tight.less_waiting
    response = tight.response * less
    if allowed_ms:
        waiting = waiting_ms(found.problem, found.solution.placed)
        now = tight.response * min(1.0, waiting / allowed_ms)
        speed = found.prediction.performance.tps
        seen_ms = work.clients / speed * 1e3 - work.think_us / 1e3
        queued_ms = seen_ms - waiting - work.cpu_us / 1e3
        left = 1 - queued_ms * tight.response / allowed_ms
        response = max(now * (1 - _LEAST_WAITING), min(now * less, left))
    return replace(
        tight, response=response, less_waiting=min(_LEAST_WAITING, 2 * tight.less_waiting)
    )


def waiting_ms(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """What one transaction waits in a solution, as the model counts it."""
    own = problem.use_per_demand[placed.item_candidate, WAIT]
    each = np.arange(problem.special_items.count)
    others = problem.special_items.use[each, placed.special_candidate[: len(each)], WAIT]
    return float((own * problem.items.demand).sum() + others.sum())


def fastest(planner: Planner, budget: float) -> Found | NoSolution:
    """The highest TPS whose cheapest layout is within the budget, by bisection, or why none is.

    The model's TPS is a floor; the closed load may reach more, and reaches more where the WAL has
    a volume of its own, whose worth under bursts of data writes the model does not see. Of the
    layouts whose simulated TPS is as good as the best one's, the cheapest is taken.
    """
    least: NoSolution = NoSolution.NOT_FOUND  # of the slowest that was tried

    def is_affordable(tps: float) -> bool:
        nonlocal least
        found = planner.affords(tps, budget)
        if isinstance(found, NoSolution):
            least = found
        return not isinstance(found, NoSolution)

    # No headroom of the processors: nothing that is bought keeps them free.
    most = planner.workload.most_tps()
    low = highest(0.0, most, _BISECTIONS, is_affordable)
    if low <= 0:
        return least
    every: list[Found] = []
    best: Found | None = None
    in_vain = 0  # slower models since the best one
    for number in range(_STEPS):
        every += _with_wal_apart(planner, low * (1 - _STEP * number), budget)
        good = fastest_of(every, lambda found: found.prediction)
        before, best = best, min(good, key=lambda found: found.usd_month, default=None)
        in_vain = 0 if best is not before else in_vain + (best is not None)
        if in_vain == _PATIENCE:
            break
    return best or NoSolution.NOT_FOUND


def fastest_of(every: Sequence[T], prediction: Callable[[T], Prediction]) -> list[T]:
    """Those that are as fast as the fastest, but for the simulator's noise."""
    most = max((prediction(one).performance.tps for one in every), default=0.0)
    return [one for one in every if prediction(one).performance.tps >= most * TPS_TOLERANCE]


def _with_wal_apart(planner: Planner, tps: float, budget: float) -> list[Found]:
    """The cheapest layout for a TPS, and the cheapest with the WAL apart."""
    found = _met(planner, tps, Tightening(), budget)
    if isinstance(found, NoSolution):
        return []
    is_exclusive = found.tight == Tightening() and found.solution.is_wal_exclusive
    if found.tight.is_wal_exclusive or is_exclusive:
        return [found]
    apart = _met(planner, tps, Tightening(is_wal_exclusive=True), budget)
    return [found] if isinstance(apart, NoSolution) else [found, apart]
