"""Moving single items to fit a response time: what is allowed, what it costs, that it fits."""

import numpy as np
import placement_samples as samples
import pytest

from pgstow.planning.placement import GIB, IOPS, USES, WAIT, PlacementProblem
from pgstow.planning.placement.problem import Floats, Ints
from pgstow.planning.placement.repair import repaired


def _given(seed: int) -> tuple[PlacementProblem, Floats, Ints]:
    problem = samples.problem(seed, 300, 4)
    dual_prices = np.zeros((4, USES))
    dual_prices[:, GIB] = [candidate.usd_per_gib for candidate in problem.candidates]
    dual_prices[:, IOPS] = [1000 * candidate.usd_per_iops for candidate in problem.candidates]
    allowed = problem.item_classes.allowed[problem.items.item_class]
    random = np.random.default_rng(seed)
    candidate = np.array([random.choice(np.nonzero(row)[0]) for row in allowed])
    return problem, dual_prices, candidate


def _waits(problem: PlacementProblem, candidate: Ints) -> float:
    wait = problem.items.demand @ problem.use_per_demand[:, WAIT].T
    return float(wait[np.arange(len(candidate)), candidate].sum())


def _moved(problem: PlacementProblem, dual_prices: Floats, candidate: Ints, left_ms: float) -> Ints:
    return repaired(
        problem,
        problem.items.demand,
        problem.items.item_class,
        candidate,
        allowed=problem.item_classes.allowed,
        dual_prices=dual_prices,
        left_ms=left_ms,
    )


def _cost(problem: PlacementProblem, dual_prices: Floats, candidate: Ints) -> float:
    uses = np.einsum("cuk,ik->icu", problem.use_per_demand, problem.items.demand)
    own = (uses[np.arange(len(candidate)), candidate] * dual_prices[candidate]).sum(axis=1)
    return float(own.sum())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.7, 0.95, 1.0, 1.2])
def test_waits_fit_and_everything_lies_where_it_may(seed: int, share: float) -> None:
    problem, dual_prices, candidate = _given(seed)
    before = _waits(problem, candidate)
    wait = problem.items.demand @ problem.use_per_demand[:, WAIT].T
    may = problem.item_classes.allowed[problem.items.item_class]
    limit = max(share * before, float(np.where(may, wait, np.inf).min(axis=1).sum()))
    found = _moved(problem, dual_prices, candidate, limit - before)
    assert may[np.arange(len(found)), found].all()
    assert _waits(problem, found) <= limit * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_what_fits_never_gets_dearer(seed: int) -> None:
    problem, dual_prices, candidate = _given(seed)
    found = _moved(problem, dual_prices, candidate, 0.0)
    assert _cost(problem, dual_prices, found) <= _cost(problem, dual_prices, candidate) + 1e-9
    more = _moved(problem, dual_prices, candidate, 1e9)
    assert _cost(problem, dual_prices, more) <= _cost(problem, dual_prices, found) + 1e-9


def test_what_cannot_be_quicker_stays_as_quick_as_it_can_be() -> None:
    problem, dual_prices, candidate = _given(1)
    wait = problem.items.demand @ problem.use_per_demand[:, WAIT].T
    may = problem.item_classes.allowed[problem.items.item_class]
    least = float(np.where(may, wait, np.inf).min(axis=1).sum())
    found = _moved(problem, dual_prices, candidate, -1e9)
    assert _waits(problem, found) == pytest.approx(least)


def test_the_items_given_are_not_changed() -> None:
    problem, dual_prices, candidate = _given(2)
    before = candidate.copy()
    _moved(problem, dual_prices, candidate, -1.0)
    assert (candidate == before).all()
