"""Price against throughput and latency: the cheapest layout at each of many speeds."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from pgstow.catalog.catalog import Catalog
from pgstow.model import Goal, InfeasibleError, Layout, NotFoundError, Prediction, Profile
from pgstow.planning.growth import Growth
from pgstow.planning.placement import (
    IOPS,
    WAIT,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    Series,
    is_small,
)
from pgstow.planning.placement.moving import place_within
from pgstow.planning.planner import case_of, clients_for
from pgstow.planning.search import Planner, cheapest, highest
from pgstow.prediction import Workload

POINTS = 30
_SLOWEST = 0.5  # of the observed throughput
_BISECTIONS = 6
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.6, 0.3)  # of what the model reaches, tried by simulation
_GAP = 2e-3
_NODES_MAX = 12


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """The cheapest layout for one throughput; no other costs less than ``bound_usd_month``.

    ``latency_ms`` is the mean of a transaction as simulated, by as many ``clients`` as ask for it.
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
    """Points by rising throughput; ``knee``: the index of the one after which more costs most."""

    points: tuple[FrontierPoint, ...]
    knee: int


def frontier(
    profile: Profile,
    goal: Goal,
    catalog: Catalog,
    growth: Growth | None = None,
    *,
    points: int = POINTS,
) -> Frontier:
    """The cheapest layouts from half the observed throughput to the most that can be reached.

    Of ``goal`` all but the throughput and the budget counts. Each point is what a plan for that
    throughput finds, simulated like it. Raises InfeasibleError where not even the slowest can be
    met, NotFoundError where nothing was found for it.
    """
    case = case_of(profile, replace(goal, tps=None, budget_usd_month=None), catalog, growth)
    planner = case.planner()
    curve = _Curve(planner, case.present, 0.0 if case.backup is None else case.backup.usd_month)
    slowest = _SLOWEST * planner.workload.transactions_per_second
    first = curve.at(slowest)
    if isinstance(first, NoSolution):
        remedy = "allow more types or volumes, or less headroom"
        what = f"{slowest:,.0f} TPS, half of what was observed"
        if first is NoSolution.NOT_FOUND:
            raise NotFoundError(f"no layout was found in time for {what}", remedy)
        raise InfeasibleError(f"no layout reaches even {what}", remedy)
    fastest = _fastest(curve, slowest)
    speeds = np.linspace(slowest, fastest, points).tolist()
    met = [first]
    with ThreadPoolExecutor(1, thread_name_prefix="simulation") as pool:
        for tps, following in pairwise((*speeds[1:], None)):
            if following is not None:
                curve.begin(following, pool)
            if tps is not None and not isinstance(one := curve.at(tps), NoSolution):
                met.append(one)
    found = [one.point for one in _monotone(curve, met)]
    return Frontier(tuple(found), knee_of(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Met:
    """A point with its layout."""

    point: FrontierPoint
    layout: Layout


@dataclass(slots=True)
class _Curve:
    """Problems of one planner at many speeds, solved one after the other."""

    planner: Planner
    present: Prediction
    backup_usd: float
    base: PlacementProblem | None = None  # the first, whose uses the columns hold
    tps: float = 0.0  # of that
    series: Series | None = None
    known: dict[float, _Met | NoSolution] = field(default_factory=dict)
    begun: dict[float, Planner] = field(default_factory=dict)

    def begin(self, tps: float, pool: Executor) -> None:
        """Solve for a speed; ``pool`` simulates what was found while the next one is solved."""
        if tps not in self.known:
            self.begun[tps] = self._planner(tps)
            self.begun[tps].begin(tps, pool)

    def at(self, tps: float) -> _Met | NoSolution:
        """The cheapest layout at one speed, or why there is none."""
        if tps not in self.known:
            self.known[tps] = self._at(tps)
        return self.known[tps]

    def _at(self, tps: float) -> _Met | NoSolution:
        planner = self.begun.pop(tps, None) or self._planner(tps)
        found = cheapest(planner, tps)
        if isinstance(found, NoSolution):
            return found
        point = FrontierPoint(
            tps=tps,
            latency_ms=_latency_ms(found.prediction, planner.workload, tps),
            clients=planner.workload.clients,
            usd_month=found.usd_month + self.backup_usd,
            bound_usd_month=min(found.bound_usd, found.usd_month) + self.backup_usd,
            volumes=tuple(one.candidate.label for one in found.solution.volumes),
        )
        return _Met(point, found.layout)

    def on(self, slow: _Met, fast: _Met) -> _Met:
        """A point with the layout of a faster one, under its own load."""
        tps = slow.point.tps
        planner = self._planner(tps)
        point = replace(
            slow.point,
            latency_ms=_latency_ms(planner.quick_check(fast.layout, tps), planner.workload, tps),
            usd_month=fast.point.usd_month,
            volumes=fast.point.volumes,
        )
        return _Met(point, fast.layout)

    def reaches(self, tps: float) -> bool:
        """Whether the model has a layout for a speed; it is not simulated."""
        return self._planner(tps).reaches(tps)

    def _planner(self, tps: float) -> Planner:
        """The planner of a plan for that speed; it keeps the columns found before."""
        seen = self.planner.workload
        workload = replace(seen, clients=clients_for(seen, tps, self.present))

        def place(
            problem: PlacementProblem,
            *,
            breaks_ties: bool = True,
            within_usd: float | None = None,
        ) -> PlacementSolution | NoSolution:
            if within_usd is not None and is_small(problem):
                return place_within(problem, breaks_ties=False, within_usd=within_usd)
            return self._placed(problem, tps, breaks_ties=breaks_ties)

        return replace(self.planner, workload=workload, place=place, allows_quick_check=True)

    def _placed(
        self, problem: PlacementProblem, tps: float, *, breaks_ties: bool
    ) -> PlacementSolution | NoSolution:
        special_items, base = problem.special_items, self.base
        if is_small(problem) or problem.max_move_gib is not None or special_items.exclusive:
            return place_within(problem, gap=_GAP, breaks_ties=breaks_ties)
        if base is None or self.series is None:
            self.base, self.tps = problem, tps
            self.series = Series.of(problem)
            base = problem
        use, given = problem.use_per_demand, base.use_per_demand
        load_factor = float(use[0, IOPS, 1] / given[0, IOPS, 1])
        alike = (
            base.special_items.allowed == special_items.allowed
        ).all() and base.headroom == problem.headroom
        if not alike or not np.allclose(use[:, IOPS:WAIT], load_factor * given[:, IOPS:WAIT]):
            return place_within(problem, gap=_GAP, breaks_ties=breaks_ties)
        own = special_items.use.copy()
        own[:, :, IOPS:WAIT] /= load_factor
        scaled = replace(
            problem,
            use_per_demand=given,
            items=base.items,
            item_classes=base.item_classes,
            special_items=replace(special_items, use=own),
            load_factor=load_factor,
        )
        return self.series.place(scaled, gap=_GAP, node_limit=_NODES_MAX)


def _fastest(curve: _Curve, slowest: float) -> float:
    """The highest speed that some layout reaches, by bisection."""
    most = curve.planner.workload.tps_of_cores * (1 - curve.planner.goal.headroom)
    if not curve.reaches(most):
        most = highest(slowest, most, _BISECTIONS, curve.reaches)
    every = (slowest + (most - slowest) * share for share in _SHARES)
    return next((tps for tps in every if not isinstance(curve.at(tps), NoSolution)), slowest)


def _latency_ms(found: Prediction, workload: Workload, tps: float) -> float:
    mean_ms = found.performance.latency_ms.mean
    return mean_ms or workload.clients / tps * 1e3 - workload.think_us / 1e3


def _monotone(curve: _Curve, points: list[_Met]) -> list[_Met]:
    """A layout for more is a layout for less: no point costs more than a faster one."""
    best: list[_Met] = []
    for one in reversed(points):
        costs_more = bool(best) and one.point.usd_month > best[-1].point.usd_month
        best.append(curve.on(one, best[-1]) if costs_more else one)
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
