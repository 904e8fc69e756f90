"""Levels compared with the baseline, block by block: ratio, difference, p-value, verdict.

Both trials of a pair come from one block, so that what a block has in common (a slow hour, a busy
neighbour, a fuller disk) cancels. The order in a block is random, so that the sign of what is left
is random too: pairs are independent even where the machine's speed resembles itself from trial to
trial, and nothing is taken off their number for that.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgstow.model import Experiment, Levels, Treatment, Trial, UserError
from pgstow.model.statistics import Interval, LevelComparison, LevelVerdict, Method
from pgstow.verification.experiments.interval import FEWEST_BLOCKS, means
from pgstow.verification.experiments.metrics import Metric, known_metric

_LARGEST_LOG = 700.0  # above, its exponential is no finite number
_ROUNDING = 1e-9


def compare(
    experiment: Experiment,
    trials: Iterable[Trial],
    metric: str = "tps",
    confidence: float = 0.99,
) -> tuple[LevelComparison, ...]:
    """Every level of the compared factor against the baseline, in each stratum, paired by block.

    The comparisons of one call are one family: the chance that any of them shows a difference where
    there is none is at most 1 − confidence. UserError for an unknown metric, and for trials of
    different builds.
    """
    chosen, found = known_metric(metric), tuple(trials)
    refuse_other_builds(experiment, found)
    by_place = {(trial.levels, trial.block): trial for trial in found}
    blocks = sorted({trial.block for trial in found})
    comparisons = []
    for one, other in _pairs(experiment):
        pairs: dict[int, tuple[float, float]] = {}
        for block in blocks:
            values = [_read(chosen, by_place.get((t.levels, block))) for t in (one, other)]
            if values[0] is not None and values[1] is not None:
                pairs[block] = (values[0], values[1])
        comparisons.append(
            _compared(experiment, chosen, other, blocks=blocks, pairs=pairs, confidence=confidence)
        )
    return _with_verdicts(comparisons)


def refuse_other_builds(experiment: Experiment, trials: Iterable[Trial]) -> None:
    """UserError where figures of different builds would be compared.

    The server's version and the load may be factors, and blocks may be spread over machines: alike
    must be what the same version, the same load and the same machine were measured with.
    """
    treatments = {one.levels: one for one in experiment.treatments}
    seen: dict[tuple[str, ...], str] = {}
    for trial in trials:
        treatment, build = treatments.get(trial.levels), trial.build
        if treatment is None:
            continue
        for key, value in (
            (("pgstow",), f"pgstow {build.pgstow}"),
            (("server", str(treatment.server.version)), f"PostgreSQL {build.postgres}"),
            (("load", treatment.workload.name, treatment.data.maker), build.workload),
            (("host", trial.host), f"{build.kernel}, {build.machine}"),
        ):
            first = seen.setdefault(key, value)
            if first != value:
                raise UserError(
                    f"trials of {experiment.name} are of different builds: {first}, and {value}",
                    "compare trials of one build only: begin a new run",
                )


def paired_ratio(
    pairs: Sequence[tuple[float, float]], confidence: float, seed: int
) -> tuple[float, Interval | None] | None:
    """The geometric mean of second over first, with its interval where there are enough pairs.

    None: there are no pairs, or a value is not above 0.
    """
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        return None
    log = _mean(np.array([math.log(other / one) for one, other in pairs]), confidence, seed)
    return None if log is None else (math.exp(log.mean), _exponential(log.interval))


def _pairs(experiment: Experiment) -> Iterator[tuple[Treatment, Treatment]]:
    """Baseline and another treatment, alike in all but the compared factor."""
    strata: dict[Levels, list[Treatment]] = {}
    for treatment in experiment.treatments:
        strata.setdefault(_stratum(experiment, treatment), []).append(treatment)
    for members in strata.values():
        for one in members:
            if one.level(experiment.compare) == experiment.baseline:
                yield from ((one, other) for other in members if other is not one)


def _stratum(experiment: Experiment, treatment: Treatment) -> Levels:
    return tuple(pair for pair in treatment.levels if pair[0] != experiment.compare)


def _read(chosen: Metric, trial: Trial | None) -> float | None:
    value = None if trial is None else chosen.read(trial)
    return value if value is not None and math.isfinite(value) else None


def _compared(
    experiment: Experiment,
    chosen: Metric,
    other: Treatment,
    *,
    blocks: Sequence[int],
    pairs: Mapping[int, tuple[float, float]],
    confidence: float,
) -> LevelComparison:
    """The comparison of a family of one: its verdict waits for the others."""
    below, above = np.array(list(pairs.values()), dtype=float).reshape(-1, 2).T
    difference = _mean(above - below, confidence, experiment.seed)
    has_ratio = len(pairs) > 0 and (below > 0).all() and (above > 0).all()
    log = _mean(np.log(above / below), confidence, experiment.seed) if has_ratio else None
    deciding = log or difference
    return LevelComparison(
        metric=chosen.name,
        unit=chosen.unit,
        stratum=_stratum(experiment, other),
        factor=experiment.compare,
        level=other.level(experiment.compare),
        baseline=experiment.baseline,
        blocks=tuple(pairs),
        blocks_left_out=tuple(block for block in blocks if block not in pairs),
        baseline_values=tuple(below.tolist()),
        level_values=tuple(above.tolist()),
        ratio=math.exp(log.mean) if log else None,
        ratio_interval=_exponential(log.interval) if log else None,
        difference=difference.mean if difference else None,
        difference_interval=difference.interval if difference else None,
        p_value=deciding.p_value if deciding else None,
        p_adjusted=None,
        method=deciding.method if deciding else None,
        confidence=confidence,
        verdict="too few blocks",
    )


@dataclass(frozen=True, slots=True)
class _Mean:
    mean: float
    interval: Interval | None = None
    p_value: float | None = None
    method: Method | None = None


def _mean(values: np.ndarray, confidence: float, seed: int) -> _Mean | None:
    """The mean over blocks, with an interval where there are enough; None of no blocks."""
    if not len(values):
        return None
    if len(values) < FEWEST_BLOCKS:
        return _Mean(float(values.mean()))
    found = means(values.reshape(1, -1), confidence=confidence, seed=seed)
    mean, half = float(found.mean[0]), float(found.half_width[0])
    interval = Interval(mean, mean - half, mean + half, len(values), confidence)
    return _Mean(mean, interval, float(found.p_value[0]), found.method)


def _exponential(log: Interval | None) -> Interval | None:
    """The interval of a ratio, from that of its logarithm."""
    if log is None:
        return None
    low, high = math.exp(max(log.low, -_LARGEST_LOG)), math.exp(min(log.high, _LARGEST_LOG))
    return Interval(math.exp(log.mean), low, high, log.samples, log.confidence)


def _with_verdicts(comparisons: Sequence[LevelComparison]) -> tuple[LevelComparison, ...]:
    """Each with Holm's p-value, and what it shows.

    Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    tested = sorted(
        (one.p_value, index) for index, one in enumerate(comparisons) if one.p_value is not None
    )
    decided = list(comparisons)
    adjusted = 0.0
    for rank, (p_value, index) in enumerate(tested):
        adjusted = max(adjusted, min(1.0, p_value * (len(tested) - rank)))
        one = comparisons[index]
        verdict: LevelVerdict = "no difference demonstrated"
        if adjusted <= (1 - one.confidence) * (1 + _ROUNDING):
            rises = one.ratio > 1 if one.ratio is not None else (one.difference or 0.0) > 0
            verdict = "higher" if rises else "lower"
        decided[index] = replace(one, p_adjusted=adjusted, verdict=verdict)
    return tuple(decided)
