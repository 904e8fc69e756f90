"""The page's charts, from what the document has: those without data are left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from pgstow.model import Performance
from pgstow.report import charts
from pgstow.report import formatting as f
from pgstow.report.charts import Bar, Chart, Palette
from pgstow.report.document import ReportDocument
from pgstow.report.headline import before

_FEWEST_SAMPLES = 3  # of a line
_FEWEST_COMMITS = 20  # of a distribution
_LATENCIES: tuple[tuple[str, Callable[[Performance], float | None]], ...] = (
    ("transaction, mean", lambda p: p.latency_ms.mean),
    ("transaction, p99", lambda p: p.latency_ms.p99),
    ("commit, mean", lambda p: p.commit_ms.mean),
    ("commit, p99", lambda p: p.commit_ms.p99),
    ("WAL flush, mean", lambda p: None if p.wal_sync_us is None else p.wal_sync_us / 1000),
    ("device read, mean", lambda p: p.read_ms.mean if p.read_ms else None),
)
_WORDS = {
    "throughput": (
        "Transactions per second",
        "Whiskers: 95 % interval of a measured mean; the predicted interval.",
    ),
    "throughput-over-time": (
        "Transactions per second over the run",
        "One point for each sampling interval. A band is the predicted interval.",
    ),
    "latency": ("Latency", "Lower is better. A line joins the values of one metric."),
    "commits": (
        "Commit latency distribution",
        "Cumulative share of the timed commits; further left is better.",
    ),
}


def series(document: ReportDocument) -> dict[str, Performance]:
    """Speed and price by series: before, predicted, after."""
    found: dict[str, Performance | None] = {
        first(document): before(document),
        "predicted": document.expected.performance if document.expected else None,
        "after": document.after.performance if document.after else None,
    }
    return {name: one for name, one in found.items() if one is not None}


def first(document: ReportDocument) -> str:
    """What the present layout is called: nothing is before where there is no after."""
    return "before" if document.layout_after is not None else "observed"


def drawn(document: ReportDocument) -> tuple[Chart, ...]:
    """The charts, rendered for the page."""
    return tuple(
        Chart(*_WORDS[name], svg=charts.to_svg(spec, _alt_text(document, name)))
        for name, spec in specs(document, charts.PAGE)
    )


def _alt_text(document: ReportDocument, name: str) -> str:
    """What a chart shows, for who does not see it: its figures, not its title again."""
    known = series(document)
    if name == "latency":
        parts = [
            f"{metric}: "
            + ", ".join(f"{one} {f.milliseconds(ms)}" for one in known if (ms := read(known[one])))
            for metric, read in _LATENCIES
            if any(read(one) for one in known.values())
        ]
    elif name == "commits":
        parts = [
            f"{one}: half within {f.milliseconds(median(ms))}, all within {f.milliseconds(max(ms))}"
            for one, ms in _commit_samples(document).items()
        ]
    elif name == "throughput-over-time":
        parts = [
            f"{one}: from {f.number(min(tps))} to {f.number(max(tps))} over {f.duration(seconds)}"
            for one, (tps, seconds) in _runs(document).items()
        ]
    else:
        parts = [f"{one} {f.number(speed.tps)}" for one, speed in known.items()]
    return "; ".join(parts)


def specs(document: ReportDocument, palette: Palette) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and Vega-Lite specification of each chart that there are data for."""
    known = series(document)
    if len(known) > 1:
        yield "throughput", charts.bars(_bars(document, known), palette)
    runs = _runs(document)
    if runs:
        interval = document.expected.tps_interval if document.expected else None
        shown = interval if "after" in runs else None
        yield "throughput-over-time", charts.throughput_over_time(runs, shown, palette)
    rows = [
        (metric, name, value)
        for metric, read in _LATENCIES
        for name, performance in known.items()
        if (value := read(performance)) is not None and value > 0
    ]
    if rows:
        yield "latency", charts.latencies(rows, palette)
    samples = _commit_samples(document)
    if samples:
        yield "commits", charts.shares(samples, palette)


def _bars(document: ReportDocument, known: Mapping[str, Performance]) -> list[Bar]:
    intervals = {
        first(document): document.tps_interval_before,
        "predicted": document.expected.tps_interval if document.expected else None,
        "after": document.tps_interval_after,
    }
    return [Bar(name, one.tps, intervals[name]) for name, one in known.items()]


def _runs(document: ReportDocument) -> dict[str, tuple[Sequence[float], float]]:
    measured = {first(document): document.before, "after": document.after}
    return {
        name: (one.tps_samples, one.seconds)
        for name, one in measured.items()
        if one is not None and len(one.tps_samples) >= _FEWEST_SAMPLES
    }


def _commit_samples(document: ReportDocument) -> dict[str, Sequence[float]]:
    profiles = {first(document): document.profile, "after": document.profile_after}
    return {
        name: one.commit_ms
        for name, one in profiles.items()
        if one is not None and len(one.commit_ms) >= _FEWEST_COMMITS
    }
