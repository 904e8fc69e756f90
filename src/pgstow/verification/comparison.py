"""Predicted beside measured, metric by metric, with the error of the prediction."""

from collections.abc import Iterable

from pgstow.model import Performance, Warning
from pgstow.model.statistics import PERFORMANCE_METRICS, Comparison


def compare(
    predicted: Performance,
    measured: Performance,
    *,
    tps_interval: tuple[float, float] | None = None,
) -> tuple[Comparison, ...]:
    """Pair predicted with measured values, where at least one of both is known."""
    found = (
        Comparison(
            metric=metric.name,
            unit=metric.unit,
            predicted=metric.read(predicted),
            measured=metric.read(measured),
            predicted_from=predicted.provenance,
            measured_from=measured.provenance,
            interval=tps_interval if metric.name == "tps" else None,
        )
        for metric in PERFORMANCE_METRICS.values()
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
    """A warning for speeds that the prediction misses on the observed layout itself."""
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
