"""A goal that nothing meets: what stands in the way, and the nearest goal that can be met."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from pgstow.model import Goal, HostCap, InfeasibleError
from pgstow.planning.placement.moving import place_within
from pgstow.planning.search import Found, Planner, Tightening, cheapest, highest

_BISECTIONS = 10
_SHARES = (1.0, 0.97, 0.93, 0.85, 0.7, 0.5)  # of the programme's throughput, tried by simulation
_STEP, _STEPS = 1.25, 8  # by which a latency is raised, and how often
_HOST = "the instance's storage cap"
_LATENCY = "the latency of the allowed types"

Relaxed = Callable[[Goal], Planner | None]


def infeasible(planner: Planner, tps: float, with_goal: Relaxed) -> InfeasibleError:
    """What to say of a goal that nothing meets; ``with_goal`` makes a planner for another goal."""
    goal = planner.goal
    near = " or ".join(_nearest(planner, tps, with_goal))
    conflict = _conflict(planner, tps, with_goal)
    where = f" on {goal.instance}" if goal.instance is not None else ""
    return InfeasibleError(
        f"no layout meets the goal of {tps:,.0f} TPS{wishes(goal)}{where}",
        f"{conflict}; the nearest that can be met: {near}" if near else conflict,
    )


def over_budget(planner: Planner, budget: float, with_goal: Relaxed) -> InfeasibleError:
    """What to say where nothing is within the budget: what the least would cost."""
    free = with_goal(replace(planner.goal, budget_usd_month=None))
    least = None if free is None else _cheapest_at_all(free)
    price = None if least is None else least.prediction.performance.usd_month
    nearest = "" if price is None else f"; the least that can be had is ${price:,.2f} per month"
    return InfeasibleError(
        f"no layout{wishes(planner.goal)} costs as little as ${budget:,.2f} per month",
        "raise --budget, or allow cheaper types; what the server holds now cannot shrink" + nearest,
    )


def too_slow(planner: Planner, found: Found, with_goal: Relaxed) -> InfeasibleError:
    """What to say where the fastest layout within the budget is slower than wanted."""
    goal = planner.goal
    tps, budget = goal.tps or 0.0, goal.budget_usd_month or 0.0
    free = with_goal(replace(goal, budget_usd_month=None))
    dearer = None if free is None else cheapest(free, tps)
    parts = [f"the fastest within it: {found.prediction.performance.tps:,.0f} TPS{_price(found)}"]
    if dearer is not None:
        parts.append(f"the cheapest of {tps:,.0f} TPS:{_price(dearer).removeprefix(' for')}")
    return InfeasibleError(
        f"no layout of {tps:,.0f} TPS{wishes(goal)} costs as little as ${budget:,.2f} per month",
        "; ".join(parts),
    )


def wishes(goal: Goal) -> str:
    """The latencies of a goal, in words."""
    parts = []
    if goal.commit_p99_ms is not None:
        parts.append(f"commit p99 {goal.commit_p99_ms:g} ms")
    if goal.read_p99_ms is not None:
        parts.append(f"read p99 {goal.read_p99_ms:g} ms")
    return f" with {' and '.join(parts)}" if parts else ""


def _conflict(planner: Planner, tps: float, with_goal: Relaxed) -> str:
    """Name the limits whose removal alone would make the goal reachable."""
    if planner.problem(tps, Tightening()) is None:
        work = planner.workload
        return (
            f"{work.clients} clients that use {work.cpu_us:,.0f} µs of {work.cores} cores per "
            "transaction cannot reach it on any disk; lower --tps"
        )
    names = [
        name
        for name, relaxed, is_checked in _relaxations(planner, with_goal)
        if relaxed is not None and _is_met(relaxed, tps, is_checked=is_checked)
    ]
    names = list(dict.fromkeys(names))
    if not names:
        return "several limits conflict; allow more types or ask for less"
    return f"what stands in the way: {', '.join(names)}"


def _relaxations(
    planner: Planner, with_goal: Relaxed
) -> Iterator[tuple[str, Planner | None, bool]]:
    """Planners without one limit each, and whether the simulator must agree."""
    goal = planner.goal
    if planner.cap.iops is not None or planner.cap.bytes_per_second is not None:
        larger = replace(planner.base, host=replace(planner.base.host, instance=None))
        yield _HOST, replace(planner, base=larger, cap=HostCap(None, None)), True
    yield "--max-volumes", with_goal(replace(goal, max_volumes=len(planner.shapes))), True
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
    """Whether the goal is met; unchecked, whether capacity is there however long one waits."""
    if is_checked:
        return cheapest(planner, tps) is not None
    problem = planner.problem(tps, Tightening())
    return problem is not None and place_within(replace(problem, response_ms=None)) is not None


def _nearest(planner: Planner, tps: float, with_goal: Relaxed) -> Iterator[str]:
    goal = planner.goal
    found = _most(planner, tps)
    if found is not None:
        yield f"--tps {_floor(found.tps)}{_price(found)}"
    for option, field in (("--commit-p99", "commit_p99_ms"), ("--read-p99", "read_p99_ms")):
        wanted: float | None = getattr(goal, field)
        if wanted is None:
            continue
        quickest = min(
            (s.write_us_p99 if field == "commit_p99_ms" else s.read_us_p99) / 1e3
            for s in planner.shapes
            if not s.is_ephemeral
        )
        limit = max(wanted, quickest)
        for _ in range(_STEPS):
            limit = _ceil(limit * _STEP)
            slower = with_goal(replace(goal, **{field: limit}))  # type: ignore[arg-type]
            met = None if slower is None else cheapest(slower, tps)
            if met is not None:
                yield f"{option} {limit:g}ms{_price(met)}"
                break


def _most(planner: Planner, tps: float) -> Found | None:
    """The highest throughput under ``tps`` that is met with all else the goal says."""

    def is_placed(tps: float) -> bool:
        return planner.solve(tps, Tightening()) is not None

    low = highest(0.0, tps, _BISECTIONS, is_placed)
    for share in _SHARES:
        found = cheapest(planner, low * share) if low > 0 else None
        if found is not None:
            return found
    return None


def _cheapest_at_all(planner: Planner) -> Found | None:
    """The cheapest layout for the load that was seen."""
    return cheapest(planner, planner.workload.transactions_per_second * 0.5)


def _price(found: Found) -> str:
    usd = found.prediction.performance.usd_month
    return "" if usd is None else f" for ${usd:,.2f} per month"


def _floor(value: float) -> str:
    """Down to three digits, so that what is said can be met.

    >>> _floor(12345.6), _floor(9.87)
    ('12300', '9.87')
    """
    digits = 10 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / digits + 1e-9) * digits:g}" if value < 1e6 else f"{value:.0f}"


def _ceil(value: float) -> float:
    """Up to two digits.

    >>> _ceil(1.234), _ceil(0.3)
    (1.3, 0.3)
    """
    digits = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / digits - 1e-9) * digits, 9)
