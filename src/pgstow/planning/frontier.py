"""Price against throughput and latency: the cheapest layout at each of many speeds."""

from dataclasses import dataclass, replace

import numpy as np

from pgstow.model import Goal, InfeasibleError, Prediction, Profile
from pgstow.planning.candidates import PlanningCatalog
from pgstow.planning.growth import Growth
from pgstow.planning.placement import (
    IOPS,
    WAIT,
    Placed,
    PlacementProblem,
    Series,
    is_small,
)
from pgstow.planning.placement.moving import place_within
from pgstow.planning.planner import case_of, clients_for
from pgstow.planning.search import Planner, Tightening, highest

POINTS = 30
_SLOWEST = 0.5  # of the observed throughput
_BISECTIONS = 6
_GAP = 2e-3
_NODES_MAX = 12


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """The cheapest layout for one throughput; no other costs less than ``bound_usd_month``.

    ``latency_ms`` is the mean of a transaction by the interactive response time law.
    """

    tps: float
    latency_ms: float
    clients: int
    usd_month: float
    bound_usd_month: float
    volumes: tuple[str, ...]

    @property
    def usd_per_1000_tps(self) -> float:
        """Monthly price of a thousand transactions per second."""
        return self.usd_month / self.tps * 1000


@dataclass(frozen=True, slots=True)
class Frontier:
    """Points by rising throughput; ``knee`` is the place of the one after which speed gets dear."""

    points: tuple[FrontierPoint, ...]
    knee: int


def frontier(
    profile: Profile,
    goal: Goal,
    catalog: PlanningCatalog,
    growth: Growth | None = None,
    *,
    points: int = POINTS,
) -> Frontier:
    """The cheapest layouts from half the observed throughput to the most that can be reached.

    Of ``goal`` all but the throughput and the budget counts. Prices and waits are the programme's,
    as they are before the simulator's check. Raises InfeasibleError where not even the slowest can
    be met.
    """
    case = case_of(profile, replace(goal, tps=None, budget_usd_month=None), catalog, growth)
    planner = case.planner()
    curve = _Curve(planner, case.present)
    slowest = _SLOWEST * planner.workload.transactions_per_second
    first = curve.at(slowest)
    if first is None:
        raise InfeasibleError(
            f"no layout reaches even {slowest:,.0f} TPS, half of what was observed",
            "allow more types or volumes, or less headroom",
        )
    fastest = _fastest(curve, slowest)
    speeds = np.linspace(slowest, fastest, points).tolist()
    found = [first, *(point for tps in speeds[1:] if (point := curve.at(tps)) is not None)]
    found = _without_luck(found)
    return Frontier(tuple(found), knee_of(found))


@dataclass(slots=True)
class _Curve:
    """Problems of one planner at many speeds, solved one after the other."""

    planner: Planner
    present: Prediction
    base: PlacementProblem | None = None  # the first, whose uses the columns hold
    tps: float = 0.0  # of that
    series: Series | None = None

    def at(self, tps: float) -> FrontierPoint | None:
        """The cheapest layout at one speed; None where none reaches it."""
        seen = self.planner.workload
        clients = clients_for(seen, tps, self.present)
        planner = replace(self.planner, workload=replace(seen, clients=clients))
        problem = planner.problem(tps, Tightening())
        placed = None if problem is None else self._placed(problem, tps)
        if placed is None or problem is None:
            return None
        usd_month = _price(problem, placed)
        return FrontierPoint(
            tps=tps,
            latency_ms=clients / tps * 1e3 - seen.think_us / 1e3,
            clients=clients,
            usd_month=usd_month,
            bound_usd_month=min(placed.bound_usd, usd_month),
            volumes=tuple(problem.shapes[one.shape].label for one in placed.volumes),
        )

    def _placed(self, problem: PlacementProblem, tps: float) -> Placed | None:
        if is_small(problem) or problem.max_move_gib is not None:
            return place_within(problem, gap=_GAP)
        if self.base is None or self.series is None:
            self.base, self.tps = problem, tps
            self.series = Series.of(problem)
        pace = tps / self.tps
        use = problem.singles.use.copy()
        use[:, :, IOPS:WAIT] /= pace
        paced = replace(
            problem,
            use_per_demand=self.base.use_per_demand,
            items=self.base.items,
            kinds=self.base.kinds,
            singles=replace(problem.singles, use=use),
            pace=pace,
        )
        return self.series.place(paced, gap=_GAP, nodes_max=_NODES_MAX)


def _price(problem: PlacementProblem, placed: Placed) -> float:
    """What the volumes cost, without what the programme adds so that nothing moves for nothing."""
    items, singles = problem.items, problem.singles
    each = problem.kinds.move_usd_per_gib[items.kind, placed.item_shape] * items.demand[:, 0]
    moving = each.sum() + singles.move_usd[np.arange(singles.count), placed.single_shape].sum()
    new = sum(problem.shapes[one.shape].existing is None for one in placed.volumes)
    return placed.usd_month - float(moving) - new * problem.new_volume_usd


def _fastest(curve: _Curve, slowest: float) -> float:
    """The highest speed that some layout reaches, by bisection."""
    most = curve.planner.workload.tps_of_cores * (1 - curve.planner.goal.headroom)
    if curve.at(most) is not None:
        return most
    return highest(slowest, most, _BISECTIONS, lambda tps: curve.at(tps) is not None)


def _without_luck(points: list[FrontierPoint]) -> list[FrontierPoint]:
    """A layout for more is a layout for less: no point is dearer than a faster one."""
    best: list[FrontierPoint] = []
    for point in reversed(points):
        if best and point.usd_month > best[-1].usd_month:
            faster = best[-1]
            best.append(replace(point, usd_month=faster.usd_month, volumes=faster.volumes))
        else:
            best.append(point)
    return best[::-1]


def knee_of(points: list[FrontierPoint]) -> int:
    """The point farthest under the chord from the first to the last (Satopää et al., 2011)."""
    speed = np.array([point.tps for point in points])
    price = np.array([point.usd_month for point in points])
    if len(points) < 3 or price[-1] <= price[0]:
        return len(points) - 1
    along = (speed - speed[0]) / (speed[-1] - speed[0])
    up = (price - price[0]) / (price[-1] - price[0])
    return int(np.argmax(along - up))
