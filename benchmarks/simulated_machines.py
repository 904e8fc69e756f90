"""What the statistics keep of their promises, by simulated machines that drift and stall.

A machine's path is its logarithmic speed in each trial: drift, which resembles itself from trial to
trial, and noise of the trial's own. The same path is used twice with equal numbers of trials: in
blocks of random order, compared in pairs; and sequentially, all of A and then all of B, compared by
Welch's t-test as if trials were independent. And how many blocks find an effect, by calculation.
"""

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal, stats

from pgstow.model import UserError
from pgstow.verification.effect import student_quantile
from pgstow.verification.experiments.interval import FEWEST_BLOCKS, means

_MOST_BLOCKS = 100_000
_CHUNK = 250  # runs at a time: a bootstrap keeps 10,000 numbers of each
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]  # of runs and trials


@dataclass(frozen=True, slots=True)
class Scenario:
    """A machine: its drift and the noise of its trials, on the logarithm of throughput."""

    name: str
    drift: Draw
    noise: Draw
    is_drifting: bool = False
    treatments: int = 2  # in a block; the others stand between the pair

    def path(self, random: np.random.Generator, runs: int, trials: int) -> np.ndarray:
        """Logarithmic speeds of so many runs, one a row, trial after trial."""
        shape = (runs, trials)
        return self.drift(random, shape) + self.noise(random, shape)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How often a comparison finds what is and is not there, and how finely.

    Half-widths are medians, on the logarithm (about relative). Welch's interval of a sequential
    comparison does not know of drift; ``sequential_error`` is the half-width that it would have to
    state, to hold the truth as often as it says.
    """

    scenario: str
    blocks: int
    runs: int
    confidence: float
    effect: float
    pair_deviation: float  # of a block's logarithmic ratio, over all runs
    false_alarms: float  # part of the runs with no effect that show one
    power: float  # part of the runs with the effect that show it, with the right sign
    half_width: float
    sequential_false_alarms: float
    sequential_half_width: float
    sequential_error: float


def evaluate(
    scenario: Scenario,
    *,
    blocks: int,
    runs: int,
    seed: int,
    effect: float = 0.05,
    confidence: float = 0.99,
) -> Evaluation:
    """Run a scenario's experiment again and again, without and with a true effect."""
    random = np.random.default_rng(seed)
    path = scenario.path(random, runs, blocks * scenario.treatments)
    rows = paired_differences(random, path, blocks)
    half_width, p_value = _intervals(rows, confidence, seed)
    shifted = rows + np.log1p(effect)
    _, p_shifted = _intervals(shifted, confidence, seed)
    is_right = np.sign(shifted.mean(axis=1)) == np.sign(effect)
    alpha = (1 - confidence) * (1 + 1e-9)
    before, after = path[:, :blocks], path[:, blocks : 2 * blocks]
    sequential_half, sequential_p = _welch(before, after, confidence)
    error = np.abs(after.mean(axis=1) - before.mean(axis=1))
    return Evaluation(
        scenario.name,
        blocks,
        runs,
        confidence,
        effect,
        pair_deviation=float(rows.std()),
        false_alarms=float(np.mean(p_value <= alpha)),
        power=float(np.mean((p_shifted <= alpha) & is_right)),
        half_width=float(np.median(half_width)),
        sequential_false_alarms=float(np.mean(sequential_p <= alpha)),
        sequential_half_width=float(np.median(sequential_half)),
        sequential_error=float(np.quantile(error, confidence)),
    )


def paired_differences(random: np.random.Generator, path: np.ndarray, blocks: int) -> np.ndarray:
    """What is left of a path between the pair of each block, whose order is random."""
    runs, treatments = len(path), path.shape[1] // blocks
    order = random.permuted(
        np.broadcast_to(np.arange(treatments), (runs, blocks, treatments)), axis=2
    )
    values = np.take_along_axis(path.reshape(runs, blocks, -1), order, axis=2)
    difference: np.ndarray = values[:, :, 1] - values[:, :, 0]
    return difference


def _intervals(rows: np.ndarray, confidence: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    found = [
        means(rows[first : first + _CHUNK], confidence=confidence, seed=seed)
        for first in range(0, len(rows), _CHUNK)
    ]
    return (
        np.concatenate([one.half_width for one in found]),
        np.concatenate([one.p_value for one in found]),
    )


def _welch(
    before: np.ndarray, after: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    result = stats.ttest_ind(after, before, axis=1, equal_var=False)
    low, high = result.confidence_interval(confidence)
    return (high - low) / 2, result.pvalue


def recorded(series: Sequence[float]) -> Draw:
    """Throughputs measured one after the other, of like trials: any stretch of them."""
    logs = np.log(np.asarray(series, dtype=float))

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        runs, trials = shape
        if trials > len(logs):
            raise UserError(f"{len(logs)} recorded trials are too few", f"record {trials} or more")
        first = random.integers(0, len(logs) - trials + 1, size=(runs, 1))
        path: np.ndarray = logs[first + np.arange(trials)]
        return path

    return draw


def normal(deviation: float) -> Draw:
    """Noise of the normal distribution."""
    return lambda random, shape: random.normal(0, deviation, shape)


def heavy(deviation: float) -> Draw:
    """Noise of Student's distribution with 3 degrees of freedom, of that standard deviation."""
    return lambda random, shape: random.standard_t(3, shape) * deviation / np.sqrt(3)


def stalls(deviation: float, chance: float, depth: float) -> Draw:
    """Normal noise, and now and then a trial that is slower by ``depth``."""
    return lambda random, shape: (
        random.normal(0, deviation, shape) - depth * (random.random(shape) < chance)
    )


def still() -> Draw:
    """No drift."""
    return lambda _, shape: np.zeros(shape)


def linear(whole: float) -> Draw:
    """A machine that slows down evenly by ``whole`` from the first trial to the last."""
    return lambda _, shape: np.broadcast_to(np.linspace(0, -whole, shape[1]), shape)


def wave(depth: float) -> Draw:
    """A machine whose speed swings by ``depth`` to each side, of which a run sees any half."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        phase = random.random((shape[0], 1)) + np.linspace(0, 0.5, shape[1])
        return depth * np.sin(2 * np.pi * phase)

    return draw


def autocorrelated(deviation: float, correlation: float) -> Draw:
    """A stationary AR(1) process; ``correlation`` is that of one trial with the next."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        steps = random.normal(0, deviation * np.sqrt(1 - correlation**2), shape)
        steps[:, 0] = random.normal(0, deviation, shape[0])
        path: np.ndarray = signal.lfilter([1.0], [1.0, -correlation], steps, axis=1)
        return path

    return draw


def neighbour(depth: float, change: float) -> Draw:
    """A neighbour who comes and goes with chance ``change`` between trials, and costs ``depth``."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        changes = random.random(shape) < change
        changes[:, 0] = random.random(shape[0]) < 0.5
        return -depth * (np.cumsum(changes, axis=1) % 2)

    return draw


_NOISE = 0.007  # of a trial; a pair's is √2 of it, about 1 %

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("still machine", still(), normal(_NOISE)),
    Scenario("heavy tails", still(), heavy(_NOISE)),
    Scenario("rare stalls", still(), stalls(_NOISE, chance=0.05, depth=0.05)),
    Scenario("slows by 10 %", linear(0.10), normal(_NOISE), is_drifting=True),
    Scenario("swings by ±5 %", wave(0.05), normal(_NOISE), is_drifting=True),
    Scenario("drift", autocorrelated(0.05, 0.95), normal(_NOISE), is_drifting=True),
    Scenario("drift, heavy tails", autocorrelated(0.05, 0.95), heavy(_NOISE), is_drifting=True),
    Scenario("neighbour", neighbour(0.08, change=0.1), normal(_NOISE), is_drifting=True),
    Scenario(
        "drift, 4 treatments",
        autocorrelated(0.05, 0.95),
        normal(_NOISE),
        is_drifting=True,
        treatments=4,
    ),
)


def required_blocks_for_power(
    spread: float,
    *,
    effect: float = 0.05,
    power: float = 0.9,
    confidence: float = 0.99,
    comparisons: int = 1,
) -> int:
    """How many blocks find a true ``effect`` (0.05: 5 %) with the chance ``power``.

    ``spread`` is the standard deviation of a block's log ratio, about its coefficient of variation.
    Student's paired test, by the noncentral t distribution; several comparisons cost Bonferroni's
    share, which is Holm's first step. UserError for what no number of blocks finds.

    >>> required_blocks_for_power(0.01), required_blocks_for_power(0.05)
    (4, 20)
    """
    if effect <= -1 or effect == 0 or spread < 0 or not 0 < power < 1 or comparisons < 1:
        raise UserError(f"no number of blocks finds an effect of {effect:g} with power {power:g}")
    if spread == 0:
        return FEWEST_BLOCKS
    shift = abs(math.log1p(effect)) / spread
    one_level = 1 - (1 - confidence) / comparisons

    def is_reached(blocks: int) -> bool:
        limit = student_quantile(one_level, blocks - 1)
        return bool(stats.nct.sf(limit, blocks - 1, shift * math.sqrt(blocks)) >= power)

    numbers = range(FEWEST_BLOCKS, _MOST_BLOCKS)
    index = bisect.bisect_left(numbers, True, key=is_reached)
    if index == len(numbers):
        raise UserError(f"more than {_MOST_BLOCKS:,} blocks would be needed")
    return numbers[index]
