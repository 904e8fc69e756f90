"""An interval for the mean difference of blocks: Student's t for few blocks, else a bootstrap.

Both give a symmetric interval. With 3 to 7 blocks it is Student's: a bootstrap resamples a handful
of values and knows nothing of what is beyond them. From 8 blocks on the studentised mean is
bootstrapped: blocks get random weights of Beta(1/2, 3/2) (Owen, Better bootstrap t confidence
intervals for the mean, arXiv 2508.10083, 2025), and the quantile is that of the size of t, which
is Hall's symmetric interval (On symmetric bootstrap confidence intervals, J. R. Statist. Soc. B 50,
1988). It was chosen by how often intervals hold the truth. Of 4,000 simulated samples, in percent,
where 99 are nominal (standard error 0.2):

=======================  ======  ==========  =================  =========  ===========  =====
noise of the pairs       blocks  percentile  its expanded form  Student's  bootstrap t  here
=======================  ======  ==========  =================  =========  ===========  =====
normal                        5        89.6                          98.8               98.8
normal                        8        94.1               98.0       98.9         98.7   99.2
normal                       20                           98.9       98.9         99.1   99.1
t, 3 degrees of freedom       5        90.3                          99.5               99.5
t, 3 degrees of freedom       8        93.4               98.1       99.3         98.8   99.5
t, 3 degrees of freedom      20                           99.0       99.4         98.6   99.6
lognormal, skewed             8        85.1               88.9       89.0         94.8   91.7
lognormal, skewed            20                           94.6       93.0         97.5   95.3
=======================  ======  ==========  =================  =========  ===========  =====

The unsymmetric bootstrap t holds more of a skewed truth, but is 15 % wider at 8 blocks of normal
noise, and less sure where tails are heavy; a difference of two trials with noise of one kind is
symmetric. Against a stall too rare to be in the sample, nothing helps.
"""

import functools
from dataclasses import dataclass

import numpy as np

from pgstow.model.statistics import Method
from pgstow.verification.effect import student_quantile, student_tail

FEWEST_BLOCKS = 3
BOOTSTRAP_FROM_BLOCKS = 8
RESAMPLES = 9999  # with it, a p-value is a whole number of 1 / 10,000
_TINY = 1e-300
_ALIKE = 1e-9  # what differs by less of its size differs by rounding


@dataclass(frozen=True, slots=True)
class Means:
    """For each row its mean, half the width of its interval, and its p-value against 0."""

    mean: np.ndarray
    half_width: np.ndarray
    p_value: np.ndarray
    method: Method


def means(rows: np.ndarray, *, confidence: float, seed: int) -> Means:
    """The means of rows, whose columns are independent, with their intervals.

    Interval and p-value agree: p ≤ 1 − confidence just where the interval leaves 0 out. At least
    ``FEWEST_BLOCKS`` columns.
    """
    count = rows.shape[1]
    if count < FEWEST_BLOCKS:
        raise ValueError(f"an interval needs {FEWEST_BLOCKS} blocks, not {count}")
    mean, deviation = rows.mean(axis=1), rows.std(axis=1)
    alike = deviation <= _ALIKE * np.abs(rows).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(alike, np.where(mean == 0, 0.0, np.inf), np.abs(mean) / deviation)
    deviation = np.where(alike, 0.0, deviation)
    if count < BOOTSTRAP_FROM_BLOCKS:
        root = np.sqrt(count - 1)
        half_width = student_quantile(confidence, count - 1) * deviation / root
        return Means(mean, half_width, student_tail(size * root, count - 1), "t")
    sizes = _resampled_sizes(rows, _weights(count, seed))
    sizes[alike] = 0.0
    as_large = (sizes >= size[:, np.newaxis]).sum(axis=1)
    rank = max(1, round((1 - confidence) * (RESAMPLES + 1)))
    quantile = np.partition(sizes, -rank, axis=1)[:, -rank]
    return Means(mean, quantile * deviation, (1 + as_large) / (RESAMPLES + 1), "bootstrap")


def _resampled_sizes(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The size of mean ÷ standard deviation of every row (centred) under every weighting."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    mean: np.ndarray = centred @ weights
    variance = (centred * centred) @ weights - mean * mean
    sizes: np.ndarray = np.abs(mean) / np.sqrt(np.maximum(variance, _TINY))
    return sizes


@functools.lru_cache(maxsize=4)
def _weights(count: int, seed: int) -> np.ndarray:
    """One column a resample, that sums to 1; alike for every comparison of as many blocks."""
    drawn: np.ndarray = np.random.default_rng(abs(seed)).beta(0.5, 1.5, size=(count, RESAMPLES))
    drawn /= drawn.sum(axis=0)
    return drawn
