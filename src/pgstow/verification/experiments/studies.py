"""A published study held against an experiment that runs it again: its table and its claims."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pgstow.model import Claim, Experiment, Levels, Study, Trial
from pgstow.verification.effect import Interval
from pgstow.verification.experiments.comparison import paired_ratio, refuse_other_builds
from pgstow.verification.experiments.metrics import known_metric
from pgstow.verification.experiments.summary import Spread, spread

ClaimVerdict = Literal["holds", "does not hold", "not shown"]


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """What became of a claim. ``ratio`` is ``over`` over ``under``, paired by block."""

    claim: Claim
    blocks: int  # that have both
    ratio: float | None
    ratio_interval: Interval | None
    verdict: ClaimVerdict


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """``measured`` has the study's rows, and in each its columns; None: not measured."""

    study: Study
    measured: tuple[tuple[Spread | None, ...], ...]
    claims: tuple[ClaimOutcome, ...]


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
    for (block, _), value in _values(trials, levels, metric).items():
        by_block.setdefault(block, []).append(value)
    return spread([statistics.fmean(by_block[block]) for block in sorted(by_block)], confidence)


def _outcome(
    claim: Claim, experiment: Experiment, trials: Sequence[Trial], confidence: float
) -> ClaimOutcome:
    named = {factor for factor, _ in (*claim.over, *claim.under)}
    over, under = (
        {
            (block, tuple(pair for pair in levels if pair[0] not in named)): value
            for (block, levels), value in _values(trials, side, claim.metric).items()
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
    ratio, interval = found or (None, None)
    return ClaimOutcome(claim, len(pairs), ratio, interval, verdict_on(claim, ratio, interval))


def _geometric_means(logs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    below, above = zip(*logs, strict=True)
    return math.exp(statistics.fmean(below)), math.exp(statistics.fmean(above))


def verdict_on(claim: Claim, ratio: float | None, interval: Interval | None) -> ClaimVerdict:
    """Whether a measured ratio bears a claim out.

    It holds where a difference is shown and its ratio is within the claim's tolerance; where no
    difference is claimed, if the whole interval is. It does not where the whole interval is
    outside, or on the other side of 1. Else there are too few blocks to say.
    """
    if ratio is None or interval is None:
        return "not shown"
    low, high = claim.bounds
    if interval.high < low or interval.low > high:
        return "does not hold"
    if claim.direction == "equal":
        return "holds" if low <= interval.low and interval.high <= high else "not shown"
    is_shown = interval.low > 1 or interval.high < 1
    if is_shown and (ratio > 1) != (claim.direction == "higher"):
        return "does not hold"
    return "holds" if is_shown and claim.is_met_by(ratio) else "not shown"


def _values(
    trials: Sequence[Trial], levels: Levels, metric: str
) -> dict[tuple[int, Levels], float]:
    """The metric of each trial that has these levels among its own, by block and levels."""
    read = known_metric(metric).read
    values = {
        (trial.block, trial.levels): read(trial)
        for trial in trials
        if set(levels) <= set(trial.levels)
    }
    return {
        place: value
        for place, value in values.items()
        if value is not None and math.isfinite(value)
    }
