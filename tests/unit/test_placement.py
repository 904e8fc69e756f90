"""Placement against exhaustive search; bounds and feasibility where search is out of reach."""

from dataclasses import replace

import numpy as np
import placement_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.planning.placement import Placed, PlacementProblem, place

_SIZES = [(10, 3), (8, 4), (7, 4), (5, 4), (9, 2), (6, 3)]


def _check(problem: PlacementProblem, placed: Placed) -> None:
    """An answer keeps every limit, and costs at most what it says."""
    arithmetic = samples.cheapest(problem, samples.choice_of(placed))[0]
    assert arithmetic <= placed.usd_month * (1 + 1e-5) + 1e-4
    assert placed.bound_usd <= placed.usd_month
    bought = {one.shape for one in placed.volumes}
    assert set(samples.choice_of(placed)[0].tolist()) <= bought
    assert len(bought) <= problem.max_volumes


@pytest.mark.parametrize("seed", range(36))
def test_small_answers_are_the_best_of_all_assignments(seed: int) -> None:
    problem = samples.problem(seed, *_SIZES[seed % len(_SIZES)])
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem)
    if np.isinf(best):
        assert placed is None
        return
    assert placed is not None
    _check(problem, placed)
    assert placed.usd_month == pytest.approx(best, rel=1e-5, abs=1e-4)
    assert placed.bound_usd <= best * (1 + 1e-6) + 1e-4


@pytest.mark.parametrize("seed", range(100, 130))
def test_the_relaxations_bound_is_at_most_the_optimum(seed: int) -> None:
    problem = samples.problem(seed, *_SIZES[seed % len(_SIZES)])
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem, exact_max=0)
    if placed is None:
        assert np.isinf(best)
        return
    _check(problem, placed)
    assert placed.bound_usd <= best * (1 + 1e-6) + 1e-4
    assert placed.usd_month <= best * 1.01 + 0.05
    assert placed.bound_usd >= best * 0.97 - 0.2


@settings(max_examples=25, deadline=None)
@given(st.integers(1000, 100_000), st.integers(1, 6), st.integers(1, 4))
def test_every_answer_is_feasible_and_bounded(seed: int, items: int, shapes: int) -> None:
    problem = samples.problem(seed, items, shapes)
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem)
    assert (placed is None) == np.isinf(best)
    if placed is not None:
        _check(problem, placed)
        assert placed.usd_month == pytest.approx(best, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_many_items_stay_within_a_small_gap(seed: int) -> None:
    problem = samples.problem(seed, 3000, 4)
    problem = replace(problem, max_volumes=4, host_kiops=None, host_mibps=None)
    placed = place(problem)
    if placed is None:
        assert problem.response_ms is not None
        assert place(replace(problem, response_ms=problem.response_ms * 10)) is not None
        return
    _check(problem, placed)
    assert placed.usd_month <= placed.bound_usd * 1.002


def test_a_group_of_shapes_is_used_once() -> None:
    problem = samples.problem(3, 200, 4)
    problem = replace(problem, groups=((0, 1), (2, 3)), max_volumes=4, response_ms=None)
    placed = place(problem)
    assert placed is not None
    bought = {one.shape for one in placed.volumes}
    assert len(bought & {0, 1}) <= 1
    assert len(bought & {2, 3}) <= 1
