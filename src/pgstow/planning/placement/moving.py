"""Placement when only so much may move: by the exact model, or by a price on moving.

With a price of l dollars on each GiB that moves, the bound of the priced problem less l times the
limit is a bound of the limited one (Lagrangian duality). Around the price at which as much moves
as may, whole clusters of relations go or stay together. So where a solution moves too much, what
gains least for each GiB stays on its current volume.
"""

from dataclasses import replace

import numpy as np

from pgstow.planning.placement.exact import SOLVE_SECONDS
from pgstow.planning.placement.pricing import unit_costs
from pgstow.planning.placement.problem import (
    GIB,
    Bools,
    Ints,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    moved_gib,
)
from pgstow.planning.placement.sizing import keeps_shared, sizes
from pgstow.planning.placement.solver import is_small, place

_ROUNDS = 12
_LEAST_GIB = 1e-6
_NEAR = 1.05  # prices on moving within this factor are the same
_HIGHEST_USD_PER_GIB = 100.0  # over any volume's price of a GiB, its I/O included
_WITHIN = 1 + 1e-9


def place_within(
    problem: PlacementProblem,
    *,
    gap: float | None = None,
    seconds_max: float = SOLVE_SECONDS,
    breaks_ties: bool = True,
    within_usd: float | None = None,
) -> PlacementSolution | NoSolution:
    """The cheapest assignment that moves no more than ``problem.max_move_gib``.

    With ``within_usd``, the first one found that costs no more.
    """
    limit = problem.max_move_gib
    if limit is not None and limit >= _everything_gib(problem):
        problem, limit = replace(problem, max_move_gib=None), None
    if limit == 0.0:
        problem, limit = _staying(problem), None
    if limit is None or is_small(problem):
        return place(
            problem,
            gap=gap,
            seconds_max=seconds_max,
            breaks_ties=breaks_ties,
            within_usd=within_usd,
        )
    free = place(replace(problem, max_move_gib=None), gap=gap)
    if isinstance(free, NoSolution) or moved_gib(problem, free) <= limit * _WITHIN:
        return free
    return _limited(problem, limit, free, gap)


def _everything_gib(problem: PlacementProblem) -> float:
    """All that could move."""
    special_items = problem.special_items
    return float(problem.items.demand[:, 0].sum() + special_items.use[:, :, GIB].max(axis=1).sum())


def _staying(problem: PlacementProblem) -> PlacementProblem:
    """The problem in which everything stays on its current volume."""
    item_classes, special_items = problem.item_classes, problem.special_items
    return replace(
        problem,
        max_move_gib=None,
        item_classes=replace(item_classes, allowed=item_classes.allowed & ~item_classes.is_moved),
        special_items=replace(
            special_items, allowed=special_items.allowed & ~special_items.is_moved
        ),
    )


def _limited(
    problem: PlacementProblem, limit: float, free: PlacementSolution, gap: float | None
) -> PlacementSolution | NoSolution:
    """By a price on moving, between nothing, at which too much moves, and a prohibitive one."""
    best, bound = _trimmed(problem, free, limit), free.bound_usd
    low, high = 0.0, _HIGHEST_USD_PER_GIB
    for number in range(_ROUNDS):
        if low > 0 and high / low < _NEAR:
            break
        usd = high if number == 0 else (low * high) ** 0.5 or high / 1e4
        placed = place(_priced(problem, usd), gap=gap)
        if isinstance(placed, NoSolution):
            break
        moved = moved_gib(problem, placed)
        bound = max(bound, placed.bound_usd - usd * limit)
        placed = replace(placed, usd_month=placed.usd_month - usd * moved)
        if moved <= limit * _WITHIN:
            high = usd
            fitting: PlacementSolution | None = placed
        else:
            low = usd
            fitting = _trimmed(problem, placed, limit)
        if fitting is not None and (best is None or fitting.usd_month < best.usd_month):
            best = fitting
        if low == _HIGHEST_USD_PER_GIB:
            break
    if best is None:
        is_proved = _least_gib(problem) > limit * _WITHIN
        return NoSolution.INFEASIBLE if is_proved else NoSolution.NOT_FOUND
    return replace(best, bound_usd=min(bound, best.usd_month))


def _least_gib(problem: PlacementProblem) -> float:
    """A bound on what has to move at the least, where nothing else costs anything."""
    free = replace(problem, is_priced=False, max_move_gib=None, move_usd_per_gib=1.0)
    least = place(free)
    return 0.0 if isinstance(least, NoSolution) else least.bound_usd


def _trimmed(
    problem: PlacementProblem, placed: PlacementSolution, limit_gib: float
) -> PlacementSolution | None:
    """The solution without the moves that gain least per GiB; None: it then misses a limit."""
    items, item_classes, special_items = problem.items, problem.item_classes, problem.special_items
    each = np.arange(special_items.count)
    special = placed.special_candidate[: special_items.count]
    moved = special_items.use[each, special, GIB] * special_items.is_moved[each, special]
    left = limit_gib - float(moved.sum())
    if placed.dual_prices.size == 0 or left < 0:
        return None
    is_open = np.zeros(len(problem.candidates), dtype=bool)
    is_open[[one.candidate for one in placed.volumes]] = True
    at_current: Bools = item_classes.allowed & is_open & ~item_classes.is_moved
    at_current[:, special[list(special_items.exclusive)]] = False
    current = np.argmax(at_current, axis=1)[items.item_class]
    there = placed.item_candidate
    moves = item_classes.is_moved[items.item_class, there]
    may_stay: Bools = np.any(at_current, axis=1)
    if not may_stay[items.item_class[moves]].all():
        return None
    costs = unit_costs(problem, placed.dual_prices)
    gain = (
        items.demand * (costs[items.item_class, :, current] - costs[items.item_class, :, there])
    ).sum(axis=1)
    gib = items.demand[:, 0]
    candidate = np.where(moves, current, there)
    for item in np.argsort(-gain / np.maximum(gib, _LEAST_GIB), kind="stable").tolist():
        if moves[item] and gib[item] <= left:
            left -= gib[item]
            candidate[item] = there[item]
    return _sized(problem, candidate, special, placed)


def _sized(
    problem: PlacementProblem, candidate: Ints, special: Ints, like: PlacementSolution
) -> PlacementSolution | None:
    """An assignment with its least sizes on the volumes of another solution."""
    items, special_items = problem.items, problem.special_items
    candidates, each = len(problem.candidates), np.arange(problem.special_items.count)
    demand = np.stack(
        [np.bincount(candidate, column, candidates) for column in items.demand.T], axis=1
    )
    load = np.einsum("cuk,ck->cu", problem.use_per_demand, demand)
    np.add.at(load, special, special_items.use[each, special])
    if not keeps_shared(problem, load):
        return None
    bought = [sizes(problem, one.candidate, load[one.candidate]) for one in like.volumes]
    found = [one for one in bought if one is not None]
    if len(found) < len(bought):
        return None
    return replace(
        like,
        item_candidate=candidate,
        volumes=tuple(size for size, _ in found),
        usd_month=sum(usd for _, usd in found),
        bound_usd=-np.inf,
    )


def _priced(problem: PlacementProblem, usd_per_gib: float) -> PlacementProblem:
    """The problem without the limit, with so many dollars for every GiB that moves."""
    return replace(problem, max_move_gib=None, move_usd_per_gib=usd_per_gib)
