"""Placement against exhaustive search; bounds and feasibility where search is out of reach."""

from dataclasses import replace

import numpy as np
import placement_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.model import Volume
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.placement import (
    GIB,
    IOPS,
    USES,
    WAIT,
    ItemClasses,
    Items,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    Series,
    SpecialItems,
    place,
)
from pgstow.planning.placement.problem import TIE_SHARE, TIE_USD
from pgstow.units import GIB as GIB_BYTES
from pgstow.units import Bytes

_SIZES = [(10, 3), (8, 4), (7, 4), (5, 4), (9, 2), (6, 3)]


def _check(problem: PlacementProblem, placed: PlacementSolution) -> None:
    """An answer keeps every limit, and costs at most what it says."""
    arithmetic = samples.cheapest(problem, samples.choice_of(placed))[0]
    assert arithmetic <= placed.usd_month * (1 + 1e-5) + 1e-4
    assert placed.bound_usd <= placed.usd_month
    bought = {one.candidate for one in placed.volumes}
    assert set(samples.choice_of(placed)[0].tolist()) <= bought
    assert len(bought) <= problem.max_volumes


@pytest.mark.parametrize("seed", range(36))
def test_small_answers_are_the_best_of_all_assignments(seed: int) -> None:
    problem = samples.problem(seed, *_SIZES[seed % len(_SIZES)])
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem, breaks_ties=False)
    if np.isinf(best):
        assert placed is NoSolution.INFEASIBLE
        return
    assert isinstance(placed, PlacementSolution)
    _check(problem, placed)
    assert placed.usd_month == pytest.approx(best, rel=1e-5, abs=1e-4)
    assert placed.bound_usd <= best * (1 + 1e-6) + 1e-4


@pytest.mark.parametrize("seed", range(100, 130))
def test_the_relaxations_bound_is_at_most_the_optimum(seed: int) -> None:
    problem = samples.problem(seed, *_SIZES[seed % len(_SIZES)])
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem, exact_max=0)
    if isinstance(placed, NoSolution):
        assert np.isinf(best)
        return
    _check(problem, placed)
    assert placed.bound_usd <= best * (1 + 1e-6) + 1e-4
    assert placed.usd_month <= best * 1.01 + 0.05
    assert placed.bound_usd >= best * 0.97 - 0.2


@settings(max_examples=25, deadline=None)
@given(st.integers(1000, 100_000), st.integers(1, 6), st.integers(1, 4))
def test_every_answer_is_feasible_and_bounded(seed: int, items: int, candidates: int) -> None:
    problem = samples.problem(seed, items, candidates)
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    placed = place(problem, breaks_ties=False)
    assert (placed is NoSolution.INFEASIBLE) == np.isinf(best)
    assert placed is not NoSolution.NOT_FOUND
    if isinstance(placed, PlacementSolution):
        _check(problem, placed)
        assert placed.usd_month == pytest.approx(best, rel=1e-5, abs=1e-4)
        tied = place(problem)
        assert isinstance(tied, PlacementSolution)
        _check(problem, tied)
        assert tied.usd_month <= best * (1 + TIE_SHARE) + TIE_USD + 1e-4
        assert tied.bound_usd <= best * (1 + 1e-6) + 1e-4


@pytest.mark.parametrize("exact_max", [0, 2500])
@pytest.mark.parametrize("seed", range(200, 212))
def test_what_costs_no_more_is_found_or_proved_not_to_be(seed: int, exact_max: int) -> None:
    problem = samples.problem(seed, *_SIZES[seed % len(_SIZES)])
    best = samples.cheapest(problem, samples.every_choice(problem)).min()
    for limit in (best - 1, best + 1, np.inf):
        found = place(problem, exact_max=exact_max, within_usd=limit)
        if isinstance(found, PlacementSolution):
            _check(problem, found)
            assert best - 1e-4 <= found.usd_month <= limit + 1e-6
        elif found is NoSolution.INFEASIBLE:
            assert best > limit or np.isinf(best)
        else:
            assert exact_max == 0  # to the end, there is an answer


@pytest.mark.parametrize("seed", range(6))
def test_many_items_stay_within_a_small_gap(seed: int) -> None:
    problem = samples.problem(seed, 3000, 4)
    problem = replace(problem, max_volumes=4, host_kiops=None, host_mibps=None)
    placed = place(problem)
    if isinstance(placed, NoSolution):
        assert problem.response_ms is not None
        slow = place(replace(problem, response_ms=problem.response_ms * 10))
        assert isinstance(slow, PlacementSolution)
        return
    _check(problem, placed)
    assert placed.usd_month <= placed.bound_usd * 1.001 + 0.5  # whole GiB are in no bound


def test_a_group_of_candidates_is_used_once() -> None:
    problem = samples.problem(3, 200, 4)
    problem = replace(problem, groups=((0, 1), (2, 3)), max_volumes=4, response_ms=None)
    placed = place(problem)
    assert isinstance(placed, PlacementSolution)
    bought = {one.candidate for one in placed.volumes}
    assert len(bought & {0, 1}) <= 1
    assert len(bought & {2, 3}) <= 1


def _plain(demand: list[list[float]], candidates: tuple[CandidateVolume, ...]) -> PlacementProblem:
    """Items of (GiB, reads/s, writes/s, sequential reads/s) with nothing else in the way."""
    return PlacementProblem(
        candidates=candidates,
        use_per_demand=samples.use_per_demand(candidates),
        items=Items(np.array(demand), np.zeros(len(demand), dtype=np.int64)),
        item_classes=ItemClasses(
            np.ones((1, len(candidates)), dtype=bool), np.zeros((1, len(candidates)), dtype=bool)
        ),
        special_items=SpecialItems.none(len(candidates)),
        free_space=0.0,
        headroom=0.0,
        response_ms=None,
        host_kiops=None,
        host_mibps=None,
        max_volumes=len(candidates),
    )


def test_provisioned_iops_are_paid_over_what_is_included() -> None:
    placed = place(_plain([[500.0, 6000.0, 0.0, 0.0]], (samples.GP3,)))
    assert isinstance(placed, PlacementSolution)
    assert placed.usd_month == pytest.approx(500 * 0.08 + 3000 * 0.005, abs=1e-4)


def test_waits_bound_the_choice() -> None:
    calm = _plain([[100.0, 4.0, 0.0, 0.0]], (samples.ST1, samples.IO2))
    cheap = place(calm)
    assert isinstance(cheap, PlacementSolution) and cheap.item_candidate.tolist() == [0]
    quick = place(replace(calm, response_ms=0.02))  # 4 reads/s of 9 ms or of 0.25 ms
    assert isinstance(quick, PlacementSolution) and quick.item_candidate.tolist() == [1]
    assert place(replace(calm, response_ms=0.0005)) is NoSolution.INFEASIBLE


def test_the_instance_cap_binds_all_volumes_together() -> None:
    problem = _plain([[10.0, 2000.0, 0.0, 0.0]] * 2, (samples.GP3, samples.STRIPE))
    assert isinstance(place(problem), PlacementSolution)
    assert place(replace(problem, host_kiops=3.5)) is NoSolution.INFEASIBLE


@pytest.mark.parametrize("exact_max", [0, 10_000])
def test_what_is_to_be_alone_shares_with_nothing(exact_max: int) -> None:
    candidates = (samples.GP3, samples.STRIPE)
    use = np.zeros((1, 2, USES))
    use[:, :, GIB] = 2.0
    special_items = SpecialItems(use, np.ones((1, 2), dtype=bool), np.zeros((1, 2), dtype=bool))
    problem = replace(
        _plain([[10.0, 100.0, 0.0, 0.0]] * 3, candidates), special_items=special_items
    )
    together = place(problem, exact_max=exact_max)
    assert isinstance(together, PlacementSolution) and len(together.volumes) == 1
    apart = replace(problem, special_items=replace(special_items, exclusive=frozenset((0,))))
    placed = place(apart, exact_max=exact_max)
    assert isinstance(placed, PlacementSolution)
    assert int(placed.special_candidate[0]) not in placed.item_candidate.tolist()
    assert len(placed.volumes) == 2
    assert placed.bound_usd >= together.usd_month - 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_a_series_agrees_with_each_of_its_problems_alone(seed: int) -> None:
    base = replace(samples.problem(seed, 400, 4), max_volumes=4, host_kiops=None, host_mibps=None)
    series = Series.of(base)
    for load_factor in (1.0, 1.3, 0.6):
        use = base.special_items.use.copy()
        use[:, :, IOPS:WAIT] /= load_factor
        scaled = replace(
            base, load_factor=load_factor, special_items=replace(base.special_items, use=use)
        )
        alone = place(scaled, gap=1e-3, exact_max=0)
        found = series.place(scaled, gap=1e-3, node_limit=300)
        assert isinstance(found, NoSolution) == isinstance(alone, NoSolution)
        if isinstance(found, NoSolution) or isinstance(alone, NoSolution):
            continue
        assert found.bound_usd <= found.usd_month
        assert found.usd_month == pytest.approx(alone.usd_month, rel=3e-3, abs=0.5)
        assert found.bound_usd <= alone.usd_month * (1 + 1e-9)
        assert alone.bound_usd <= found.usd_month * (1 + 1e-9)


def test_twice_the_load_factor_is_twice_the_demand() -> None:
    once = _plain([[500.0, 6000.0, 0.0, 0.0]], (samples.GP3,))
    twice = _plain([[500.0, 12_000.0, 0.0, 0.0]], (samples.GP3,))
    scaled, plain = place(replace(once, load_factor=2.0)), place(twice)
    assert isinstance(scaled, PlacementSolution) and isinstance(plain, PlacementSolution)
    assert scaled.usd_month == pytest.approx(plain.usd_month)


def test_out_of_time_is_not_infeasible() -> None:
    problem = _plain([[500.0, 6000.0, 0.0, 0.0]] * 40, (samples.GP3, samples.IO2, samples.STRIPE))
    assert place(problem, seconds_max=0.0) is NoSolution.NOT_FOUND


_CURRENT = Volume("current", "gp3", Bytes(GIB_BYTES), "/data")


def _small(gib: int) -> CandidateVolume:
    """A gp3 that is sold to so many GiB."""
    rules = replace(samples.GP3.rules, max_bytes=Bytes(gib * GIB_BYTES))
    return replace(samples.GP3, rules=rules)


@pytest.mark.parametrize("exact_max", [0, 10_000])
def test_what_breaks_ties_is_in_no_price_and_no_bound(exact_max: int) -> None:
    current = replace(_small(100), key="current", existing=_CURRENT)
    problem = _plain([[3000.0, 10.0, 0.0, 0.0]] * 3, (current, samples.GP3, samples.STRIPE))
    is_moved = np.array([[False, True, True]])
    problem = replace(problem, item_classes=replace(problem.item_classes, is_moved=is_moved))
    placed = place(problem, exact_max=exact_max)
    assert isinstance(placed, PlacementSolution)
    # 9,000 GiB that move and one volume would add 1.81 dollars
    assert placed.usd_month == pytest.approx(9000 * 0.08, abs=0.15)
    assert placed.bound_usd == pytest.approx(9000 * 0.08, abs=0.15)
    assert sum(one.candidate > 0 for one in placed.volumes) == 1  # one new one, for the same price


@pytest.mark.parametrize("exact_max", [0, 10_000])
def test_of_equal_prices_nothing_moves(exact_max: int) -> None:
    current = replace(samples.GP3, key="current", existing=_CURRENT)
    problem = _plain([[300.0, 10.0, 0.0, 0.0]] * 3, (samples.GP3, current))
    problem = replace(
        problem, item_classes=replace(problem.item_classes, is_moved=np.array([[True, False]]))
    )
    placed = place(problem, exact_max=exact_max)
    assert isinstance(placed, PlacementSolution)
    assert placed.item_candidate.tolist() == [1, 1, 1]
    assert placed.usd_month == pytest.approx(900 * 0.08)


@pytest.mark.parametrize("exact_max", [0, 10_000])
def test_what_cannot_be_is_proved_at_any_size(exact_max: int) -> None:
    full = _small(10)
    problem = _plain([[8.0, 1.0, 0.0, 0.0]] * 3, (full, replace(full, key="other")))
    assert place(problem, exact_max=exact_max) is NoSolution.INFEASIBLE
