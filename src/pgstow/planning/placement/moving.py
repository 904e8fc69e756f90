"""Placement when only so much may move: by the exact programme, or by a price on moving.

With a price of l dollars on each GiB that moves, the bound of the priced problem less l times the
limit is a bound of the limited one (Lagrangian duality). Around the price at which as much moves
as may, whole clusters of relations go or stay together. So of an answer that moves too much, what
gains least for each GiB is left at home.
"""

from dataclasses import replace

import numpy as np

from pgstow.planning.placement.pricing import weights
from pgstow.planning.placement.problem import GIB, Ints, Kinds, Placed, PlacementProblem, Singles
from pgstow.planning.placement.sizing import keeps_shared, sizes
from pgstow.planning.placement.solver import is_small, place

_ROUNDS = 12
_LEAST_GIB = 1e-6
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
            trimmed = _trimmed(problem, placed, limit)
            if trimmed is not None and (best is None or trimmed.usd_month < best.usd_month):
                best = trimmed
    return None if best is None else replace(best, bound_usd=min(bound, best.usd_month))


def _trimmed(problem: PlacementProblem, placed: Placed, limit_gib: float) -> Placed | None:
    """The answer with what gains least for its size left at home; None: a limit is missed."""
    items, kinds, singles = problem.items, problem.kinds, problem.singles
    each = np.arange(singles.count)
    single = placed.single_shape[: singles.count]
    moved = singles.use[each, single, GIB] * (singles.move_usd[each, single] > 0)
    left = limit_gib - float(moved.sum())
    if placed.prices.size == 0 or left < 0:
        return None
    is_open = np.zeros(len(problem.shapes), dtype=bool)
    is_open[[one.shape for one in placed.volumes]] = True
    at_home = kinds.allowed & is_open & (kinds.move_usd_per_gib == 0)
    at_home[:, single[list(singles.alone)]] = False
    home = np.argmax(at_home, axis=1)[items.kind]
    there = placed.item_shape
    moves = kinds.move_usd_per_gib[items.kind, there] > 0
    if not at_home.any(axis=1)[items.kind[moves]].all():
        return None
    costs = weights(problem, placed.prices)
    gain = (items.demand * (costs[items.kind, :, home] - costs[items.kind, :, there])).sum(axis=1)
    gib = items.demand[:, 0]
    shape = np.where(moves, home, there)
    for item in np.argsort(-gain / np.maximum(gib, _LEAST_GIB), kind="stable").tolist():
        if moves[item] and gib[item] <= left:
            left -= gib[item]
            shape[item] = there[item]
    return _sized(problem, shape, single, placed)


def _sized(problem: PlacementProblem, shape: Ints, single: Ints, like: Placed) -> Placed | None:
    """An assignment with its least sizes on the volumes of another answer."""
    items, singles = problem.items, problem.singles
    shapes, each = len(problem.shapes), np.arange(problem.singles.count)
    demand = np.stack([np.bincount(shape, column, shapes) for column in items.demand.T], axis=1)
    load = np.einsum("cuk,ck->cu", problem.use_per_demand, demand)
    np.add.at(load, single, singles.use[each, single])
    if not keeps_shared(problem, load):
        return None
    bought = [sizes(problem, one.shape, load[one.shape]) for one in like.volumes]
    moves = float((problem.kinds.move_usd_per_gib[items.kind, shape] * items.demand[:, 0]).sum())
    moves += float(singles.move_usd[each, single].sum())
    found = [one for one in bought if one is not None]
    if len(found) < len(bought):
        return None
    return replace(
        like,
        item_shape=shape,
        volumes=tuple(size for size, _ in found),
        usd_month=moves + sum(usd for _, usd in found),
        bound_usd=-np.inf,
    )


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
