"""Find the cheapest layout that meets a goal, or the fastest within a budget, and prove it.

The placement problem knows capacities, sizes, prices and mean waits; what it cannot know (queueing,
percentiles) the simulator checks afterwards. Where the check fails the problem is tightened and
solved again. The bound comes from the programme before any tightening, so the gap printed counts
all that tightening and rounding cost.
"""

import math
from dataclasses import dataclass, replace

from pgstow.model import (
    Goal,
    HostCap,
    InfeasibleError,
    Layout,
    Plan,
    Prediction,
    Profile,
    UserError,
    Warning,
)
from pgstow.planning.build import layout_of
from pgstow.planning.candidates import PlanningCatalog, candidates, in_place_groups
from pgstow.planning.needs import WAL, response_budget_us
from pgstow.planning.placement import PlacementProblem, place
from pgstow.planning.problem import (
    Allowed,
    Demands,
    Limits,
    Load,
    Solution,
    demands_of,
    problem_at,
    solution_of,
)
from pgstow.planning.reasons import reasons
from pgstow.planning.shapes import Shape
from pgstow.prediction import Predictor, Workload, workload_of

_ATTEMPTS = 10
_BISECTIONS = 12  # to 0.03 % of the range
_STEPS, _STEP = 8, 0.05
_BUSY = 0.9  # a volume used this much is what holds the clients up, not its latency
_LESS_WAITING = 0.75
_TPS_TOLERANCE = 0.98  # of the wanted TPS: the simulator's own noise


@dataclass(frozen=True, slots=True)
class Tightening:
    """What the simulator's check added to the programme."""

    throughput: float = 1.0  # factor on the wanted TPS
    response: float = 1.0  # factor on the time a transaction may wait for I/O
    headroom: float = 0.0
    is_wal_alone: bool = False
    wal_forbidden: frozenset[str] = frozenset()  # shapes


@dataclass(slots=True)
class _Planner:
    """One planning run: everything that stays the same between its programmes."""

    profile: Profile
    goal: Goal
    catalog: PlanningCatalog
    predictor: Predictor
    workload: Workload
    shapes: tuple[Shape, ...]
    cap: HostCap
    demands: Demands
    allowed: Allowed

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
        )
        load = Load(tps * tight.throughput, self.profile, self.workload, self.demands)
        allowed = replace(self.allowed, wal=self.allowed.wal - tight.wal_forbidden)
        return problem_at(load, self.shapes, allowed, limits, in_place_groups(self.shapes))

    def solve(self, tps: float, tight: Tightening) -> Solution | None:
        """The cheapest solution for a wanted TPS."""
        problem = self.problem(tps, tight)
        return None if problem is None else self.solved(problem)

    def solved(self, problem: PlacementProblem) -> Solution | None:
        """The cheapest solution of one problem."""
        placed = place(problem)
        return None if placed is None else solution_of(problem, placed, self.demands)

    def check(self, layout: Layout) -> Prediction:
        """What the simulator says of a layout."""
        return self.predictor.predict(layout, clients=self.workload.clients)


def plan(profile: Profile, goal: Goal, catalog: PlanningCatalog) -> Plan:
    """The cheapest layout that meets ``goal``; with a budget, the fastest within it.

    Raises InfeasibleError naming what stands in the way, UserError where the platform sells no
    volumes.
    """
    if profile.layout.host.platform == "local":
        raise UserError(
            "the present layout says platform local, whose volumes have no prices",
            "observe with --layout FILE that says the platform, region, instance and volumes",
        )
    seen = workload_of(profile)
    predictor = Predictor(profile, catalog)
    present = predictor.predict(profile.layout)
    workload = replace(seen, clients=_clients(seen, goal, present))
    shapes = candidates(profile.layout, goal, catalog)
    planner = _Planner(
        profile,
        goal,
        catalog,
        predictor,
        workload,
        shapes,
        catalog.host_cap(profile.layout.host),
        demands_of(profile, workload),
        _allowed(profile, goal, shapes),
    )
    if goal.budget_usd_month is None:
        tps = goal.tps or min(workload.transactions_per_second, present.performance.tps)
        found = _cheapest(planner, tps)
    else:
        found = _fastest(planner, goal.budget_usd_month)
    price = found.prediction.performance.usd_month or 0.0
    bound = min(found.bound_usd, price)
    return Plan(
        goal=goal,
        layout=found.layout,
        prediction=found.prediction,
        present=present,
        gap_pct=(price - bound) / bound * 100 if bound > 0 else 0.0,
        bound_usd_month=bound,
        reasons=reasons(found.solution, found.problem, planner.demands),
        warnings=(*catalog.check(found.layout), *_warnings(goal, found, seen, workload)),
    )


def _allowed(profile: Profile, goal: Goal, shapes: tuple[Shape, ...]) -> Allowed:
    """Which shapes may hold what."""
    data = profile.layout.postgres.data
    # No data directory moves to hard disks: it has what every transaction touches
    keeping = frozenset(
        s.key
        for s in shapes
        if s.existing and s.existing.name == data and (not s.is_hdd or s.type == s.existing.type)
    )
    durable = frozenset(s.key for s in shapes if not s.is_ephemeral)
    quick = durable
    if goal.read_p99_ms is not None:
        quick = frozenset(
            s.key for s in shapes if s.key in durable and s.read_us_p99 <= goal.read_p99_ms * 1000
        )
    # AWS advises against st1 and sc1 for small synchronous writes; a commit is one
    wal = frozenset(s.key for s in shapes if s.key in durable and not s.is_hdd)
    if goal.commit_p99_ms is not None:
        wal = frozenset(
            s.key for s in shapes if s.key in wal and s.write_us_p99 <= goal.commit_p99_ms * 1e3
        )
    return Allowed(
        rest=keeping,
        wal=wal,
        temp=frozenset(s.key for s in shapes),
        read=quick,
        unread=durable,
        relations={},
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A layout that passed the check."""

    layout: Layout
    prediction: Prediction
    solution: Solution
    problem: PlacementProblem
    bound_usd: float
    tps: float
    tight: Tightening


def _cheapest(planner: _Planner, tps: float) -> _Found:
    """Solve, check, tighten, until the simulator agrees."""
    tight = Tightening()
    bound: float | None = None
    for _ in range(_ATTEMPTS):
        problem = planner.problem(tps, tight)
        solution = None if problem is None else planner.solved(problem)
        if solution is None or problem is None:
            break
        bound = solution.bound_usd if bound is None else bound
        layout = layout_of(planner.profile.layout, solution)
        prediction = planner.check(layout)
        tighter = _tighten(planner, tps, tight, solution, prediction)
        if tighter is None:
            return _Found(layout, prediction, solution, problem, bound, tps, tight)
        tight = tighter
    raise InfeasibleError(
        f"no layout meets the goal of {tps:,.0f} TPS{_wishes(planner.goal)}",
        _conflict(planner, tps, tight),
    )


def _tighten(
    planner: _Planner, tps: float, tight: Tightening, solution: Solution, seen: Prediction
) -> Tightening | None:
    """What to add so that the next solution meets what this one missed; None: nothing missed."""
    goal, speed = planner.goal, seen.performance
    if speed.tps < tps * _TPS_TOLERANCE:
        if any(volume.utilisation >= _BUSY for volume in seen.volumes):
            return replace(tight, throughput=tight.throughput * min(1.3, tps / speed.tps * 1.01))
        return replace(tight, response=tight.response * _LESS_WAITING)
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


def _fastest(planner: _Planner, budget: float) -> _Found:
    """The highest TPS whose cheapest layout is within the budget, by bisection.

    The programme's TPS is a floor; the closed load may reach more. Of the layouts whose simulated
    TPS is as good as the best one's, the cheapest is taken.
    """
    work = planner.workload
    low = 0.0
    high = work.cores / max(1e-9, work.cpu_us / 1e6) * (1 - planner.goal.headroom)
    high = min(high, work.clients / max(1e-6, (work.cpu_us + work.think_us) / 1e6))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        solution = planner.solve(middle, Tightening())
        if solution is not None and solution.usd_month <= budget:
            low = middle
        else:
            high = middle
    if low <= 0:
        raise _over_budget(planner.goal, budget)
    steps = [low * (1 - _STEP * number) for number in range(_STEPS)]
    every = [found for tps in steps if (found := _within(planner, tps, budget)) is not None]
    if not every:
        raise _over_budget(planner.goal, budget)
    best = max(found.prediction.performance.tps for found in every)
    good = [f for f in every if f.prediction.performance.tps >= best * _TPS_TOLERANCE]
    return min(good, key=lambda found: found.prediction.performance.usd_month or 0.0)


def _over_budget(goal: Goal, budget: float) -> InfeasibleError:
    return InfeasibleError(
        f"no layout{_wishes(goal)} costs as little as ${budget:,.2f} per month",
        "raise --budget, or allow cheaper types; what the server holds now cannot shrink",
    )


def _within(planner: _Planner, tps: float, budget: float) -> _Found | None:
    """The cheapest layout for a TPS if it keeps to the budget and the latencies wished."""
    tight = Tightening()
    bound: float | None = None
    for _ in range(_ATTEMPTS):
        problem = planner.problem(tps, tight)
        solution = None if problem is None else planner.solved(problem)
        if solution is None or problem is None:
            return None
        bound = solution.bound_usd if bound is None else bound
        layout = layout_of(planner.profile.layout, solution)
        prediction = planner.check(layout)
        price = prediction.performance.usd_month
        if price is None or price > budget + 0.005:
            return None
        tighter = _tighten(planner, 0.0, tight, solution, prediction)
        if tighter is None:
            return _Found(layout, prediction, solution, problem, bound, tps, tight)
        tight = tighter
    return None


def _wishes(goal: Goal) -> str:
    parts = []
    if goal.commit_p99_ms is not None:
        parts.append(f"commit p99 {goal.commit_p99_ms:g} ms")
    if goal.read_p99_ms is not None:
        parts.append(f"read p99 {goal.read_p99_ms:g} ms")
    return f" with {' and '.join(parts)}" if parts else ""


def _conflict(planner: _Planner, tps: float, tight: Tightening) -> str:
    """Name the limits whose removal alone would make the goal reachable."""
    problem = planner.problem(tps, tight)
    if problem is None:
        work = planner.workload
        return (
            f"{work.clients} clients that use {work.cpu_us:,.0f} µs of {work.cores} cores per "
            "transaction cannot reach it on any disk; lower --tps"
        )
    calm = planner.problem(tps, Tightening(throughput=tight.throughput))
    relaxed = {
        "the instance's storage cap": replace(problem, host_kiops=None, host_mibps=None),
        "--max-volumes": replace(problem, max_volumes=len(problem.shapes)),
        "--headroom": replace(problem, headroom=0.0),
        "the latency of the allowed types": None
        if calm is None
        else replace(calm, response_ms=None),
    }
    names = [name for name, one in relaxed.items() if one is not None and place(one) is not None]
    if not names:
        return "several limits conflict; allow more types or ask for less"
    return f"what stands in the way: {', '.join(names)}"


def _clients(seen: Workload, goal: Goal, present: Prediction) -> int:
    """How many clients ask for the wanted TPS.

    Clients that mostly wait for answers ask more often where answers come sooner. Those that mostly
    think do not: there more transactions are more clients, N = X (Z + R), with R as on the present
    volumes and half as much again, so that the answer's time is not what the plan turns on.
    """
    observed = seen.transactions_per_second
    thinking = observed * seen.think_us / 1e6
    if goal.tps is None or thinking <= seen.clients / 2:
        return seen.clients
    predicted_s = (present.performance.latency_ms.mean or 0.0) / 1e3
    response_s = max((seen.clients - thinking) / observed, predicted_s)
    return max(seen.clients, math.ceil(goal.tps * (seen.think_us / 1e6 + 1.5 * response_s)))


def _warnings(goal: Goal, found: _Found, seen: Workload, workload: Workload) -> tuple[Warning, ...]:
    warnings = []
    commit = found.prediction.performance.commit_ms.p99
    if goal.commit_p99_ms is not None and commit is None:
        warnings.append(
            Warning("no-commits", "the profile saw no commits, so none could be predicted")
        )
    if workload.clients > seen.clients:
        warnings.append(
            Warning(
                "more-clients",
                f"the plan's load is {workload.clients} clients: the {seen.clients} that were seen "
                f"think for {seen.think_us / 1000:,.1f} ms between transactions, and cannot ask "
                "for more",
            )
        )
    return tuple(warnings)
