"""Why a plan is as it is: for each choice the next best one and what it would cost.

The load of each thing is as shown under its volume: of the same simulation.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from pgstow.model import Prediction, Profile, Reason
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.contents import TEMP_KIND, WAL_KIND, Share, contents
from pgstow.planning.needs import REST, TEMP, WAL
from pgstow.planning.placement import GIB, IOPS, NoSolution, PlacementProblem
from pgstow.planning.placement.exact import SOLVE_SECONDS, SearchLimits, Units, solve_milp
from pgstow.planning.placement.problem import Bools, Floats, Ints
from pgstow.planning.problem import Demands, Solution, special_keys
from pgstow.planning.search import Found, Planner
from pgstow.units import MIB

_MOST = 10  # choices explained one by one: the busiest units
_PLACED_AGAIN = 50  # relations, the busiest and the largest, that may move to make room
_WORTH_TRYING = 2_500  # units × candidates; beyond, stripes that are not bought are left out
_GAP_USD, _GAP = 0.005, 0.002  # in dollars, or of the price: not worth looking for
# more nodes find cents
_SEARCH_LIMITS = SearchLimits(node_limit=20, seconds_max=SOLVE_SECONDS, objective_target=-math.inf)
_FEW_IOPS = 0.01  # of all: what asks for less is not explained, beyond the first three
_LEAST = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """The special items and the relations that may move, around the load of all others."""

    units: Units
    base: Floats
    base_moved_gib: float  # how much of the others moves
    chosen: Ints  # the candidate of each unit in the plan
    names: tuple[str, ...]


def reasons(found: Found, planner: Planner, profile: Profile) -> tuple[Reason, ...]:
    """Explain where each busy unit is placed.

    A unit that the plan moves is kept on its current volume, one that stays is moved away, and the
    rest is placed again. The difference in price is the reason. The busiest and the largest
    relations may move with it; all others stay as the plan has them.
    """
    solution, problem = found.solution, found.problem
    around = _around(solution, problem, planner.demands)
    asked = _asked(found.prediction, profile)
    if problem.max_move_gib is not None:
        left = max(0.0, problem.max_move_gib - around.base_moved_gib)
        problem = replace(problem, max_move_gib=left)
    iops = around.units.use[np.arange(len(around.chosen)), around.chosen, IOPS]
    descending = np.argsort(-iops, kind="stable")[:_MOST].tolist()
    few = _FEW_IOPS * float(iops.sum())
    busiest = [unit for rank, unit in enumerate(descending) if rank < _LEAST or iops[unit] >= few]
    return tuple(
        _reason(unit, around, solution, problem, asked.get(around.names[unit]))
        for unit in busiest
        if around.names[unit] != REST
    )


def _asked(prediction: Prediction, profile: Profile) -> dict[str, Share]:
    """The load of everything on its volume, by name, as it is shown."""
    every = len(profile.server.relations)
    special = {WAL_KIND: WAL, TEMP_KIND: TEMP}
    return {
        share.name or special.get(share.kind, share.kind): share
        for held in contents(prediction, profile, shown=every, are_parts_summed=False)
        for share in held.shares
    }


def _around(solution: Solution, problem: PlacementProblem, demands: Demands) -> _Around:
    items, special_items = problem.items, problem.special_items
    assigned = solution.placed.item_candidate
    own = np.einsum("iuk,ik->iu", problem.use_per_demand[assigned], items.demand)
    again = np.unique(
        np.concatenate(
            [np.argsort(-own[:, use], kind="stable")[:_PLACED_AGAIN] for use in (IOPS, GIB)]
        )
        if len(own) > _PLACED_AGAIN
        else np.arange(len(own))
    )
    fixed = np.ones(len(own), dtype=bool)
    fixed[again] = False
    base = np.zeros((len(problem.candidates), own.shape[1]))
    np.add.at(base, assigned[fixed], own[fixed])
    moved = problem.item_classes.is_moved[items.item_class[fixed], assigned[fixed]]
    item_class, mine = items.item_class[again], items.demand[again]
    use = np.einsum("cuk,ik->icu", problem.use_per_demand, mine)
    count = special_items.count
    return _Around(
        units=Units(
            use=np.concatenate((special_items.use, use)),
            allowed=np.concatenate(
                (special_items.allowed, problem.item_classes.allowed[item_class])
            ),
            is_moved=np.concatenate(
                (special_items.is_moved, problem.item_classes.is_moved[item_class])
            ),
            exclusive=special_items.exclusive,
        ),
        base=base,
        base_moved_gib=float(items.demand[fixed, 0][moved].sum()),
        chosen=np.concatenate((solution.placed.special_candidate[:count], assigned[again])),
        names=(*special_keys(problem), *(str(demands.relations[i]) for i in again.tolist())),
    )


def _reason(
    unit: int,
    around: _Around,
    solution: Solution,
    problem: PlacementProblem,
    share: Share | None,
) -> Reason:
    candidates, name = problem.candidates, around.names[unit]
    chosen = candidates[int(around.chosen[unit])]
    stays = ~around.units.is_moved[unit]
    kept = bool(stays[around.chosen[unit]])
    gib = float(around.units.use[unit, around.chosen[unit], GIB])
    because = _because(share, gib)
    allowed: Bools = around.units.allowed & _worth_trying(around, problem)
    allowed[unit] = allowed[unit] & (stays != kept)
    units = Units(around.units.use, allowed, around.units.is_moved, around.units.exclusive)
    gap_usd = max(_GAP_USD, _GAP * solution.usd_month)
    other = solve_milp(problem, units, around.base, gap_usd=gap_usd, search_limits=_SEARCH_LIMITS)
    if other is NoSolution.NOT_FOUND:
        return Reason(name, chosen.label, because, "none was found in time", None)
    if isinstance(other, NoSolution):
        what = "elsewhere" if kept else f"on {_current_volume(candidates, stays)}"
        return Reason(name, chosen.label, because, f"none: {what} misses the goal", None)
    elsewhere = candidates[int(other.candidate[unit])].label
    more = max(0.0, other.usd_month - solution.usd_month)
    return Reason(name, chosen.label, because, elsewhere, more)


def _because(share: Share | None, gib: float) -> str:
    """Its load, in the figures of the volume that it is placed on."""
    if share is None:
        return f"asks nothing that was seen of {gib:,.2f} GiB"
    return (
        f"asks {share.iops:,.0f} IOPS and {share.bytes_per_second / MIB:,.1f} MiB/s"
        f" of {gib:,.2f} GiB ({share.iops / max(gib, 0.01):,.0f} IOPS per GiB)"
    )


def _worth_trying(around: _Around, problem: PlacementProblem) -> Bools:
    """All candidates where there is little to place; else used, kept and plain ones."""
    candidates = problem.candidates
    if len(around.names) * len(candidates) <= _WORTH_TRYING:
        return np.ones(len(candidates), dtype=bool)
    used = np.array(around.base.any(axis=1))
    used[around.chosen] = True
    plain = [
        s.existing is not None or (s.stripes == 1 and s.key.endswith("x1")) for s in candidates
    ]
    worth: Bools = used | np.array(plain)
    return worth


def _current_volume(candidates: tuple[CandidateVolume, ...], stays: Bools) -> str:
    """The name of the volume that something is on now."""
    current_volumes = (
        candidate.existing.name
        for candidate, here in zip(candidates, stays, strict=True)
        if here and candidate.existing
    )
    return next(current_volumes, "its volume")
