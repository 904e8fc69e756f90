"""Place and size: exactly where there is little; by bound, search and recovery where not.

The bound is of the price alone. Exactly, the price is solved for first, then once more with ties
broken, among what costs about the same; a search counts ties from the start, and is bounded after.
"""

from dataclasses import dataclass, replace

import numpy as np

from pgstow.planning.placement.branching import Search
from pgstow.planning.placement.exact import (
    SOLVE_SECONDS,
    MilpSolution,
    SearchLimits,
    Units,
    solve_milp,
)
from pgstow.planning.placement.grouping import group
from pgstow.planning.placement.master import Master
from pgstow.planning.placement.problem import (
    TIE_SHARE,
    TIE_USD,
    TIE_USD_PER_VOLUME,
    USES,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    moved_gib,
    tied,
    ties_usd,
)

_EXACT_MAX = 2_500  # units × candidates that HiGHS is given whole
_GAP = 2e-4  # of the price, to be reached
_NODES_MAX = 300
_PROOF_ROUNDS = 30
_TIE_SECONDS = 5.0
_ANY_NODES = 2**31 - 1


def place(
    problem: PlacementProblem,
    *,
    gap: float | None = None,
    exact_max: int = _EXACT_MAX,
    seconds_max: float = SOLVE_SECONDS,
    breaks_ties: bool = True,
    within_usd: float | None = None,
) -> PlacementSolution | NoSolution:
    """The cheapest assignment and sizing with a bound, or why there is none.

    With ``within_usd`` it is any that costs no more, and none where all cost more.

    Up to ``exact_max`` units × candidates, HiGHS solves the whole, for ``seconds_max`` at most. The
    search may end at ``gap``, a share of the price; without one a whole problem is solved to the
    end, and a larger one to a gap of two in ten thousand.
    """
    if is_small(problem, exact_max):
        return place_exactly(
            problem, gap or 0.0, seconds_max, breaks_ties=breaks_ties, within_usd=within_usd
        )
    if within_usd is not None:
        return _within(problem, gap or _GAP, within_usd)
    # in placement.moving what moves has a price already
    if problem.move_usd_per_gib > 0 or not breaks_ties:
        return _searched(problem, gap or _GAP)
    # ties count from the start, as without them the search tries many volumes for one; the bound
    # is that of the price alone, and where the answer is near it, nothing more is looked for
    first = _searched(tied(problem), gap or _GAP)
    if isinstance(first, NoSolution):
        return first
    usd = first.usd_month - ties_usd(problem, first)
    first = replace(first, usd_month=usd)
    second = _searched(problem, gap or _GAP, first)
    if isinstance(second, NoSolution) or usd > _about(second.usd_month):
        return second
    return replace(first, bound_usd=min(second.bound_usd, usd))


def _within(problem: PlacementProblem, gap: float, usd: float) -> PlacementSolution | NoSolution:
    """Any solution that costs no more."""
    search = Search(Master(problem, group(problem)), 0.8 * gap, _NODES_MAX, within_usd=usd)
    bound = search.run()
    if search.best is not None and search.best.usd_month <= usd:
        return replace(search.best, bound_usd=min(bound, search.best.usd_month))
    return NoSolution.INFEASIBLE if bound > usd else NoSolution.NOT_FOUND


def _searched(
    problem: PlacementProblem, gap: float, known: PlacementSolution | None = None
) -> PlacementSolution | NoSolution:
    search = Search(Master(problem, group(problem)), 0.8 * gap, _NODES_MAX, known)
    bound = search.run()
    if search.best is not None:
        return replace(search.best, bound_usd=min(bound, search.best.usd_month))
    return NoSolution.INFEASIBLE if is_impossible(problem) else NoSolution.NOT_FOUND


def is_impossible(problem: PlacementProblem) -> bool:
    """Whether it is proved that nothing keeps all limits, whatever it costs.

    With everything free but leaving items out, a bound over 0 says that some have to be left out.
    """
    other = replace(problem, is_priced=False, new_volume_usd=0.0, move_usd_per_gib=0.0)
    master = Master(other, group(other))
    candidates = len(problem.candidates)
    master.bound(np.zeros(candidates), np.ones(candidates), {})
    is_open = np.ones(candidates, dtype=bool)
    relaxed = master.relax(is_open, rounds=_PROOF_ROUNDS, gap=0.01)
    return relaxed.bound_usd > 1.0  # leaving a thousandth of anything costs more


def _has_ties(problem: PlacementProblem, found: PlacementSolution) -> bool:
    """Whether a solution moves anything, or buys what another might do without."""
    new = sum(problem.candidates[one.candidate].existing is None for one in found.volumes)
    needed = 0 if any(candidate.existing is not None for candidate in problem.candidates) else 1
    return moved_gib(problem, found) > 0 or new > needed


def _about(usd: float) -> float:
    """What costs about as much, at the most."""
    return usd + max(TIE_SHARE * usd, TIE_USD)


def is_small(problem: PlacementProblem, exact_max: int = _EXACT_MAX) -> bool:
    """Whether HiGHS is given the problem whole."""
    units = problem.items.count + problem.special_items.count
    return units * len(problem.candidates) <= exact_max


@dataclass(slots=True)
class Series:
    """Problems that differ only in load factor, response time and special items, one by one.

    Groups and columns are kept, so that each costs a fraction of the first.
    """

    master: Master

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Series":
        """Begin with one of the problems."""
        return cls(Master(problem, group(problem)))

    def place(
        self, problem: PlacementProblem, *, gap: float, node_limit: int
    ) -> PlacementSolution | NoSolution:
        """The next one; see :func:`place`. Not more than ``node_limit`` branches are looked at."""
        self.master.change(problem)
        search = Search(self.master, 0.8 * gap, node_limit)
        bound = search.run()
        if search.best is None:
            return NoSolution.INFEASIBLE if np.isposinf(bound) else NoSolution.NOT_FOUND
        return replace(search.best, bound_usd=min(bound, search.best.usd_month))


def place_exactly(
    problem: PlacementProblem,
    gap: float = 0.0,
    seconds_max: float = SOLVE_SECONDS,
    *,
    breaks_ties: bool = True,
    within_usd: float | None = None,
) -> PlacementSolution | NoSolution:
    """The whole problem by HiGHS: every unit a variable for each candidate."""
    items, special_items, candidates = problem.items, problem.special_items, len(problem.candidates)
    use = np.einsum("cuk,ik->icu", problem.use_per_demand, items.demand)
    units = Units(
        np.concatenate((use, special_items.use)),
        np.concatenate((problem.item_classes.allowed[items.item_class], special_items.allowed)),
        np.concatenate((problem.item_classes.is_moved[items.item_class], special_items.is_moved)),
        frozenset(items.count + one for one in special_items.exclusive),
    )
    base = np.zeros((candidates, USES))
    search_limits = None
    if within_usd is not None:
        search_limits = SearchLimits(_ANY_NODES, seconds_max, within_usd)
    found = solve_milp(
        problem,
        units,
        base,
        usd_max=within_usd,
        gap=gap,
        seconds_max=seconds_max,
        search_limits=search_limits,
    )
    if isinstance(found, NoSolution):
        return found
    first = _placed(found, items.count)
    if within_usd is not None or not (breaks_ties and _has_ties(problem, first)):
        return first
    other = solve_milp(
        tied(problem),
        units,
        base,
        usd_max=_about(found.usd_month),
        start=found,
        gap_usd=TIE_USD_PER_VOLUME / 4,
        gap=gap,
        seconds_max=min(seconds_max, _TIE_SECONDS),
    )
    if isinstance(other, NoSolution):
        return first
    second = _placed(other, items.count)
    usd = second.usd_month - ties_usd(problem, second)
    return replace(second, usd_month=usd, bound_usd=min(found.bound_usd, usd))


def _placed(found: MilpSolution, items: int) -> PlacementSolution:
    return PlacementSolution(
        item_candidate=found.candidate[:items],
        special_candidate=found.candidate[items:],
        volumes=found.volumes,
        usd_month=found.usd_month,
        bound_usd=min(found.bound_usd, found.usd_month),
    )
