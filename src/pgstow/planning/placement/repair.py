"""Move single items so that a rounded assignment waits no longer than it may, at the least price.

Rounding leaves the sum of waits a little over or under its limit. Over it, items go where they
wait less, those first that cost least for each millisecond; under it, they go where they cost less,
as long as they fit. Costs are by the master's dual prices, so the result is priced afterwards.
"""

import numpy as np

from pgstow.planning.placement.pricing import unit_costs
from pgstow.planning.placement.problem import (
    WAIT,
    Bools,
    Floats,
    Ints,
    PlacementProblem,
    product,
)

_PASSES = 6
_ENOUGH = 1e-9  # of a cost or a wait


def repaired(
    problem: PlacementProblem,
    demand: Floats,
    item_class: Ints,
    candidate: Ints,
    *,
    allowed: Bools,
    dual_prices: Floats,
    left_ms: float,
) -> Ints:
    """The items' candidates; waits change by ``left_ms`` at most (less than 0: must shrink).

    ``demand`` (items × resources), ``item_class`` and ``candidate`` are the items'; ``allowed`` is
    item classes × candidates, ``dual_prices`` candidates × USES.
    """
    free = dual_prices.copy()
    free[:, WAIT] = 0.0
    every = unit_costs(problem, free)
    cost = np.empty((len(demand), len(problem.candidates)))
    for one in np.unique(item_class).tolist():
        mine = item_class == one
        cost[mine] = product(demand[mine], every[one])
        cost[np.ix_(mine, ~allowed[one])] = np.inf
    wait = product(demand, problem.use_per_demand[:, WAIT].T)
    found = candidate.copy()
    for _ in range(_PASSES):
        moved_ms = _quicker(cost, wait, found, -left_ms) if left_ms < 0 else 0.0
        left_ms += moved_ms
        taken_ms = _cheaper(cost, wait, found, left_ms)
        left_ms -= taken_ms
        if moved_ms == 0.0 and taken_ms == 0.0:
            break
    return found


def _quicker(cost: Floats, wait: Floats, candidate: Ints, over_ms: float) -> float:
    """Shorten the waits by ``over_ms`` or more, where that can be; how much they are shorter."""
    every = np.arange(len(candidate))
    less = wait[every, candidate][:, None] - wait
    # an item that is not allowed where it is stays
    with np.errstate(invalid="ignore", divide="ignore"):
        more = cost - cost[every, candidate][:, None]
        ratio = np.where((less > _ENOUGH) & np.isfinite(more), more / less, np.inf)
    best = np.argmin(ratio, axis=1)
    order = np.argsort(ratio[every, best], kind="stable")
    order = order[np.isfinite(ratio[order, best[order]])]
    gain = less[order, best[order]]
    before = np.cumsum(gain) - gain
    needed = order[before < over_ms]
    # the last one may do far more than is needed: a smaller one behind it may do as well
    if len(needed):
        rest = over_ms - before[len(needed) - 1]
        behind = np.arange(len(needed) - 1, len(order))
        enough = behind[gain[behind] >= rest]
        price = more[order[enough], best[order[enough]]]
        needed[-1] = order[enough[np.argmin(price)]] if len(enough) else needed[-1]
    candidate[needed] = best[needed]
    return float(less[needed, best[needed]].sum())


def _cheaper(cost: Floats, wait: Floats, candidate: Ints, left_ms: float) -> float:
    """Make what is cheaper elsewhere wait more, within ``left_ms``; how much more that is."""
    every = np.arange(len(candidate))
    more = wait - wait[every, candidate][:, None]
    with np.errstate(invalid="ignore"):
        less = cost[every, candidate][:, None] - cost
    less[~np.isfinite(less) | (less <= _ENOUGH)] = 0.0
    ratio = np.where(less > 0, less / np.maximum(more, _ENOUGH), 0.0)
    ratio[more > left_ms] = 0.0
    best = np.argmax(ratio, axis=1)
    order = np.argsort(-ratio[every, best], kind="stable")
    order = order[ratio[order, best[order]] > 0]
    taken_ms = 0.0
    for item in order.tolist():
        asked = float(more[item, best[item]])
        if taken_ms + asked <= left_ms:
            candidate[item] = best[item]
            taken_ms += asked
    return taken_ms
