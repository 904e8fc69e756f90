"""Placement when only so much may move: by the exact programme, or by a price on moving.

With a price of l dollars on each GiB that moves, the bound of the priced problem less l times the
limit is a bound of the limited one (Lagrangian duality), and the dearest price that is needed gives
an answer within the limit.
"""

from dataclasses import replace

import numpy as np

from pgstow.planning.placement.problem import GIB, Kinds, Placed, PlacementProblem, Singles
from pgstow.planning.placement.solver import is_small, place

_ROUNDS = 12
_NEAR = 1.05  # prices on moving within this factor are the same
_HIGHEST_USD_PER_GIB = 100.0  # over any volume's price of a GiB, its I/O included


def moved_gib(problem: PlacementProblem, placed: Placed) -> float:
    """How much of an answer lies elsewhere than now."""
    items, singles = problem.items, problem.singles
    moves = problem.kinds.move_usd_per_gib[items.kind, placed.item_shape] > 0
    own = float(items.demand[moves, 0].sum())
    each = np.arange(singles.count)
    at = placed.single_shape[: singles.count]
    others = singles.use[each, at, GIB] * (singles.move_usd[each, at] > 0)
    return own + float(others.sum())


def place_within(problem: PlacementProblem, *, gap: float | None = None) -> Placed | None:
    """The cheapest assignment that moves no more than ``problem.max_move_gib``."""
    limit = problem.max_move_gib
    if limit is None or is_small(problem):
        return place(problem, gap=gap)
    low, high = 0.0, _HIGHEST_USD_PER_GIB
    best: Placed | None = None
    bound = -np.inf
    for number in range(_ROUNDS):
        if low > 0 and high / low < _NEAR:
            break
        # the free price first: mostly the limit does not bind
        usd = 0.0 if number == 0 else high if number == 1 else (low * high) ** 0.5 or high / 1e4
        placed = place(_priced(problem, usd), gap=gap)
        if placed is None:
            return best
        moved = moved_gib(problem, placed)
        bound = max(bound, placed.bound_usd - usd * limit)
        true_usd = placed.usd_month - usd * moved
        if moved <= limit * (1 + 1e-9):
            high = usd
            if best is None or true_usd < best.usd_month:
                best = replace(placed, usd_month=true_usd)
            if number == 0:
                break
        else:
            low = usd
            if number == 1:
                return None
    return None if best is None else replace(best, bound_usd=min(bound, best.usd_month))


def _priced(problem: PlacementProblem, usd_per_gib: float) -> PlacementProblem:
    """The problem without the limit, with so many dollars more for every GiB that moves."""
    if usd_per_gib == 0.0:
        return replace(problem, max_move_gib=None)
    kinds, singles = problem.kinds, problem.singles
    extra = np.where(kinds.move_usd_per_gib > 0, usd_per_gib, 0.0)
    own = np.where(singles.move_usd > 0, usd_per_gib * singles.use[:, :, GIB], 0.0)
    return replace(
        problem,
        max_move_gib=None,
        kinds=Kinds(kinds.allowed, kinds.move_usd_per_gib + extra),
        singles=Singles(singles.use, singles.allowed, singles.move_usd + own, singles.alone),
    )
