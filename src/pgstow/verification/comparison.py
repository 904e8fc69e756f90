"""Predicted beside measured, metric by metric, with the error of the prediction."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgstow.model import LatencyMs, Performance, Provenance


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a layout as it was predicted and as it was measured; None: not known.

    ``error_pct`` is signed, of the measured value: +10 says that the prediction was 10 % too high.
    ``within_interval`` says whether the measured value lies in the interval that was predicted;
    None where none was.
    """

    metric: str  # "tps", "latency_ms.mean", … as in the summary
    unit: str  # "per second", "ms", "µs", "$"
    predicted: float | None
    measured: float | None
    predicted_from: Provenance
    measured_from: Provenance
    interval: tuple[float, float] | None = None

    @property
    def error_pct(self) -> float | None:
        """How far the prediction was off, in percent of what was measured."""
        if self.predicted is None or not self.measured:
            return None
        return (self.predicted - self.measured) / self.measured * 100

    @property
    def within_interval(self) -> bool | None:
        """Whether what was measured lies in the predicted interval."""
        if self.interval is None or self.measured is None:
            return None
        low, high = self.interval
        return low <= self.measured <= high


def _read(part: str) -> Callable[[Performance], float | None]:
    def value(performance: Performance) -> float | None:
        if performance.read_ms is None:
            return None
        latency: LatencyMs = performance.read_ms
        return latency.mean if part == "mean" else latency.p99

    return value


METRICS: tuple[tuple[str, str, Callable[[Performance], float | None]], ...] = (
    ("tps", "per second", lambda p: p.tps),
    ("latency_ms.mean", "ms", lambda p: p.latency_ms.mean),
    ("latency_ms.p99", "ms", lambda p: p.latency_ms.p99),
    ("commit_ms.mean", "ms", lambda p: p.commit_ms.mean),
    ("commit_ms.p99", "ms", lambda p: p.commit_ms.p99),
    ("read_ms.mean", "ms", _read("mean")),
    ("read_ms.p99", "ms", _read("p99")),
    ("wal_sync_us", "µs", lambda p: p.wal_sync_us),
    ("dollars_month", "$", lambda p: p.usd_month),
    ("dollars_per_1000_tps", "$", lambda p: p.usd_per_1000_tps),
)


def compare(
    predicted: Performance,
    measured: Performance,
    *,
    tps_interval: tuple[float, float] | None = None,
) -> tuple[Comparison, ...]:
    """Put what was predicted beside what was measured, where at least one of both is known."""
    found = (
        Comparison(
            metric=metric,
            unit=unit,
            predicted=value(predicted),
            measured=value(measured),
            predicted_from=predicted.provenance,
            measured_from=measured.provenance,
            interval=tps_interval if metric == "tps" else None,
        )
        for metric, unit, value in METRICS
    )
    return tuple(one for one in found if one.predicted is not None or one.measured is not None)


def errors_pct(comparisons: Iterable[Comparison]) -> dict[str, float]:
    """The signed error of each metric that was both predicted and measured."""
    return {one.metric: one.error_pct for one in comparisons if one.error_pct is not None}
