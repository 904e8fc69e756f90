"""What others would buy for the same goal: rules of thumb and published methods, to be compared.

Each rule decides what lies where and on which types; every volume is then sized for what lies on
it at the wanted throughput, with the goal's headroom and free space, as a plan's are. Where a type
cannot be sold that large, the largest is taken. General means the platform's cheapest type that is
no hard disk, fast its quickest with provisioned IOPS: gp3 and io2 on EC2.

Sources: "indexes on fast" and "by hand" are *Indexes on Fast Storage* and *Storage Selection for
Database Workloads*; "greedy by density" is what object placement advisors do (Canim et al., VLDB
2009; Zhang et al., DOT, VLDB 2011): the densest objects on the fast device until the goal is met;
"right-sizing" is AWS Compute Optimizer's: each volume as it is, of the type and performance that
its own load needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pgstow.model import InfeasibleError, Layout
from pgstow.planning.build import layout_of
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.needs import response_budget_us
from pgstow.planning.placement import BYTES, IOPS, PlacementProblem, PlacementSolution, Sizes
from pgstow.planning.placement.problem import Floats, Ints
from pgstow.planning.placement.sizing import keeps_shared, sizes
from pgstow.planning.problem import READS, WRITES, solution_of
from pgstow.planning.search import Planner

_COLD_SHARE = 5e-3  # of all accesses: between the document's cold relations and its warm one
_CUTS = 64
_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class RuleContext:
    """What a rule is given: the placement problem without shared limits, and the candidates."""

    planner: Planner
    problem: PlacementProblem
    response_ms: float | None

    def kept(self, volume: str, kind: str) -> int:
        """The candidate that keeps a volume, as another type."""
        return self._index(f"{volume}:{kind}")

    def new(self, kind: str) -> int:
        """The candidate of one new volume of a type."""
        return self._index(f"{kind}x1")

    def _index(self, key: str) -> int:
        for place, candidate in enumerate(self.problem.candidates):
            if candidate.key == key:
                return place
        raise InfeasibleError(f"the platform sells no {key}", "compare on another platform")

    @property
    def data(self) -> str:
        """The data directory's volume."""
        return self.planner.base.postgres.data

    @property
    def general(self) -> str:
        """The cheapest type that is no hard disk."""
        return min(
            self._plain(), key=lambda candidate: (candidate.usd_per_gib, candidate.read_us)
        ).type

    @property
    def fast(self) -> str:
        """The quickest type with provisioned IOPS."""
        quick = [
            candidate for candidate in self._plain() if candidate.is_iops_provisioned
        ] or self._plain()
        return min(quick, key=lambda candidate: (candidate.read_us, candidate.usd_per_iops)).type

    def _plain(self) -> list[CandidateVolume]:
        kept = self.data
        found = [
            candidate
            for candidate in self.problem.candidates
            if (candidate.existing is None or candidate.existing.name == kept)
            and not (candidate.is_hdd or candidate.is_ephemeral or candidate.is_for_wal)
        ]
        if not found:
            raise InfeasibleError(f"volume {kept} can be of hard disks alone", "")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Where a rule puts things: the candidates of relations, and of data directory, WAL, temp."""

    items: Ints
    singles: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """What a rule buys."""

    assignment: Assignment
    volumes: tuple[Sizes, ...]
    usd_month: float


Rule = Callable[[RuleContext], Assignment]


def _everything(where: RuleContext, candidate: int, *, wal: int | None = None) -> Assignment:
    singles = np.full(where.problem.singles.count, candidate, dtype=np.int64)
    singles[1] = candidate if wal is None else wal
    return Assignment(np.full(where.problem.items.count, candidate, dtype=np.int64), singles)


def _one_volume(where: RuleContext) -> Assignment:
    return _everything(where, where.kept(where.data, where.general))


def _all_fast(where: RuleContext) -> Assignment:
    return _everything(where, where.kept(where.data, where.fast))


def _wal_apart(where: RuleContext) -> Assignment:
    wal = where.new(where.general)
    return _everything(where, where.kept(where.data, where.general), wal=wal)


def _indexes_on_fast(where: RuleContext) -> Assignment:
    assignment = _one_volume(where)
    kinds = {relation.id: relation.kind for relation in where.planner.profile.server.relations}
    relations = where.planner.demands.relations
    is_index = np.array([kinds[relation] == "index" for relation in relations], dtype=bool)
    assignment.items[is_index] = where.new(where.fast)
    return assignment


def _by_hand(where: RuleContext) -> Assignment:
    """The document's layout: WAL alone and what is not cold on fast volumes, the rest on bulk."""
    fast = where.new(where.fast)
    wal = next(
        (c for c, s in enumerate(where.problem.candidates) if s.key == f"{where.fast}x1b"), fast
    )
    assignment = _everything(where, where.kept(where.data, where.general), wal=wal)
    accesses = _accesses(where)
    assignment.items[accesses >= _COLD_SHARE * accesses.sum()] = fast
    assignment.singles[2:] = fast
    return assignment


def _greedy(where: RuleContext) -> Assignment:
    """The densest relations on the fast type: of all cuts that meet the goal, the cheapest."""
    problem, fast = where.problem, where.new(where.fast)
    assignment = _one_volume(where)
    density = _accesses(where) / problem.items.demand[:, 0]
    order = np.argsort(-density, kind="stable")
    limited = replace(problem, response_ms=where.response_ms)
    best: tuple[bool, float, Assignment] | None = None
    for cut in np.unique(np.linspace(0, len(order), _CUTS).astype(np.int64)).tolist():
        tried = Assignment(assignment.items.copy(), assignment.singles)
        tried.items[order[:cut]] = fast
        load = _loads(problem, tried)
        usd = sum(_bought(problem, c, load[c])[1] for c in _used(tried))
        tried_cut = (not keeps_shared(limited, load), usd, tried)
        if best is None or tried_cut[:2] < best[:2]:
            best = tried_cut
    return best[2] if best else assignment


def _right_sized(where: RuleContext) -> Assignment:
    """Everything where it is; each volume of the type that bears its own load most cheaply."""
    layout, demands, problem = where.planner.base, where.planner.demands, where.problem
    temp = layout.postgres.temp[0] if layout.postgres.temp else layout.postgres.data
    current_volumes = (
        np.array(demands.volumes)[demands.current_volume]
        if len(demands.current_volume)
        else np.array([])
    )
    every = (layout.postgres.data, layout.postgres.wal, temp)
    special_current_volumes = np.array(every[: problem.singles.count])
    assignment = _everything(where, 0)
    for volume in layout.volumes:
        ways = [
            c
            for c, candidate in enumerate(problem.candidates)
            if candidate.existing is not None
            and candidate.existing.name == volume.name
            and (not candidate.is_hdd or candidate.type == volume.type)
        ]
        prices: list[tuple[bool, float, int]] = []
        for c in ways:
            assignment.items[current_volumes == volume.name] = c
            assignment.singles[special_current_volumes == volume.name] = c
            _, usd, fits = _bought(problem, c, _loads(problem, assignment)[c])
            prices.append((not fits, usd, c))
        if not prices:
            raise InfeasibleError(f"volume {volume.name} can be kept in no way", "")
        chosen = min(prices)[2]
        assignment.items[current_volumes == volume.name] = chosen
        assignment.singles[special_current_volumes == volume.name] = chosen
    return assignment


RULES: Mapping[str, Rule] = {
    "one volume": _one_volume,
    "all on the fastest type": _all_fast,
    "WAL apart": _wal_apart,
    "indexes on fast": _indexes_on_fast,
    "by hand": _by_hand,
    "greedy by density": _greedy,
    "right-sizing": _right_sized,
}


def _accesses(where: RuleContext) -> Floats:
    """Reads, scans' reads and writes of one transaction, by relation."""
    return np.asarray(where.problem.items.demand[:, READS : WRITES + 1].sum(axis=1))


def _used(assignment: Assignment) -> list[int]:
    used: list[int] = np.unique(np.concatenate((assignment.items, assignment.singles))).tolist()
    return used


def _loads(problem: PlacementProblem, assignment: Assignment) -> Floats:
    """Candidates × USES."""
    candidates, demand = len(problem.candidates), problem.items.demand
    sums = [np.bincount(assignment.items, demand[:, k], candidates) for k in range(demand.shape[1])]
    load: Floats = np.einsum("cuk,ck->cu", problem.use_per_demand, np.stack(sums, axis=1))
    np.add.at(
        load,
        assignment.singles,
        problem.singles.use[np.arange(len(assignment.singles)), assignment.singles],
    )
    return load


def _bought(problem: PlacementProblem, c: int, load: Floats) -> tuple[Sizes, float, bool]:
    """What bears a load and its price; where nothing does (False), as much as can be bought."""
    found = sizes(problem, c, load)
    if found is not None:
        return *found, True
    low, high = 0.0, 1.0
    best = None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = load.copy()
        less[[IOPS, BYTES]] *= middle
        found = sizes(problem, c, less)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    if best is None:
        candidate = problem.candidates[c].label
        raise InfeasibleError(f"{candidate} cannot hold what would lie on it", "")
    return *best, False


def rule_context(planner: Planner, tps: float) -> RuleContext:
    """What the rules work on at one throughput."""
    response_us = response_budget_us(planner.workload, tps)
    response_ms = None if response_us is None else response_us / 1000
    return RuleContext(planner, planner.unlimited(tps), response_ms)


def bought(rule: Rule, where: RuleContext) -> Quote:
    """A rule's volumes, each sized for what lies on it.

    Raises InfeasibleError where the platform does not sell what the rule asks for.
    """
    problem, assignment = where.problem, rule(where)
    load = _loads(problem, assignment)
    volumes = [_bought(problem, c, load[c]) for c in _used(assignment)]
    return Quote(assignment, tuple(one for one, _, _ in volumes), sum(usd for _, usd, _ in volumes))


def layout(quote: Quote, where: RuleContext) -> Layout:
    """The layout that was bought."""
    placed = PlacementSolution(
        item_candidate=quote.assignment.items,
        special_candidate=quote.assignment.singles,
        volumes=quote.volumes,
        usd_month=quote.usd_month,
        bound_usd=0.0,
    )
    solution = solution_of(where.problem, placed, where.planner.demands)
    return layout_of(where.planner.base, solution)
