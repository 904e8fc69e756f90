"""The pricing step: at given dual prices, each item's cheapest candidate, and the sums.

It is the only part whose work grows with the number of items.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgstow.planning.placement.grouping import Groups
from pgstow.planning.placement.problem import Bools, Floats, PlacementProblem, product

Choices = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class PricingResult:
    """Of each group: its items' least cost, and their demand by the candidate chosen."""

    cost: Floats  # groups
    load: Floats  # groups × candidates × resources
    choice: Choices  # items, in the groups' order


def unit_costs(problem: PlacementProblem, dual_prices: Floats) -> Floats:
    """Item classes × resources × candidates: what a unit of demand costs; infinite: not allowed."""
    per_demand = np.einsum("cu,cuk->kc", dual_prices, problem.use_per_demand)
    every = np.repeat(per_demand[None], problem.item_classes.count, axis=0)
    every[:, 0, :] += problem.class_move_usd
    return every


def price_out(
    problem: PlacementProblem, groups: Groups, dual_prices: Floats, is_open: Bools
) -> PricingResult:
    """Place every item where it costs least; ``dual_prices`` are candidates × USES.

    An item class with no open candidate costs infinity.
    """
    candidates, resources = len(problem.candidates), groups.demand.shape[1]
    every = unit_costs(problem, dual_prices)
    choice = np.zeros(len(groups.order), dtype=np.uint8)
    cost = np.zeros(groups.count)
    load = np.zeros((groups.count, candidates, resources))
    first = 0
    while first < groups.count:
        item_class = groups.item_class[first]
        last = first + int(np.argmax(np.append(groups.item_class[first:] != item_class, True)))
        begin, end = groups.start[first], groups.start[last]
        allowed = np.nonzero(problem.item_classes.allowed[item_class] & is_open)[0]
        if not len(allowed):
            cost[first:last] = np.inf
            first = last
            continue
        demand = groups.demand[begin:end]
        costs = product(demand, every[item_class][:, allowed])
        best = np.argmin(costs, axis=1)
        starts = groups.start[first:last] - begin
        cost[first:last] = np.add.reduceat(
            np.take_along_axis(costs, best[:, None], axis=1)[:, 0], starts
        )
        choice[begin:end] = allowed[best]
        group_of = np.repeat(np.arange(last - first), np.diff(groups.start[first : last + 1]))
        cell = group_of * candidates + choice[begin:end]
        for resource in range(resources):
            sums = np.bincount(cell, demand[:, resource], (last - first) * candidates)
            load[first:last, :, resource] = sums.reshape(-1, candidates)
        first = last
    return PricingResult(cost, load, choice)
