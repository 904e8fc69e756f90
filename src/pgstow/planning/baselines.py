"""What others would buy for the same goal: rules of thumb and published methods, to be compared.

Each rule decides what is placed where and on which types; every volume is then sized for what is on
it at the target throughput, with the goal's headroom and free space, as a plan's are. Where a type
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

    def kept(self, volume: str, volume_type: str) -> int:
        """The candidate that keeps a volume, as another type."""
        return self._index(f"{volume}:{volume_type}")

    def new(self, volume_type: str) -> int:
        """The candidate of one new volume of a type."""
        return self._index(f"{volume_type}x1")

    def _index(self, key: str) -> int:
        for index, candidate in enumerate(self.problem.candidates):
            if candidate.key == key:
                return index
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
            raise InfeasibleError(f"volume {kept} can only be of hard disks", "")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The candidates that a rule chooses: of relations, and of data directory, WAL, temp."""

    items: Ints
    special_items: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """What a rule buys."""

    assignment: Assignment
    volumes: tuple[Sizes, ...]
    usd_month: float


Rule = Callable[[RuleContext], Assignment]


def _everything(context: RuleContext, candidate: int, *, wal: int | None = None) -> Assignment:
    special_items = np.full(context.problem.special_items.count, candidate, dtype=np.int64)
    special_items[1] = candidate if wal is None else wal
    return Assignment(
        np.full(context.problem.items.count, candidate, dtype=np.int64), special_items
    )


def _one_volume(context: RuleContext) -> Assignment:
    return _everything(context, context.kept(context.data, context.general))


def _all_fast(context: RuleContext) -> Assignment:
    return _everything(context, context.kept(context.data, context.fast))


def _wal_apart(context: RuleContext) -> Assignment:
    wal = context.new(context.general)
    return _everything(context, context.kept(context.data, context.general), wal=wal)


def _indexes_on_fast(context: RuleContext) -> Assignment:
    assignment = _one_volume(context)
    relation_kinds = {
        relation.id: relation.kind for relation in context.planner.profile.server.relations
    }
    relations = context.planner.demands.relations
    is_index = np.array([relation_kinds[relation] == "index" for relation in relations], dtype=bool)
    assignment.items[is_index] = context.new(context.fast)
    return assignment


def _by_hand(context: RuleContext) -> Assignment:
    """The document's layout: the WAL and what is not cold on a fast volume each, the rest bulk."""
    fast = context.new(context.fast)
    wal = next(
        (c for c, s in enumerate(context.problem.candidates) if s.key == f"{context.fast}x1b"), fast
    )
    assignment = _everything(context, context.kept(context.data, context.general), wal=wal)
    accesses = _accesses(context)
    assignment.items[accesses >= _COLD_SHARE * accesses.sum()] = fast
    assignment.special_items[2:] = fast
    return assignment


def _greedy(context: RuleContext) -> Assignment:
    """The densest relations on the fast type: of all cuts that meet the goal, the cheapest."""
    problem, fast = context.problem, context.new(context.fast)
    assignment = _one_volume(context)
    density = _accesses(context) / problem.items.demand[:, 0]
    order = np.argsort(-density, kind="stable")
    limited = replace(problem, response_ms=context.response_ms)
    best: tuple[bool, float, Assignment] | None = None
    for cut in np.unique(np.linspace(0, len(order), _CUTS).astype(np.int64)).tolist():
        tried = Assignment(assignment.items.copy(), assignment.special_items)
        tried.items[order[:cut]] = fast
        load = _loads(problem, tried)
        usd = sum(_sized(problem, c, load[c])[1] for c in _used(tried))
        tried_cut = (not keeps_shared(limited, load), usd, tried)
        if best is None or tried_cut[:2] < best[:2]:
            best = tried_cut
    return best[2] if best else assignment


def _right_sized(context: RuleContext) -> Assignment:
    """Everything where it is; each volume of the type that bears its own load most cheaply."""
    layout, demands, problem = context.planner.base, context.planner.demands, context.problem
    temp = layout.postgres.temp[0] if layout.postgres.temp else layout.postgres.data
    current_volumes = (
        np.array(demands.volumes)[demands.current_volume]
        if len(demands.current_volume)
        else np.array([])
    )
    every = (layout.postgres.data, layout.postgres.wal, temp)
    special_current_volumes = np.array(every[: problem.special_items.count])
    assignment = _everything(context, 0)
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
            assignment.special_items[special_current_volumes == volume.name] = c
            _, usd, fits = _sized(problem, c, _loads(problem, assignment)[c])
            prices.append((not fits, usd, c))
        if not prices:
            raise InfeasibleError(f"volume {volume.name} can be kept in no way", "")
        chosen = min(prices)[2]
        assignment.items[current_volumes == volume.name] = chosen
        assignment.special_items[special_current_volumes == volume.name] = chosen
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


def _accesses(context: RuleContext) -> Floats:
    """Reads, scans' reads and writes of one transaction, by relation."""
    return np.asarray(context.problem.items.demand[:, READS : WRITES + 1].sum(axis=1))


def _used(assignment: Assignment) -> list[int]:
    used: list[int] = np.unique(
        np.concatenate((assignment.items, assignment.special_items))
    ).tolist()
    return used


def _loads(problem: PlacementProblem, assignment: Assignment) -> Floats:
    """Candidates × USES."""
    candidates, demand = len(problem.candidates), problem.items.demand
    sums = [np.bincount(assignment.items, demand[:, k], candidates) for k in range(demand.shape[1])]
    load: Floats = np.einsum("cuk,ck->cu", problem.use_per_demand, np.stack(sums, axis=1))
    np.add.at(
        load,
        assignment.special_items,
        problem.special_items.use[
            np.arange(len(assignment.special_items)), assignment.special_items
        ],
    )
    return load


def _sized(problem: PlacementProblem, c: int, load: Floats) -> tuple[Sizes, float, bool]:
    """The size that bears a load, its price, and True; where none does, the largest and False."""
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
        raise InfeasibleError(f"{candidate} cannot hold what is placed on it", "")
    return *best, False


def rule_context(planner: Planner, tps: float) -> RuleContext:
    """What the rules work on at one throughput."""
    response_us = response_budget_us(planner.workload, tps)
    response_ms = None if response_us is None else response_us / 1000
    return RuleContext(planner, planner.unlimited(tps), response_ms)


def quoted(rule: Rule, context: RuleContext) -> Quote:
    """A rule's volumes, each sized for what is placed on it.

    Raises InfeasibleError where the platform does not sell what the rule asks for.
    """
    problem, assignment = context.problem, rule(context)
    load = _loads(problem, assignment)
    volumes = [_sized(problem, c, load[c]) for c in _used(assignment)]
    return Quote(assignment, tuple(one for one, _, _ in volumes), sum(usd for _, usd, _ in volumes))


def layout(quote: Quote, context: RuleContext) -> Layout:
    """The layout that was bought."""
    placed = PlacementSolution(
        item_candidate=quote.assignment.items,
        special_candidate=quote.assignment.special_items,
        volumes=quote.volumes,
        usd_month=quote.usd_month,
        bound_usd=0.0,
    )
    solution = solution_of(context.problem, placed, context.planner.demands)
    return layout_of(context.planner.base, solution)
