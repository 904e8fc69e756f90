"""The charts of an experiment, stratum by stratum: those without data are left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgstow.model import Levels, Treatment, Trial
from pgstow.model.statistics import Interval, Spread, TreatmentSummary
from pgstow.report import formatting as f
from pgstow.report.experiments import curves, level_charts, time_charts
from pgstow.report.experiments.colours import LineStyle, level_styles, wait_colours
from pgstow.report.experiments.level_charts import Row
from pgstow.report.experiments.section import ExperimentSection
from pgstow.report.experiments.time_charts import Look

_LATENCIES: tuple[tuple[str, Callable[[TreatmentSummary], Spread | None]], ...] = (
    ("mean", lambda one: one.mean_ms),
    ("p99", lambda one: one.p99_ms),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart's specification, with its name and what it shows in words.

    ``events`` are the names of a legend's colours, by wait event, in the order of the stack.
    """

    name: str
    title: str
    note: str
    spec: dict[str, Any]
    events: Mapping[str, str]
    alt_text: str = ""  # the figures, for who does not see them


def styles_of(section: ExperimentSection) -> dict[str, LineStyle]:
    """How each level is drawn, in all of the section."""
    experiment = section.experiment
    return level_styles(experiment.levels_of(experiment.compare), experiment.baseline)


def figures(section: ExperimentSection, stratum: Levels, look: Look) -> Iterator[Figure]:
    """The charts of one stratum."""
    treatments = section.treatments_in(stratum)
    yield from _by_level(section, treatments, look)
    yield from _by_time(section, treatments, look)


def _by_level(
    section: ExperimentSection, treatments: Sequence[Treatment], look: Look
) -> Iterator[Figure]:
    """Throughput, ratio and latency, a row a level."""
    compare = section.experiment.compare
    styles = styles_of(section)
    labels = level_charts.labelled([one.level(compare) for one in treatments])
    known = [
        (labels[one.level(compare)], styles[one.level(compare)].colour, summary)
        for one in treatments
        for summary in (section.summary_of(one),)
        if summary is not None
    ]
    rows = [Row(n, c, s.tps.mean, _ends(s.tps.interval)) for n, c, s in known if s.tps]
    if rows:
        note = _whiskers("the mean over blocks", [s.tps for _, _, s in known if s.tps])
        spec = level_charts.bars(rows, look.palette)
        yield Figure("tps", "Transactions per second", note, spec, {}, _alt_text(rows))
    rows = [
        Row(labels[level], styles[level].colour, found.ratio, _ends(found.ratio_interval))
        for one in treatments
        for level in (one.level(compare),)
        for found in (section.comparison_of(one),)
        if found is not None and found.ratio is not None
    ]
    if rows:
        note = _ratio_note(section, treatments)
        spec = level_charts.ratios(rows, look.palette)
        yield Figure("ratio", "Throughput over the baseline's", note, spec, {}, _alt_text(rows))
    rows = [
        Row(label, colour, spread.mean, _ends(spread.interval), metric)
        for label, colour, summary in known
        for metric, read in _LATENCIES
        for spread in (read(summary),)
        if spread is not None and spread.mean > 0
    ]
    if rows:
        note = "Circle: mean; diamond: p99. Further left is better."
        spec = level_charts.latencies(rows, look.palette)
        yield Figure("latency", "Latency, mean and p99", note, spec, {}, _alt_text(rows, " ms"))


def _alt_text(rows: Sequence[Row], unit: str = "") -> str:
    """A chart's figures in words."""
    return "; ".join(
        f"{r.label} {r.metric} {f.number(r.value)}{unit}".replace("  ", " ") for r in rows
    )


def _by_time(
    section: ExperimentSection, treatments: Sequence[Treatment], look: Look
) -> Iterator[Figure]:
    """Distribution, throughput over time and sessions, a curve or a panel a level."""
    compare = section.experiment.compare
    labels = level_charts.labelled([one.level(compare) for one in treatments], 26)
    found = styles_of(section)
    styles = {label: found[level] for level, label in labels.items()}
    trials = {labels[one.level(compare)]: section.trials_of(one) for one in treatments}
    shares = {label: _cumulated(some) for label, some in trials.items()}
    shares = {label: points for label, points in shares.items() if points}
    if shares:
        spec = time_charts.distributions(shares, styles, look)
        note = "Cumulative share of transactions, all blocks together."
        yield Figure("latency-distribution", "Distribution of latency", note, spec, {})
    series = {
        label: curves.median_over_time(trial.outcome.tps_samples for trial in some)
        for label, some in trials.items()
    }
    series = {label: moments for label, moments in series.items() if len(moments) > 1}
    if series:
        spec = time_charts.throughput(series, styles, look)
        note = "Median of the blocks; the band holds their middle half."
        if len(series) > time_charts.MOST_TOGETHER:
            note += f" Grey: {next(iter(series))}."
        yield Figure("tps-over-time", "Transactions per second over the trial", note, spec, {})
    yield from _sessions(trials, look)


def _sessions(trials: Mapping[str, Sequence[Trial]], look: Look) -> Iterator[Figure]:
    sampled = {
        label: curves.mean_sessions(
            trial.instruments.waits for trial in some if trial.instruments.waits is not None
        )
        for label, some in trials.items()
    }
    known = {label: one for label, one in sampled.items() if one is not None}
    shown = curves.largest_events(known.values())
    if not shown:
        return
    panels = {label: (one.slice_s, curves.folded(one, shown)) for label, one in known.items()}
    seen = {event for _, stack in panels.values() for event, _ in stack}
    colours = wait_colours([event for event in (*shown, curves.OTHER) if event in seen])
    spec = time_charts.sessions(panels, colours, look)
    note = "By what they wait for, over the seconds of the trial; mean of the blocks."
    yield Figure("sessions", "Average active sessions", note, spec, colours)


def _cumulated(trials: Sequence[Trial]) -> tuple[tuple[float, float], ...]:
    histograms = (trial.outcome.histogram for trial in trials)
    return curves.cumulated(one for one in histograms if one is not None)


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _whiskers(what: str, spreads: Sequence[Spread]) -> str:
    found = next((one.interval for one in spreads if one.interval is not None), None)
    return "" if found is None else f"Whiskers: {found.confidence * 100:.0f} % interval of {what}."


def _ratio_note(section: ExperimentSection, treatments: Sequence[Treatment]) -> str:
    found = (section.comparison_of(one) for one in treatments)
    known = next((one.ratio_interval for one in found if one and one.ratio_interval), None)
    if known is None:
        return "Paired by block."
    return f"Paired by block; whiskers: {known.confidence * 100:.0f} % interval."
