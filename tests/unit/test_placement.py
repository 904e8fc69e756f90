"""Placement against exhaustive search; bounds and feasibility where search is out of reach."""

from dataclasses import replace

import numpy as np
import placement_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.planning.placement import (
    GIB,
    IOPS,
    USES,
    WAIT,
    Items,
    Kinds,
    Placed,
    PlacementProblem,
    Series,
    Singles,
    place,
)
from pgstow.planning.shapes import Shape

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
    assert placed.usd_month <= placed.bound_usd * 1.001 + 0.5  # whole GiB are in no bound


def test_a_group_of_shapes_is_used_once() -> None:
    problem = samples.problem(3, 200, 4)
    problem = replace(problem, groups=((0, 1), (2, 3)), max_volumes=4, response_ms=None)
    placed = place(problem)
    assert placed is not None
    bought = {one.shape for one in placed.volumes}
    assert len(bought & {0, 1}) <= 1
    assert len(bought & {2, 3}) <= 1


def _plain(demand: list[list[float]], shapes: tuple[Shape, ...]) -> PlacementProblem:
    """Items of (GiB, reads/s, writes/s, sequential reads/s) with nothing else in the way."""
    return PlacementProblem(
        shapes=shapes,
        use_per_demand=samples.use_per_demand(shapes),
        items=Items(np.array(demand), np.zeros(len(demand), dtype=np.int64)),
        kinds=Kinds(np.ones((1, len(shapes)), dtype=bool), np.zeros((1, len(shapes)))),
        singles=Singles.none(len(shapes)),
        free_space=0.0,
        headroom=0.0,
        response_ms=None,
        host_kiops=None,
        host_mibps=None,
        max_volumes=len(shapes),
    )


def test_provisioned_iops_are_paid_over_what_is_included() -> None:
    placed = place(_plain([[500.0, 6000.0, 0.0, 0.0]], (samples.GP3,)))
    assert placed is not None
    assert placed.usd_month == pytest.approx(500 * 0.08 + 3000 * 0.005 + 0.01, abs=1e-4)


def test_waits_bound_the_choice() -> None:
    calm = _plain([[100.0, 4.0, 0.0, 0.0]], (samples.ST1, samples.IO2))
    cheap = place(calm)
    assert cheap is not None and cheap.item_shape.tolist() == [0]
    quick = place(replace(calm, response_ms=0.02))  # 4 reads/s of 9 ms or of 0.25 ms
    assert quick is not None and quick.item_shape.tolist() == [1]
    assert place(replace(calm, response_ms=0.0005)) is None


def test_the_instance_cap_binds_all_volumes_together() -> None:
    problem = _plain([[10.0, 2000.0, 0.0, 0.0]] * 2, (samples.GP3, samples.STRIPE))
    assert place(problem) is not None
    assert place(replace(problem, host_kiops=3.5)) is None


@pytest.mark.parametrize("exact_max", [0, 10_000])
def test_what_is_to_be_alone_shares_with_nothing(exact_max: int) -> None:
    shapes = (samples.GP3, samples.STRIPE)
    use = np.zeros((1, 2, USES))
    use[:, :, GIB] = 2.0
    singles = Singles(use, np.ones((1, 2), dtype=bool), np.zeros((1, 2)))
    problem = replace(_plain([[10.0, 100.0, 0.0, 0.0]] * 3, shapes), singles=singles)
    together = place(problem, exact_max=exact_max)
    assert together is not None and len(together.volumes) == 1
    apart = replace(problem, singles=replace(singles, alone=frozenset((0,))))
    placed = place(apart, exact_max=exact_max)
    assert placed is not None
    assert int(placed.single_shape[0]) not in placed.item_shape.tolist()
    assert placed.bound_usd > together.usd_month


@pytest.mark.parametrize("seed", range(8))
def test_a_series_agrees_with_each_of_its_problems_alone(seed: int) -> None:
    base = replace(samples.problem(seed, 400, 4), max_volumes=4, host_kiops=None, host_mibps=None)
    series = Series.of(base)
    for pace in (1.0, 1.3, 0.6):
        use = base.singles.use.copy()
        use[:, :, IOPS:WAIT] /= pace
        paced = replace(base, pace=pace, singles=replace(base.singles, use=use))
        alone = place(paced, gap=1e-3, exact_max=0)
        found = series.place(paced, gap=1e-3, nodes_max=300)
        assert (found is None) == (alone is None)
        if found is None or alone is None:
            continue
        assert found.bound_usd <= found.usd_month
        assert found.usd_month == pytest.approx(alone.usd_month, rel=3e-3, abs=0.5)
        assert found.bound_usd <= alone.usd_month * (1 + 1e-9)
        assert alone.bound_usd <= found.usd_month * (1 + 1e-9)


def test_twice_the_pace_is_twice_the_demand() -> None:
    once = _plain([[500.0, 6000.0, 0.0, 0.0]], (samples.GP3,))
    twice = _plain([[500.0, 12_000.0, 0.0, 0.0]], (samples.GP3,))
    paced, plain = place(replace(once, pace=2.0)), place(twice)
    assert paced is not None and plain is not None
    assert paced.usd_month == pytest.approx(plain.usd_month)
