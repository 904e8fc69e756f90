"""A goal that nothing was found for: what stands in the way, and the nearest that can be met.

Every goal that is named is the user's with one target changed, and has been planned for as if the
user had asked for it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from pgstow.model import Goal, HostCap, InfeasibleError, NotFoundError
from pgstow.planning.placement import NoSolution, moved_gib
from pgstow.planning.search import Found, Planner, Tightening, cheapest, highest
from pgstow.units import GIB, MIB

_BISECTIONS = 10
_SHARES = (1.0, 0.97, 0.93, 0.85, 0.7, 0.5)  # of the model's throughput, tried by simulation
_STEP, _STEPS = 1.25, 8  # by which a latency is raised, and how often
_HOST = "the instance's storage cap"
_LATENCY = "the latency of the allowed types"

PlannerFor = Callable[[Goal], Planner | None]  # a planner for another goal of the user's
GoalError = InfeasibleError | NotFoundError


def unmet(
    planner: Planner, tps: float, why: NoSolution, goal: Goal, with_goal: PlannerFor
) -> GoalError:
    """The error for a goal that nothing was found for."""
    near = " or ".join(_nearest(planner, tps, goal, with_goal))
    conflict = _conflict(planner, tps, goal, with_goal)
    where = f" on {goal.instance}" if goal.instance is not None else ""
    what = f"the goal of {tps:,.0f} TPS{latency_targets(goal)}{where}"
    remedy = f"{conflict}; the nearest that can be met: {near}" if near else conflict
    if why is NoSolution.INFEASIBLE:
        return InfeasibleError(f"no layout meets {what}", remedy)
    return NotFoundError(f"no layout was found in time for {what}, and none is not proved", remedy)


def over_budget(why: NoSolution, goal: Goal, with_goal: PlannerFor) -> GoalError:
    """The error where nothing is within the budget; it says what the least would cost."""
    free = with_goal(replace(goal, budget_usd_month=None, tps=None))
    least = NoSolution.NOT_FOUND if free is None else _cheapest_at_all(free)
    nearest = ""
    if isinstance(least, Found):
        price = _price(least, free).removeprefix(" for")
        nearest = f"; half of the observed load can be had for{price}"
    budget = f"${goal.budget_usd_month or 0.0:,.2f} per month"
    remedy = (
        "raise --budget, or allow cheaper types; what the server holds now cannot shrink" + nearest
    )
    if why is NoSolution.INFEASIBLE:
        return InfeasibleError(
            f"no layout{latency_targets(goal)} costs as little as {budget}", remedy
        )
    return NotFoundError(
        f"no layout{latency_targets(goal)} was found in time for {budget}, and none is not proved",
        remedy,
    )


def too_slow(found: Found, goal: Goal, with_goal: PlannerFor) -> GoalError:
    """The error where the fastest layout within the budget is slower than the target."""
    tps, budget = goal.tps or 0.0, goal.budget_usd_month or 0.0
    free = with_goal(replace(goal, budget_usd_month=None))
    at_any_price = NoSolution.NOT_FOUND if free is None else cheapest(free, tps)
    fastest = found.prediction.performance.tps
    parts = [f"the fastest within it: {fastest:,.0f} TPS{_price(found, free)}"]
    if isinstance(at_any_price, Found):
        parts.append(
            f"the cheapest of {tps:,.0f} TPS:{_price(at_any_price, free).removeprefix(' for')}"
        )
    what, remedy = f"{tps:,.0f} TPS{latency_targets(goal)}", "; ".join(parts)
    is_proved = at_any_price is NoSolution.INFEASIBLE or (
        isinstance(at_any_price, Found) and at_any_price.bound_usd + _beside_usd(free) > budget
    )
    if is_proved:
        return InfeasibleError(
            f"no layout of {what} costs as little as ${budget:,.2f} per month", remedy
        )
    return NotFoundError(
        f"no layout of {what} was found for ${budget:,.2f} per month, and none is not proved",
        remedy,
    )


def latency_targets(goal: Goal) -> str:
    """The latencies of a goal, in words."""
    parts = []
    if goal.commit_p99_ms is not None:
        parts.append(f"commit p99 {goal.commit_p99_ms:g} ms")
    if goal.read_p99_ms is not None:
        parts.append(f"read p99 {goal.read_p99_ms:g} ms")
    return f" with {' and '.join(parts)}" if parts else ""


def _conflict(planner: Planner, tps: float, goal: Goal, with_goal: PlannerFor) -> str:
    """Name the limits of which dropping one would make the goal reachable."""
    if planner.problem(tps, Tightening()) is None:
        work = planner.workload
        return (
            f"{work.clients} clients that use {work.cpu_us:,.0f} µs of {work.cores} cores per "
            "transaction cannot reach it on any disk; lower --tps"
        )
    names = [
        name
        for name, relaxed, is_checked in _relaxations(planner, goal, with_goal)
        if relaxed is not None and _is_met(relaxed, tps, is_checked=is_checked)
    ]
    names = list(dict.fromkeys(names))
    if not names:
        return "several limits conflict; allow more types or ask for less"
    return f"what stands in the way: {', '.join(names)}"


def _relaxations(
    planner: Planner, goal: Goal, with_goal: PlannerFor
) -> Iterator[tuple[str, Planner | None, bool]]:
    """Planners without one limit each, and whether the simulator must agree."""
    if planner.cap.iops is not None or planner.cap.bytes_per_second is not None:
        larger = replace(planner.base, host=replace(planner.base.host, instance=None))
        yield _HOST, replace(planner, base=larger, cap=HostCap(None, None)), True
    yield "--max-volumes", with_goal(replace(goal, max_volumes=len(planner.candidates))), True
    if goal.headroom > 0:
        yield "--headroom", with_goal(replace(goal, headroom=0.0)), True
    if goal.pins:
        yield "--pin", with_goal(replace(goal, pins=())), True
    if goal.max_move_bytes is not None:
        yield "--max-move", with_goal(replace(goal, max_move_bytes=None)), True
    if goal.allow_types or goal.forbid_types:
        every = with_goal(replace(goal, allow_types=(), forbid_types=()))
        yield "--allow and --forbid", every, True
    if goal.max_failure_rate is not None:
        yield "--max-failure-rate", with_goal(replace(goal, max_failure_rate=None)), True
    if goal.commit_p99_ms is not None or goal.read_p99_ms is not None:
        slow = with_goal(replace(goal, commit_p99_ms=None, read_p99_ms=None))
        yield _LATENCY, slow, True
    yield _LATENCY, with_goal(replace(goal, commit_p99_ms=None, read_p99_ms=None)), False


def _is_met(planner: Planner, tps: float, *, is_checked: bool) -> bool:
    """Whether the goal is met; unchecked, whether capacity suffices, whatever the waiting."""
    if is_checked:
        return isinstance(cheapest(planner, tps), Found)
    problem = planner.problem(tps, Tightening())
    if problem is None:
        return False
    endless = replace(problem, response_ms=None)
    return not isinstance(
        planner.place(endless, breaks_ties=False, within_usd=math.inf), NoSolution
    )


def _nearest(planner: Planner, tps: float, goal: Goal, with_goal: PlannerFor) -> Iterator[str]:
    slower = _most(planner, tps, goal, with_goal)
    if slower is not None:
        yield f"--tps {slower.tps:g}{_price(slower, planner)}"
    if goal.max_move_bytes is not None:
        moving = _least_moved(planner, tps, goal, with_goal)
        if moving is not None:
            yield moving
    for option, field in (("--commit-p99", "commit_p99_ms"), ("--read-p99", "read_p99_ms")):
        target_ms: float | None = getattr(goal, field)
        if target_ms is None:
            continue
        quickest = min(
            (s.write_us_p99 if field == "commit_p99_ms" else s.read_us_p99) / 1e3
            for s in planner.candidates
            if not s.is_ephemeral
        )
        limit = max(target_ms, quickest)
        for _ in range(_STEPS):
            limit = _ceil(limit * _STEP)
            met = _with(with_goal, replace(goal, **{field: limit}), tps)  # type: ignore[arg-type]
            if met is not None:
                yield f"{option} {limit:g}ms{_price(met, planner)}"
                break


def _with(with_goal: PlannerFor, goal: Goal, tps: float) -> Found | None:
    """What the user would get for another goal; None where that is nothing."""
    planner = with_goal(goal)
    found = NoSolution.NOT_FOUND if planner is None else cheapest(planner, tps)
    return None if isinstance(found, NoSolution) else found


def _most(planner: Planner, tps: float, goal: Goal, with_goal: PlannerFor) -> Found | None:
    """The highest throughput under ``tps`` at which the rest of the goal is met."""
    low = highest(0.0, tps, _BISECTIONS, planner.reaches)
    for share in _SHARES:
        if low <= 0:
            break
        # as printed, and with the clients that so much takes
        target_tps = _floor(low * share)
        found = _with(with_goal, replace(goal, tps=target_tps), target_tps)
        if found is not None:
            return found
    return None


def _least_moved(planner: Planner, tps: float, goal: Goal, with_goal: PlannerFor) -> str | None:
    """How much the cheapest layout that may move anything moves, if so much is enough."""
    free = _with(with_goal, replace(goal, max_move_bytes=None), tps)
    if free is None:
        return None
    gib = moved_gib(free.problem, free.solution.placed)
    limit_mib = math.ceil(gib * GIB / MIB) + 1
    within = _with(with_goal, replace(goal, max_move_bytes=limit_mib * MIB), tps)
    return None if within is None else f"--max-move {limit_mib}MiB{_price(within, planner)}"


def _cheapest_at_all(planner: Planner) -> Found | NoSolution:
    """The cheapest layout for half the load that was seen."""
    return cheapest(planner, planner.workload.transactions_per_second * 0.5)


def _price(found: Found, planner: Planner | None) -> str:
    """Its price, as a plan prints it."""
    usd = found.prediction.performance.usd_month
    return "" if usd is None else f" for ${usd + _beside_usd(planner):,.2f} per month"


def _beside_usd(planner: Planner | None) -> float:
    return 0.0 if planner is None else planner.beside_usd


def _floor(value: float) -> float:
    """Down to three digits, so that what is printed can be met.

    >>> _floor(12345.6), _floor(9.876)
    (12300.0, 9.87)
    """
    digits = 10.0 ** (math.floor(math.log10(value)) - 2)
    return round(math.floor(value / digits + 1e-9) * digits, 9)


def _ceil(value: float) -> float:
    """Up to two digits.

    >>> _ceil(1.234), _ceil(0.3)
    (1.3, 0.3)
    """
    digits = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / digits - 1e-9) * digits, 9)
