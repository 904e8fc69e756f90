"""Place and size: exactly where there is little; by bound, search and recovery where not."""

from dataclasses import dataclass, replace

import numpy as np

from pgstow.planning.placement.branching import Search
from pgstow.planning.placement.exact import Units, arrange
from pgstow.planning.placement.grouping import group
from pgstow.planning.placement.master import Master
from pgstow.planning.placement.problem import USES, Placed, PlacementProblem

_EXACT_MAX = 2_500  # units × shapes that HiGHS is given whole
_GAP = 2e-4  # of the price, wanted
_NODES_MAX = 300


def place(
    problem: PlacementProblem, *, gap: float | None = None, exact_max: int = _EXACT_MAX
) -> Placed | None:
    """The cheapest assignment and sizing with a bound, or None where none was found.

    Up to ``exact_max`` units × shapes go to HiGHS whole. The search may end at ``gap``, a share of
    the price; without one the whole is solved to the end, and more to a gap of two in ten thousand.
    """
    if is_small(problem, exact_max):
        return place_exactly(problem, gap or 0.0)
    groups = group(problem)
    master = Master(problem, groups)
    search = Search(master, 0.8 * (gap or _GAP), _NODES_MAX)
    bound = search.run()
    if search.best is None:
        return None
    return replace(search.best, bound_usd=min(bound, search.best.usd_month))


def is_small(problem: PlacementProblem, exact_max: int = _EXACT_MAX) -> bool:
    """Whether HiGHS is given the problem whole."""
    units = problem.items.count + problem.singles.count
    return units * len(problem.shapes) <= exact_max


@dataclass(slots=True)
class Series:
    """Problems that differ in pace, response time and singles alone, one after the other.

    Groups and columns are kept, so that each costs a fraction of the first.
    """

    master: Master

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Series":
        """Begin with one of the problems."""
        return cls(Master(problem, group(problem)))

    def place(self, problem: PlacementProblem, *, gap: float, nodes_max: int) -> Placed | None:
        """The next one; see :func:`place`. Not more than ``nodes_max`` branches are looked at."""
        self.master.change(problem)
        search = Search(self.master, 0.8 * gap, nodes_max)
        bound = search.run()
        if search.best is None:
            return None
        return replace(search.best, bound_usd=min(bound, search.best.usd_month))


def place_exactly(problem: PlacementProblem, gap: float = 0.0) -> Placed | None:
    """The whole problem by HiGHS: every unit a variable for each shape."""
    items, singles, shapes = problem.items, problem.singles, len(problem.shapes)
    use = np.einsum("cuk,ik->icu", problem.use_per_demand, items.demand)
    units = Units(
        np.concatenate((use, singles.use)),
        np.concatenate((problem.kinds.allowed[items.kind], singles.allowed)),
        np.concatenate(
            (problem.kinds.move_usd_per_gib[items.kind] * items.demand[:, :1], singles.move_usd)
        ),
        frozenset(items.count + one for one in singles.alone),
    )
    found = arrange(problem, units, np.zeros((shapes, USES)), gap=gap)
    if found is None:
        return None
    return Placed(
        item_shape=found.shape[: items.count],
        single_shape=found.shape[items.count :],
        volumes=found.volumes,
        usd_month=found.usd_month,
        bound_usd=min(found.bound_usd, found.usd_month),
    )
