"""From shares to whole items: fix the clear ones, give the contested ones to the exact model.

In the relaxation's solution all but a few groups are placed as one column says. Of the others,
items that all their columns place alike are clear too. The rest are cut in the order of what they
gain, so that each candidate gets its share; then some of them, of all sizes, are placed again
exactly, around the loads of everything else.
"""

from dataclasses import dataclass, replace

import numpy as np

from pgstow.planning.placement.exact import SearchLimits, Units, solve_milp
from pgstow.planning.placement.grouping import Groups
from pgstow.planning.placement.master import Master
from pgstow.planning.placement.pricing import unit_costs
from pgstow.planning.placement.problem import (
    USES,
    WAIT,
    Bools,
    Floats,
    Ints,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    product,
)
from pgstow.planning.placement.repair import repaired
from pgstow.planning.placement.sizing import keeps_shared, sizes


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the exact model; ``is_last_resort``: only where nothing was found before."""

    contested_max: int
    node_limit: int
    seconds_max: float
    is_last_resort: bool = False


QUICK = (Step(30, 60, 0.2), Step(80, 100, 0.5), Step(240, 1000, 4.0, is_last_resort=True))
ROUNDED: tuple[Step, ...] = ()  # only rounding, and moves of single items
THOROUGH = (Step(80, 1000, 2.0), Step(240, 1000, 4.0))
_REPAIRED_MAX = 5000  # items that may move one by one
_SHARE_MIN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _Rounded:
    """An assignment in the groups' order, and which items were not clear."""

    candidate: Ints
    is_contested: Bools


def recover(
    master: Master,
    is_open: Bools,
    dual_prices: Floats,
    *,
    gap_usd: float,
    objective_target: float,
    steps: tuple[Step, ...] = QUICK,
) -> PlacementSolution | None:
    """Whole items from the master's current solution, not bounded; None where none was found.

    The search ends within ``gap_usd`` of its best, or at ``objective_target``.
    """
    problem, groups = master.problem, master.groups
    allowed = problem.item_classes.allowed & is_open
    allowed = allowed & ~_held_exclusively(master)
    rounded = _round(master, dual_prices, allowed)
    best = _as_rounded(master, rounded.candidate, is_open)
    if best is not None and best.usd_month <= objective_target:
        return _in_own_order(best, groups, dual_prices)
    ranked = _ranked(problem, groups, rounded, dual_prices, allowed)
    fitting = _fitted(master, rounded.candidate, ranked[:_REPAIRED_MAX], dual_prices, allowed)
    better = _as_rounded(master, fitting, is_open)
    if better is not None and (best is None or better.usd_month < best.usd_month):
        best = better
    for step in steps:
        if best is not None and (best.usd_month <= objective_target or step.is_last_resort):
            break
        contested = ranked[: step.contested_max]
        units, base, base_usd = _around(problem, groups, rounded.candidate, contested, allowed)
        search_limits = SearchLimits(step.node_limit, step.seconds_max, objective_target - base_usd)
        found = solve_milp(
            problem, units, base, is_open=is_open, gap_usd=gap_usd, search_limits=search_limits
        )
        if isinstance(found, NoSolution):
            continue
        if best is None or found.usd_month + base_usd < best.usd_month:
            candidate = rounded.candidate.copy()
            candidate[contested] = found.candidate[: len(contested)]
            best = PlacementSolution(
                item_candidate=candidate,
                special_candidate=found.candidate[len(contested) :],
                volumes=found.volumes,
                usd_month=found.usd_month + base_usd,
                bound_usd=-np.inf,
            )
        if found.bound_usd > search_limits.objective_target:
            break  # more to place would hardly help either
    return None if best is None else _in_own_order(best, groups, dual_prices)


def _in_own_order(
    placed: PlacementSolution, groups: Groups, dual_prices: Floats
) -> PlacementSolution:
    """With items in the problem's order, not the groups'."""
    item_candidate = np.empty(len(groups.order), dtype=np.int64)
    item_candidate[groups.order] = placed.item_candidate
    return replace(placed, item_candidate=item_candidate, dual_prices=dual_prices)


def _fitted(
    master: Master, candidate: Ints, movable: Ints, dual_prices: Floats, allowed: Bools
) -> Ints:
    """The rounded assignment after single items were moved to fit the response time."""
    problem, groups = master.problem, master.groups
    if problem.response_ms is None:
        return candidate
    class_of_item = np.repeat(groups.item_class, np.diff(groups.start))
    waits = float(_uses(master, candidate, _special_items(master))[:, WAIT].sum())
    moved = candidate.copy()
    moved[movable] = repaired(
        problem,
        groups.demand[movable],
        class_of_item[movable],
        candidate[movable],
        allowed=allowed,
        dual_prices=dual_prices,
        left_ms=problem.response_ms - waits,
    )
    return moved


def _special_items(master: Master) -> Ints:
    """The candidate that has most of each special item."""
    special_items, first = master.problem.special_items, master.groups.count
    share = np.zeros(special_items.allowed.shape)
    shares = master.shares()
    for (row, c), column in master.whole.items():
        if row >= first:
            share[row - first, c] = shares[column]
    return np.argmax(share, axis=1) if special_items.count else np.zeros(0, dtype=np.int64)


def _uses(master: Master, candidate: Ints, special: Ints) -> Floats:
    """The uses on each candidate: candidates × USES."""
    problem, demand = master.problem, master.groups.demand
    candidates, resources = len(problem.candidates), demand.shape[1]
    load = np.stack(
        [np.bincount(candidate, demand[:, k], candidates) for k in range(resources)], axis=1
    )
    use: Floats = np.einsum("cuk,ck->cu", problem.use_per_demand, load)
    special_items = problem.special_items
    np.add.at(use, special, special_items.use[np.arange(special_items.count), special])
    return use


def _as_rounded(master: Master, candidate: Ints, is_open: Bools) -> PlacementSolution | None:
    """The rounded assignment as it is, special items whole; None if it breaks a limit."""
    problem, groups = master.problem, master.groups
    special_items, special = problem.special_items, _special_items(master)
    use = _uses(master, candidate, special)
    if special_items.exclusive or not keeps_shared(problem, use):
        return None
    bought = [sizes(problem, c, use[c]) for c in np.nonzero(is_open)[0].tolist()]
    if any(one is None for one in bought):
        return None
    class_of_item = np.repeat(groups.item_class, np.diff(groups.start))
    moves = float((problem.class_move_usd[class_of_item, candidate] * groups.demand[:, 0]).sum())
    moves += float(problem.special_move_usd[np.arange(special_items.count), special].sum())
    return PlacementSolution(
        item_candidate=candidate,
        special_candidate=special,
        volumes=tuple(one[0] for one in bought if one),
        usd_month=moves + sum(one[1] for one in bought if one),
        bound_usd=-np.inf,
    )


def _held_exclusively(master: Master) -> Bools:
    """Candidates that hold an exclusive special item."""
    taken = np.zeros(len(master.problem.candidates), dtype=bool)
    share = master.shares()
    for column in np.nonzero(share > 0.5)[0].tolist():
        special = master.column_group[column] - master.groups.count
        if special in master.problem.special_items.exclusive and master.column_source[column] < 0:
            taken[-1 - master.column_source[column]] = True
    return taken


def _round(master: Master, dual_prices: Floats, allowed: Bools) -> _Rounded:
    groups = master.groups
    candidate = np.zeros(len(groups.order), dtype=np.int64)
    is_contested = np.zeros(len(groups.order), dtype=bool)
    share = master.shares()
    columns: dict[int, list[int]] = {}
    for column in np.nonzero(share > _SHARE_MIN)[0].tolist():
        if master.column_group[column] < groups.count and master.column_source[column] != 0:
            columns.setdefault(master.column_group[column], []).append(column)
    every = unit_costs(master.problem, dual_prices)
    for group in range(groups.count):
        items = slice(int(groups.start[group]), int(groups.start[group + 1]))
        mine = sorted(columns.get(group, []), key=lambda column: -share[column])
        options = np.array([_column_choice(master, c, items) for c in mine], dtype=np.int64)
        if len(mine) == 1:
            candidate[items] = options[0]
            continue
        if not mine:  # not placed: leave it to the exact model
            candidate[items] = int(np.argmax(allowed[groups.item_class[group]]))
            is_contested[items] = True
            continue
        differs = (options != options[0]).any(axis=0)
        cost = product(groups.demand[items], every[groups.item_class[group]])
        candidate[items] = _cut(options, share[mine], cost, differs)
        is_contested[items] = differs
    wrong = ~allowed[np.repeat(groups.item_class, np.diff(groups.start)), candidate]
    if wrong.any():
        class_of_item = np.repeat(groups.item_class, np.diff(groups.start))[wrong]
        candidate[wrong] = np.argmax(allowed[class_of_item], axis=1)
        is_contested |= wrong
    return _Rounded(candidate, is_contested)


def _column_choice(master: Master, column: int, items: slice) -> Ints:
    assigned = master.assignment(column)
    if isinstance(assigned, int):
        return np.full(items.stop - items.start, assigned, dtype=np.int64)
    return assigned[items].astype(np.int64)


def _cut(options: Ints, share: Floats, cost: Floats, differs: Bools) -> Ints:
    """One option for each item, so that each option gets its share of what is contested.

    Items on which the options differ alike are taken in the order of what the first gains over
    the last, and cut by the shares, with sizes measured at the dual prices.
    """
    candidate: Ints = options[0].copy()
    if not differs.any():
        return candidate
    share = share / share.sum()
    contested = np.nonzero(differs)[0]
    patterns, pattern_of = np.unique(options[:, contested], axis=1, return_inverse=True)
    for pattern in range(patterns.shape[1]):
        items = contested[pattern_of.ravel() == pattern]
        first, last = patterns[0, pattern], patterns[-1, pattern]
        size = np.maximum(cost[items].min(axis=1), 1e-12)
        gain = (cost[items, last] - cost[items, first]) / size
        order = np.argsort(-gain, kind="stable")
        within = np.cumsum(size[order])
        middle = (within - size[order] / 2) / within[-1]
        option = np.searchsorted(np.cumsum(share)[:-1], middle)
        candidate[items[order]] = patterns[option, pattern]
    return candidate


def _ranked(
    problem: PlacementProblem,
    groups: Groups,
    rounded: _Rounded,
    dual_prices: Floats,
    allowed: Bools,
) -> Ints:
    """Items in the order in which the exact model should have them.

    First the contested, the largest and then some of each size; then clear ones, by how little
    they gain over their second best candidate, for their size.
    """
    every = unit_costs(problem, dual_prices)
    class_of_item = np.repeat(groups.item_class, np.diff(groups.start))
    best = np.full(len(class_of_item), np.inf)
    second = np.full(len(class_of_item), np.inf)
    for item_class in range(problem.item_classes.count):
        of_class = np.nonzero(class_of_item == item_class)[0]
        if not len(of_class):
            continue
        cost = product(groups.demand[of_class], every[item_class])
        cost[:, ~allowed[item_class]] = np.inf
        two = np.partition(cost, min(1, cost.shape[1] - 1), axis=1)
        best[of_class], second[of_class] = two[:, 0], two[:, min(1, cost.shape[1] - 1)]
    contested = np.nonzero(rounded.is_contested)[0]
    by_size = contested[np.argsort(-best[contested], kind="stable")]
    spread = np.unique(np.linspace(0, max(len(by_size) - 1, 0), 60).astype(np.int64))
    chosen = [by_size[:30], by_size[spread] if len(by_size) else by_size]
    with np.errstate(invalid="ignore"):  # where no open candidate is allowed
        margin = np.nan_to_num(second - best, nan=np.inf, posinf=np.inf)
        loose = margin / np.maximum(best, 1e-12)
    clear = np.argsort(loose, kind="stable")[:2000]
    chosen += [clear[np.argsort(-best[clear], kind="stable")][:20], by_size, clear]
    ranked = np.concatenate(chosen)
    _, first = np.unique(ranked, return_index=True)
    return np.asarray(ranked[np.sort(first)])


def _around(
    problem: PlacementProblem, groups: Groups, candidate: Ints, contested: Ints, allowed: Bools
) -> tuple[Units, Floats, float]:
    """The contested and special items as units, the rest's load, and what its moves cost."""
    candidates, resources = len(problem.candidates), groups.demand.shape[1]
    class_of_item = np.repeat(groups.item_class, np.diff(groups.start))
    is_fixed = np.ones(len(candidate), dtype=bool)
    is_fixed[contested] = False
    demand = groups.demand[is_fixed]
    load = np.stack(
        [np.bincount(candidate[is_fixed], demand[:, k], candidates) for k in range(resources)],
        axis=1,
    )
    base = np.einsum("cuk,ck->cu", problem.use_per_demand, load)
    moved = problem.class_move_usd[class_of_item[is_fixed], candidate[is_fixed]] * demand[:, 0]
    mine = groups.demand[contested]
    special_items = problem.special_items
    use = np.concatenate(
        (np.einsum("cuk,ik->icu", problem.use_per_demand, mine), special_items.use)
    )
    may = np.concatenate((allowed[class_of_item[contested]], special_items.allowed))
    is_moved = np.concatenate(
        (problem.item_classes.is_moved[class_of_item[contested]], special_items.is_moved)
    )
    exclusive = frozenset(len(contested) + one for one in special_items.exclusive)
    units = Units(use.reshape(-1, candidates, USES), may, is_moved, exclusive)
    return units, base, float(moved.sum())
