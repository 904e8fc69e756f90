"""Placement when only so much may move: by the exact programme, or by a price on moving.

With a price of l dollars on each GiB that moves, the bound of the priced problem less l times the
limit is a bound of the limited one (Lagrangian duality). Around the price at which as much moves
as may, whole clusters of relations go or stay together. So of an answer that moves too much, what
gains least for each GiB is left at home.
"""

from dataclasses import replace

import numpy as np

from pgstow.planning.placement.exact import SOLVE_SECONDS
from pgstow.planning.placement.pricing import unit_costs
from pgstow.planning.placement.problem import (
    GIB,
    Bools,
    Ints,
    Missing,
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
) -> PlacementSolution | Missing:
    """The cheapest assignment that moves no more than ``problem.max_move_gib``.

    With ``within_usd`` any that costs no more may do.
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
    if isinstance(free, Missing) or moved_gib(problem, free) <= limit * _WITHIN:
        return free
    return _limited(problem, limit, free, gap)


def _everything_gib(problem: PlacementProblem) -> float:
    """All that could move."""
    singles = problem.singles
    return float(problem.items.demand[:, 0].sum() + singles.use[:, :, GIB].max(axis=1).sum())


def _staying(problem: PlacementProblem) -> PlacementProblem:
    """The problem in which everything lies where it is."""
    kinds, singles = problem.kinds, problem.singles
    return replace(
        problem,
        max_move_gib=None,
        kinds=replace(kinds, allowed=kinds.allowed & ~kinds.away),
        singles=replace(singles, allowed=singles.allowed & ~singles.away),
    )


def _limited(
    problem: PlacementProblem, limit: float, free: PlacementSolution, gap: float | None
) -> PlacementSolution | Missing:
    """By a price on moving, between nothing, at which too much moves, and a prohibitive one."""
    best, bound = _trimmed(problem, free, limit), free.bound_usd
    low, high = 0.0, _HIGHEST_USD_PER_GIB
    for number in range(_ROUNDS):
        if low > 0 and high / low < _NEAR:
            break
        usd = high if number == 0 else (low * high) ** 0.5 or high / 1e4
        placed = place(_priced(problem, usd), gap=gap)
        if isinstance(placed, Missing):
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
        return Missing.INFEASIBLE if _least_gib(problem) > limit * _WITHIN else Missing.NOT_FOUND
    return replace(best, bound_usd=min(bound, best.usd_month))


def _least_gib(problem: PlacementProblem) -> float:
    """A bound on what has to move at the least, where nothing else costs anything."""
    free = replace(problem, is_priced=False, max_move_gib=None, move_usd_per_gib=1.0)
    least = place(free)
    return 0.0 if isinstance(least, Missing) else least.bound_usd


def _trimmed(
    problem: PlacementProblem, placed: PlacementSolution, limit_gib: float
) -> PlacementSolution | None:
    """The answer with what gains least for its size left at home; None: a limit is missed."""
    items, kinds, singles = problem.items, problem.kinds, problem.singles
    each = np.arange(singles.count)
    single = placed.special_candidate[: singles.count]
    moved = singles.use[each, single, GIB] * singles.away[each, single]
    left = limit_gib - float(moved.sum())
    if placed.prices.size == 0 or left < 0:
        return None
    is_open = np.zeros(len(problem.candidates), dtype=bool)
    is_open[[one.candidate for one in placed.volumes]] = True
    at_home: Bools = kinds.allowed & is_open & ~kinds.away
    at_home[:, single[list(singles.alone)]] = False
    home = np.argmax(at_home, axis=1)[items.kind]
    there = placed.item_candidate
    moves = kinds.away[items.kind, there]
    may_stay: Bools = np.any(at_home, axis=1)
    if not may_stay[items.kind[moves]].all():
        return None
    costs = unit_costs(problem, placed.prices)
    gain = (items.demand * (costs[items.kind, :, home] - costs[items.kind, :, there])).sum(axis=1)
    gib = items.demand[:, 0]
    candidate = np.where(moves, home, there)
    for item in np.argsort(-gain / np.maximum(gib, _LEAST_GIB), kind="stable").tolist():
        if moves[item] and gib[item] <= left:
            left -= gib[item]
            candidate[item] = there[item]
    return _sized(problem, candidate, single, placed)


def _sized(
    problem: PlacementProblem, candidate: Ints, single: Ints, like: PlacementSolution
) -> PlacementSolution | None:
    """An assignment with its least sizes on the volumes of another answer."""
    items, singles = problem.items, problem.singles
    candidates, each = len(problem.candidates), np.arange(problem.singles.count)
    demand = np.stack(
        [np.bincount(candidate, column, candidates) for column in items.demand.T], axis=1
    )
    load = np.einsum("cuk,ck->cu", problem.use_per_demand, demand)
    np.add.at(load, single, singles.use[each, single])
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
