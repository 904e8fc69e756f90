"""Whether a change had an effect: a ratio of means with its interval, or that none was shown.

Samples of a running server are not independent: one second resembles the next. Where they
correlate, they count for fewer (an AR(1) process's effective sample size), so that a long run of
alike seconds does not pass for much evidence.
"""

import math
from collections.abc import Sequence

import numpy as np

from pgstow.model.statistics import Effect, EffectVerdict, Interval

_FEWEST = 2
_FEWEST_FOR_CORRELATION = 8  # below, lag-1 correlation is mostly noise


def student_quantile(confidence: float, degrees: float) -> float:
    """How many standard errors a two-sided interval of Student's t reaches to each side."""
    from scipy import special  # read when needed: most commands need no interval

    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def student_tail(sizes: np.ndarray, degrees: float) -> np.ndarray:
    """The chance of Student's t to be as far from 0, on either side."""
    from scipy import special

    return np.asarray(2 * special.stdtr(degrees, -sizes))


def mean_interval(samples: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """The mean of samples and Student's interval around it; None with fewer than two."""
    values = np.asarray(samples, dtype=float)
    if len(values) < _FEWEST:
        return None
    count = _effective(values)
    half = student_quantile(confidence, count - 1) * math.sqrt(_variance_of_mean(values))
    mean = float(values.mean())
    return Interval(mean, mean - half, mean + half, len(values), confidence)


def effect(
    before: Sequence[float],
    after: Sequence[float],
    *,
    confidence: float = 0.95,
) -> Effect:
    """The ratio of the means, after over before, with an interval on the logarithm.

    Welch's t by the delta method. All samples must be positive.

    >>> effect([100, 102, 98, 101], [400, 396, 404, 402]).verdict
    'higher'
    >>> effect([100, 140, 60], [100, 150, 70]).verdict
    'no difference demonstrated'
    """
    one, other = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if not len(one) or not len(other) or (one <= 0).any() or (other <= 0).any():
        raise ValueError("an effect needs positive samples from before and after")
    ratio = float(other.mean() / one.mean())
    if min(len(one), len(other)) < _FEWEST:
        return _result(ratio, None, confidence, len(one), len(other))
    parts = [
        (_variance_of_mean(values) / float(values.mean()) ** 2, _effective(values) - 1)
        for values in (one, other)
    ]
    error = math.sqrt(sum(variance for variance, _ in parts))
    spread = sum(variance**2 / degrees for variance, degrees in parts)
    degrees = error**4 / spread if spread > 0 else 1.0  # Welch–Satterthwaite
    half = student_quantile(confidence, degrees) * error
    return _result(ratio, half, confidence, len(one), len(other))


def _result(ratio: float, half: float | None, confidence: float, before: int, after: int) -> Effect:
    """The effect for a half-width on the logarithm."""
    if half is None:
        return Effect(ratio, None, None, confidence, before, after, "too few samples")
    low, high = ratio * math.exp(-half), ratio * math.exp(min(half, 700.0))
    verdict: EffectVerdict = "no difference demonstrated"
    if low > 1:
        verdict = "higher"
    elif high < 1:
        verdict = "lower"
    return Effect(ratio, low, high, confidence, before, after, verdict)


def _effective(values: np.ndarray) -> float:
    """How many independent samples these are worth: at least two, at most all."""
    count = len(values)
    if count < _FEWEST_FOR_CORRELATION:
        return float(count)
    centred = values - values.mean()
    power = float(centred @ centred)
    if power <= 0:
        return float(count)
    correlation = max(0.0, float(centred[1:] @ centred[:-1]) / power)
    return max(float(_FEWEST), count * (1 - correlation) / (1 + correlation))


def _variance_of_mean(values: np.ndarray) -> float:
    return float(values.var(ddof=1)) / _effective(values)
