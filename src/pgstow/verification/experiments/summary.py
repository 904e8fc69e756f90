"""Each treatment by itself: means over the blocks with intervals, spread, price."""

import math
import statistics
from collections.abc import Iterable, Sequence

from pgstow.model import Experiment, Levels, Trial
from pgstow.model.statistics import Spread, TreatmentSummary
from pgstow.verification.effect import mean_interval
from pgstow.verification.experiments.drift import thirds
from pgstow.verification.experiments.metrics import known_metric, usd_per_1000_tps


def summaries(
    experiment: Experiment, trials: Iterable[Trial], confidence: float = 0.99
) -> tuple[TreatmentSummary, ...]:
    """Every treatment's summary, in the experiment's order; also of those with no trial yet."""
    by_treatment: dict[Levels, list[Trial]] = {one.levels: [] for one in experiment.treatments}
    for trial in trials:
        if trial.levels in by_treatment:
            by_treatment[trial.levels].append(trial)
    return tuple(_summary(levels, found, confidence) for levels, found in by_treatment.items())


def spread(values: Sequence[float], confidence: float) -> Spread | None:
    """Mean, interval and coefficient of variation; None of no values.

    >>> spread([99.0, 100.0, 101.0], 0.95).cv
    0.01
    """
    if not values:
        return None
    mean = statistics.fmean(values)
    several = len(values) > 1 and mean != 0
    return Spread(
        mean,
        mean_interval(values, confidence=confidence),
        statistics.stdev(values) / abs(mean) if several else None,
        tuple(values),
    )


def _summary(levels: Levels, trials: Sequence[Trial], confidence: float) -> TreatmentSummary:
    ordered = sorted(trials, key=lambda trial: trial.block)

    def of(name: str) -> Spread | None:
        read = known_metric(name).read
        values = (read(trial) for trial in ordered)
        return spread([v for v in values if v is not None and math.isfinite(v)], confidence)

    tps, usd_month = of("tps"), _usd_month(ordered)
    return TreatmentSummary(
        levels,
        len(ordered),
        tps,
        of("mean_ms"),
        of("p50_ms"),
        of("p95_ms"),
        of("p99_ms"),
        usd_month,
        usd_per_1000_tps(usd_month, tps.mean if tps else None),
        _thirds(ordered),
    )


def _thirds(trials: Sequence[Trial]) -> tuple[float, float, float] | None:
    """Throughput in the first, second and last third of the trials; None where any is too short."""
    known = [found for found in map(thirds, trials) if found is not None]
    if not known or len(known) < len(trials):
        return None
    first, second, last = (statistics.fmean(values) for values in zip(*known, strict=True))
    return first, second, last


def _usd_month(trials: Sequence[Trial]) -> float | None:
    """The price, which trials of one treatment share; None where any does not know it."""
    prices = [trial.usd_month for trial in trials]
    known = [price for price in prices if price is not None]
    return statistics.fmean(known) if known and len(known) == len(prices) else None
