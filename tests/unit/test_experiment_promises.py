"""What the statistics of experiments promise, held against machines that drift and stall."""

from dataclasses import replace

import numpy as np
import pytest
from experiment_samples import experiment, trial
from simulated_machines import (
    SCENARIOS,
    Draw,
    autocorrelated,
    evaluate,
    heavy,
    normal,
    paired_differences,
    recorded,
    required_blocks_for_power,
)

from pgstow.model import UserError
from pgstow.verification.experiments import compare
from pgstow.verification.experiments.interval import means

BY_NAME = {one.name: one for one in SCENARIOS}
DRIFTING = [one.name for one in SCENARIOS if one.is_drifting]
REALISTIC = ("still machine", "heavy tails", "drift", "drift, heavy tails")
RUNS = 400


def covered(draw: Draw, blocks: int) -> float:
    """How often 99 % intervals of rows with mean 0 hold it."""
    rows = draw(np.random.default_rng(blocks), (2000, blocks))
    parts = [means(part, confidence=0.99, seed=1) for part in np.split(rows, 8)]
    return float(np.mean([np.abs(one.mean) <= one.half_width for one in parts]))


def percentile_covered(draw: Draw, blocks: int) -> float:
    """The same of a plain percentile bootstrap."""
    random = np.random.default_rng(blocks)
    rows = draw(random, (2000, blocks))
    weights = random.multinomial(blocks, np.full(blocks, 1 / blocks), size=999) / blocks
    low, high = np.quantile(rows @ weights.T, (0.005, 0.995), axis=1)
    return float(np.mean((low <= 0) & (high >= 0)))


@pytest.mark.parametrize("blocks", [3, 5, 7, 8, 12, 20])
@pytest.mark.parametrize("draw", [normal(0.01), heavy(0.01)], ids=["normal", "heavy tails"])
def test_intervals_hold_the_truth_as_often_as_they_say(draw: Draw, blocks: int) -> None:
    assert covered(draw, blocks) >= 0.983  # 99 % less three standard errors of 2,000 runs


@pytest.mark.parametrize("blocks", [5, 8])
def test_a_plain_percentile_bootstrap_does_not(blocks: int) -> None:
    assert percentile_covered(normal(0.01), blocks) < 0.96


@pytest.mark.parametrize("blocks", [6, 12])
@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_level_twice_shows_no_difference(name: str, blocks: int) -> None:
    found = evaluate(BY_NAME[name], blocks=blocks, runs=RUNS, seed=blocks)
    assert found.false_alarms <= 0.03


@pytest.mark.parametrize("blocks", [6, 8, 12])
@pytest.mark.parametrize("name", REALISTIC)
def test_a_difference_of_5_percent_is_found(name: str, blocks: int) -> None:
    assert evaluate(BY_NAME[name], blocks=blocks, runs=RUNS, seed=3).power >= 0.90


@pytest.mark.parametrize("blocks", [6, 12])
@pytest.mark.parametrize("name", DRIFTING)
def test_a_then_b_would_need_twice_the_width_where_the_machine_drifts(
    name: str, blocks: int
) -> None:
    found = evaluate(BY_NAME[name], blocks=blocks, runs=RUNS, seed=4)
    assert found.sequential_error >= 2 * found.half_width
    assert found.sequential_false_alarms > 0.05 > 2 * found.false_alarms


@pytest.mark.parametrize("name", ["slows by 10 %", "swings by ±5 %"])
def test_a_then_b_states_twice_the_width_where_drift_is_slow(name: str) -> None:
    found = evaluate(BY_NAME[name], blocks=20, runs=RUNS, seed=4)
    assert found.sequential_half_width >= 2 * found.half_width


def test_recorded_trials_are_taken_in_their_order() -> None:
    series = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0]
    path = recorded(series)(np.random.default_rng(1), (50, 6))
    assert {round(float(np.exp(first))) for first in path[:, 0]} == {100, 101, 102}
    assert np.allclose(np.diff(np.exp(path), axis=1), 1.0)
    with pytest.raises(UserError, match="too few"):
        recorded(series)(np.random.default_rng(1), (1, 9))


def test_an_aa_experiment_of_three_levels_shows_nothing_in_95_of_100_runs() -> None:
    """The whole way through trials, with two comparisons made together."""
    random = np.random.default_rng(17)
    levels = ("a", "b", "c")
    path = autocorrelated(0.05, 0.95)(random, (100, 24)) + heavy(0.007)(random, (100, 24))
    quiet = 0
    for number, logs in enumerate(path):
        designed = replace(experiment(*levels, blocks=8), seed=number)
        made = [
            trial(block, position, float(1000 * np.exp(logs[3 * block + position])), wal=level)
            for block in range(8)
            for position, level in enumerate(random.permutation(levels).tolist())
        ]
        found = compare(designed, made)
        quiet += all(one.verdict == "no difference demonstrated" for one in found)
    assert quiet >= 95


def test_a_block_has_every_treatment_once() -> None:
    path = np.arange(24.0).reshape(1, 24)
    found = paired_differences(np.random.default_rng(1), path, blocks=8)
    assert found.shape == (1, 8)
    assert set(np.abs(found).ravel()) <= {1.0, 2.0}


def test_power_costs_blocks() -> None:
    assert required_blocks_for_power(0.01) <= 6
    assert required_blocks_for_power(0.03) > required_blocks_for_power(0.02)
    assert required_blocks_for_power(0.03, comparisons=8) > required_blocks_for_power(0.03)
    assert required_blocks_for_power(0.03, effect=-0.05) <= required_blocks_for_power(0.03)
    assert required_blocks_for_power(0.0) == 3
    with pytest.raises(UserError, match="no number"):
        required_blocks_for_power(0.01, effect=0.0)
    with pytest.raises(UserError, match="blocks would be needed"):
        required_blocks_for_power(10.0, effect=0.001)
