"""Predicted beside measured, metric by metric, with the error of the prediction."""

from collections.abc import Callable, Iterable

from pgstow.model import LatencyMs, Performance, Warning
from pgstow.model.statistics import Comparison


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


_NAMES = {
    "tps": "TPS",
    "latency_ms.mean": "mean latency",
    "latency_ms.p99": "p99 latency",
    "commit_ms.p99": "commit p99",
}


def missed_warnings(comparisons: Iterable[Comparison]) -> tuple[Warning, ...]:
    """A warning for the speeds that the model misses on the very layout that was observed."""
    missed = [one for one in comparisons if one.metric in _NAMES and one.is_missed]
    if not missed:
        return ()
    parts = [
        f"{_NAMES[one.metric]} {_formatted(one.predicted, one.unit)} predicted,"
        f" {_formatted(one.measured, one.unit)} observed ({one.error_pct:+,.0f} %)"
        for one in missed
    ]
    return (
        Warning(
            "prediction-missed",
            f"the model misses the observed layout itself: {'; '.join(parts)}",
            "expect other layouts to be missed alike; tell the volumes with observe --layout, or"
            " observe for longer",
        ),
    )


def _formatted(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    return f"{value:,.2f} ms" if unit == "ms" else f"{value:,.0f}"
