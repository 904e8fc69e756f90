"""Items in groups of like demand, in the order the pricing pass reads them.

Each group has a convexity row of its own in the master problem. Any grouping is exact; one that
puts like with like converges in few rounds, as most groups are then placed whole on one candidate.
"""

from dataclasses import dataclass

import numpy as np

from pgstow.planning.placement.problem import Floats, Ints, PlacementProblem, product

_FEW, _SOME = 3_000, 30_000
_LARGE = 40  # items of the largest size, and of the largest demand, that are groups of their own
_SHARES = 2  # steps of each resource's share of the demand that is not size


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """``order`` sorts items by group; group g's are start[g] to start[g+1] of it."""

    order: Ints
    start: Ints
    item_class: Ints  # of each group
    demand: Floats  # items × resources, in ``order``
    total: Floats  # groups × resources
    sizes: Ints  # how many items each group has

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.item_class)


def group(problem: PlacementProblem) -> Groups:
    """Group by item class, by density (demand per GiB), and by what the demand consists of."""
    demand, item_class = problem.items.demand, problem.items.item_class
    rates = product(demand[:, 1:], _weights(demand)[:, None])[:, 0]
    density = _levels(demand[:, 0], rates, _density_levels(len(item_class)))
    key = density.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        for resource in range(1, demand.shape[1]):
            weight = _weights(demand)[resource - 1]
            share = np.where(rates > 0, demand[:, resource] * weight / rates, 0.0)
            key = key * (_SHARES + 1) + np.round(share * _SHARES).astype(np.int64)
    large = _large(demand[:, 0], rates)
    key[large] = key.max(initial=0) + 1 + np.arange(len(large))
    # items of one group follow each other, and so do groups of one item class
    key += item_class * (key.max(initial=0) + 1)
    _, group_of = np.unique(key, return_inverse=True)
    group_of = group_of.astype(np.int32)
    order = np.argsort(group_of, kind="stable")
    counts = np.bincount(group_of)
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    ordered = np.ascontiguousarray(demand[order])
    total = np.add.reduceat(ordered, start[:-1], axis=0)
    return Groups(order, start, item_class[order[start[:-1]]], ordered, total, counts)


def _large(gib: Floats, rates: Floats) -> Ints:
    count = min(_LARGE, len(gib))
    both = (np.argpartition(-gib, count - 1)[:count], np.argpartition(-rates, count - 1)[:count])
    return np.unique(np.concatenate(both))


def _weights(demand: Floats) -> Floats:
    """What makes resources comparable: each one's total over all items is worth as much."""
    total = demand[:, 1:].sum(axis=0)
    with np.errstate(divide="ignore"):
        weights: Floats = np.where(total > 0, 1.0 / total, 0.0)
    return weights


def _density_levels(items: int) -> int:
    if items <= _FEW:
        return 8
    return 16 if items <= _SOME else 24


def _levels(gib: Floats, rates: Floats, levels: int) -> Ints:
    """Quantiles of density, each with as much of the size and of the demand; 0: no demand."""
    is_busy = rates > 0
    level = np.zeros(len(gib), dtype=np.int64)
    if not is_busy.any():
        return level
    with np.errstate(divide="ignore"):
        density = np.log(rates[is_busy]) - np.log(np.maximum(gib[is_busy], 1e-9))
    by_density = np.argsort(density)
    weight = gib[is_busy] / max(gib.sum(), 1e-9) + rates[is_busy] / rates.sum()
    within = np.cumsum(weight[by_density])
    quantile = np.minimum((within / within[-1] * levels).astype(np.int64), levels - 1)
    busy_level = np.empty(len(density), dtype=np.int64)
    busy_level[by_density] = quantile + 1
    level[is_busy] = busy_level
    return level
