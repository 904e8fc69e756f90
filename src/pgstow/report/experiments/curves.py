"""What a treatment's trials look like together: distribution of latencies, throughput over time,
sessions by wait event. Pure arithmetic."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgstow.model import LatencyHistogram, Waits
from pgstow.report.charts import thinned

MOST_POINTS = 120  # of one curve
MOST_SLICES = 60
MOST_EVENTS = 7
OTHER = "other"
_ALIKE = 0.05  # of a slice's length


@dataclass(frozen=True, slots=True)
class Moment:
    """Throughput about one moment of the trials: median and quartiles over blocks."""

    second: float
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sessions:
    """Mean sessions by event in slices of ``slice_s``, over the blocks."""

    slice_s: float
    by_event: tuple[tuple[str, tuple[float, ...]], ...]


def cumulated(histograms: Iterable[LatencyHistogram]) -> tuple[tuple[float, float], ...]:
    """Latency in ms and the share of transactions below it, all histograms together.

    >>> cumulated([LatencyHistogram((1.0, 2.0), (3, 1)), LatencyHistogram((2.0,), (4,))])
    ((1.0, 0.375), (2.0, 1.0))
    """
    counts: dict[float, int] = defaultdict(int)
    for histogram in histograms:
        for upper, count in zip(histogram.upper_ms, histogram.counts, strict=False):
            counts[upper] += count
    total, below, found = sum(counts.values()), 0, []
    for upper in sorted(counts):
        if counts[upper] and upper > 0:
            below += counts[upper]
            found.append((upper, below / total))
    return tuple(point for _, point in thinned(found, MOST_POINTS))


def median_over_time(runs: Iterable[Sequence[float]], most: int = MOST_POINTS) -> list[Moment]:
    """Median and quartiles over the runs, second by second; long runs in means of some seconds.

    >>> [(one.second, one.median, one.low) for one in median_over_time([[1.0], [3.0], [4.0, 2.0]])]
    [(0.5, 3.0, 2.0), (1.5, 2.0, 2.0)]
    """
    every = [run for run in runs if run]
    longest = max((len(run) for run in every), default=0)
    width = max(1, -(-longest // most))
    found = []
    for start in range(0, longest, width):
        values = [statistics.fmean(run[start : start + width]) for run in every if len(run) > start]
        low, median, high = _quartiles(values)
        found.append(Moment(min(start + width / 2, (start + longest) / 2), median, low, high))
    return found


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def mean_sessions(sampled: Iterable[Waits]) -> Sessions | None:
    """The blocks' mean in each slice.

    A trial is cut into slices of equal length, which is a little different in the next one. Where
    it is of quite another length than the usual, the trial is left out.
    """
    every = [one for one in sampled if one.sessions]
    if not every:
        return None
    usual_s = statistics.median_low(one.slice_s for one in every)
    alike = [one for one in every if abs(one.slice_s - usual_s) <= _ALIKE * usual_s]
    length = max(len(values) for one in alike for _, values in one.sessions)
    width = max(1, -(-length // MOST_SLICES))
    sums: dict[str, list[float]] = {}
    trials = [0] * length
    for one in alike:
        reached = max((len(values) for _, values in one.sessions), default=0)
        for index in range(reached):
            trials[index] += 1
        for event, values in one.sessions:
            row = sums.setdefault(event, [0.0] * length)
            for index, value in enumerate(values):
                row[index] += value
    means = {
        event: [total / max(1, count) for total, count in zip(row, trials, strict=True)]
        for event, row in sums.items()
    }
    joined = {event: _joined(row, width) for event, row in means.items()}
    return Sessions(usual_s * width, tuple(joined.items()))


def _joined(values: Sequence[float], width: int) -> tuple[float, ...]:
    return tuple(
        statistics.fmean(values[start : start + width]) for start in range(0, len(values), width)
    )


def largest_events(panels: Iterable[Sessions]) -> tuple[str, ...]:
    """The events with most sessions over all panels, largest first: CPU always leads if it is."""
    totals: dict[str, float] = defaultdict(float)
    for panel in panels:
        for event, values in panel.by_event:
            totals[event] += statistics.fmean(values) if values else 0.0
    totals.pop(OTHER, None)
    ordered = sorted((e for e in totals if totals[e] > 0), key=lambda e: (-totals[e], e))
    shown = ordered[:MOST_EVENTS]
    return tuple(sorted(shown, key=lambda event: event != "CPU"))


def folded(panel: Sessions, shown: Sequence[str]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The shown events in their order, then the sum of all others, if there are any."""
    by_event = dict(panel.by_event)
    rest = [values for event, values in panel.by_event if event not in shown]
    found = [(event, by_event[event]) for event in shown if event in by_event]
    others = tuple(sum(column) for column in zip(*rest, strict=True)) if rest else ()
    return (*found, (OTHER, others)) if any(others) else tuple(found)
