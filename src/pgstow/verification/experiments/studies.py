"""A published study compared with an experiment that runs it again: its table and its claims."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgstow.model import Claim, Experiment, Levels, Study, Trial
from pgstow.model.statistics import ClaimOutcome, ClaimVerdict, Interval, Spread, StudyOutcome
from pgstow.verification.experiments.comparison import paired_ratio, refuse_other_builds
from pgstow.verification.experiments.drift import thirds
from pgstow.verification.experiments.metrics import Read, known_metric
from pgstow.verification.experiments.summary import spread

LIMITED_BY_EMULATOR = "limited-by-emulator"  # the code of a trial's warning


def hold_against(
    study: Study, experiment: Experiment, trials: Iterable[Trial], confidence: float = 0.99
) -> StudyOutcome:
    """What was measured of each published figure, and whether the claims hold.

    UserError for trials of different builds. A row or claim that names only some of the factors
    means all treatments that have its levels: their mean in each block.
    """
    found = tuple(trials)
    refuse_other_builds(experiment, found)
    return StudyOutcome(
        study,
        tuple(
            tuple(_cell(found, row.levels, column.metric, confidence) for column in study.columns)
            for row in study.rows
        ),
        tuple(_outcome(claim, experiment, found, confidence) for claim in study.claims),
    )


def _cell(
    trials: Sequence[Trial], levels: Levels, metric: str | None, confidence: float
) -> Spread | None:
    if metric is None or not levels:
        return None
    by_block: dict[int, list[float]] = {}
    for (block, _), value in _values(trials, levels, known_metric(metric).read).items():
        by_block.setdefault(block, []).append(value)
    return spread([statistics.fmean(by_block[block]) for block in sorted(by_block)], confidence)


def _outcome(
    claim: Claim, experiment: Experiment, trials: Sequence[Trial], confidence: float
) -> ClaimOutcome:
    found = _paired(claim, experiment, trials, known_metric(claim.metric).read, confidence)
    ratio, interval = (found.ratio, found.interval) if found else (None, None)
    return ClaimOutcome(
        claim,
        found.blocks if found else 0,
        ratio,
        interval,
        verdict_on(claim, ratio, interval),
        _thirds(claim, experiment, trials, confidence) if claim.metric == "tps" else None,
        is_limited=any(
            warning.code == LIMITED_BY_EMULATOR
            for trial in trials
            if any(set(side) <= set(trial.levels) for side in (claim.over, claim.under))
            for warning in trial.warnings
        ),
    )


@dataclass(frozen=True, slots=True)
class _Paired:
    ratio: float
    interval: Interval | None
    blocks: int


def _paired(
    claim: Claim, experiment: Experiment, trials: Sequence[Trial], read: Read, confidence: float
) -> _Paired | None:
    """The ratio of the claim's two sides in one figure, paired by block."""
    named = {factor for factor, _ in (*claim.over, *claim.under)}
    over, under = (
        {
            (block, tuple(pair for pair in levels if pair[0] not in named)): value
            for (block, levels), value in _values(trials, side, read).items()
        }
        for side in (claim.over, claim.under)
    )
    logs: dict[int, list[tuple[float, float]]] = {}
    for (block, rest), value in over.items():
        pair = (under.get((block, rest), 0.0), value)
        if min(pair) > 0:
            logs.setdefault(block, []).append((math.log(pair[0]), math.log(pair[1])))
    pairs = [_geometric_means(some) for some in logs.values()]
    found = paired_ratio(pairs, confidence, experiment.seed)
    return None if found is None else _Paired(found[0], found[1], len(pairs))


def _thirds(
    claim: Claim, experiment: Experiment, trials: Sequence[Trial], confidence: float
) -> tuple[float, float, float] | None:
    """The ratio of throughput in each third of the trials; None where one is not known."""

    def read(index: int) -> Read:
        def of(trial: Trial) -> float | None:
            found = thirds(trial)
            return None if found is None else found[index]

        return of

    first, second, last = (
        _paired(claim, experiment, trials, read(index), confidence) for index in range(3)
    )
    if first is None or second is None or last is None:
        return None
    return first.ratio, second.ratio, last.ratio


def _geometric_means(logs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    below, above = zip(*logs, strict=True)
    return math.exp(statistics.fmean(below)), math.exp(statistics.fmean(above))


def verdict_on(claim: Claim, ratio: float | None, interval: Interval | None) -> ClaimVerdict:
    """Whether a measured ratio bears a claim out.

    It holds where the whole interval is within the claim's tolerance and leaves out "no effect"
    (but where that is what is claimed). It does not where the whole interval is outside, or on the
    other side of 1. Else the blocks do not decide.
    """
    if ratio is None or interval is None:
        return "not demonstrated"
    low, high = claim.bounds
    if interval.high < low or interval.low > high:
        return "does not hold"
    is_inside = low <= interval.low and interval.high <= high
    if claim.direction == "equal":
        return "holds" if is_inside else "not demonstrated"
    is_shown = interval.low > 1 or interval.high < 1
    if is_shown and (ratio > 1) != (claim.direction == "higher"):
        return "does not hold"
    return "holds" if is_shown and is_inside else "not demonstrated"


def _values(trials: Sequence[Trial], levels: Levels, read: Read) -> dict[tuple[int, Levels], float]:
    """The figure of each trial that has these levels among its own, by block and levels."""
    values = {
        (trial.block, trial.levels): read(trial)
        for trial in trials
        if set(levels) <= set(trial.levels)
    }
    return {
        index: value
        for index, value in values.items()
        if value is not None and math.isfinite(value)
    }
