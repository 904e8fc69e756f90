"""Whether throughput changed with time: over the whole run, and within the trials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

import numpy as np

from pgstow.model import Levels, Trial
from pgstow.verification.effect import effect, mean_interval, student_quantile
from pgstow.verification.experiments.case import Case, Finding

_FEWEST_SECONDS = 9  # of a trial, to compare its thirds with each other
_DRIFT_WITHIN = 0.05  # from third to third; what is less is of no account


@dataclass(frozen=True, slots=True)
class Change:
    """A ratio, late over early, with its interval."""

    ratio: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.low > 1 or self.high < 1

    def __str__(self) -> str:
        verb = "rose" if self.ratio > 1 else "fell"
        ends = sorted(abs(end - 1) * 100 for end in (self.low, self.high))
        return f"{verb} by {abs(self.ratio - 1) * 100:.1f} % ({ends[0]:.1f} to {ends[1]:.1f} %)"


def over_the_run(trials: Sequence[Trial], *, confidence: float = 0.99) -> Change | None:
    """How throughput changed from the first trial to the last, beside what treatments differ in.

    Least squares of the logarithm on the time of beginning, with a constant for each treatment (on
    each machine); None where there are too few trials for an interval.
    """
    groups: dict[tuple[str, Levels], list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.outcome.tps > 0:
            began_s = datetime.fromisoformat(trial.began_at).timestamp()
            point = (began_s, math.log(trial.outcome.tps))
            groups.setdefault((trial.host, trial.levels), []).append(point)
    centred = [np.array(group) - np.mean(group, axis=0) for group in groups.values()]
    degrees = sum(len(group) for group in centred) - len(centred) - 1
    if degrees < 1:
        return None
    time_s, log = np.concatenate(centred).T
    power = float(time_s @ time_s)
    if power <= 0:
        return None
    slope = float(time_s @ log) / power
    residuals = log - slope * time_s
    error = math.sqrt(float(residuals @ residuals) / degrees / power)
    began = [time for group in groups.values() for time, _ in group]
    span_s, half = max(began) - min(began), student_quantile(confidence, degrees) * error
    return _change(slope * span_s, half * span_s)


def within_trials(trials: Sequence[Trial], *, confidence: float = 0.95) -> Change | None:
    """How a treatment's throughput changed from the first third of a trial to the last.

    Over several trials by the spread of their changes; of a single one by its seconds, which count
    for fewer where they resemble their neighbours. None: nothing to hold against each other.
    """
    known = [parts for parts in map(_seconds, trials) if parts is not None]
    if len(known) == 1:
        ((early, _, late),) = known
        if min(*early, *late) <= 0:
            return None
        one = effect(early, late, confidence=confidence)
        return None if one.low is None or one.high is None else Change(one.ratio, one.low, one.high)
    logs = [math.log(fmean(late) / fmean(early)) for early, _, late in known]
    found = mean_interval(logs, confidence=confidence)
    return None if found is None else _change(found.mean, found.high - found.mean)


def within_case(case: Case, *, credits: Callable[[Case], str | None]) -> Finding | None:
    """A treatment whose throughput changes in its trials: caches that fill, credits that end.

    ``credits`` says what of a treatment has burst credits; None: nothing has.
    """
    found = within_trials(case.trials)
    if found is None or not found.is_shown or abs(found.ratio - 1) < _DRIFT_WITHIN:
        return None
    parts = [known for known in map(thirds, case.trials) if known is not None]
    means = ", ".join(f"{fmean(values):,.0f}" for values in zip(*parts, strict=True))
    text = f"throughput {found} from the first third of a trial to the last: {means} TPS"
    if found.ratio < 1 and (having := credits(case)) is not None:
        text += f"; {having} has burst credits, which may have ended"
    return Finding(abs(math.log(found.ratio)), text)


def thirds(trial: Trial) -> tuple[float, float, float] | None:
    """Throughput in the first, second and last third of a trial; None: too short to tell."""
    parts = _seconds(trial)
    return None if parts is None else (fmean(parts[0]), fmean(parts[1]), fmean(parts[2]))


def _seconds(trial: Trial) -> tuple[Sequence[float], Sequence[float], Sequence[float]] | None:
    """The seconds of each third; what does not divide by three is the second's."""
    seconds = trial.outcome.tps_samples
    third = len(seconds) // 3
    if third < _FEWEST_SECONDS // 3 or not any(seconds[:third]) or not any(seconds[-third:]):
        return None
    return seconds[:third], seconds[third:-third], seconds[-third:]


def _change(log: float, half: float) -> Change:
    return Change(math.exp(log), math.exp(log - half), math.exp(min(log + half, 700.0)))
