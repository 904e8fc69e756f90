"""The outcome of the transactions of a run, or of a part of it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgstow.experiment.workloads.transactions import (
    FAILED,
    SKIPPED,
    Transactions,
    read_logs,
)
from pgstow.model.experiment import LatencyHistogram, Outcome

BINS_PER_DECADE = 20
_SECOND_US = 1_000_000
_PART = 1_000_000  # of the transactions looked at in one go
_FIRST_BIN, _LAST_BIN = -59, 160  # below 1.12 µs; below 10⁸ ms, more than a day
# To six digits, as people and JSON see them: a latency is below the edge that is shown.
_UPPER_MS = np.array(
    [float(f"{10 ** (bin / BINS_PER_DECADE):.6g}") for bin in range(_FIRST_BIN, _LAST_BIN + 1)]
)


def outcome_of_logs(
    paths: Iterable[Path],
    scripts: Sequence[str],
    began_at: float | None = None,
    ended_at: float | None = None,
    sampling_rate: float = 1.0,
) -> Outcome | None:
    """What the logs say of the run, or of the part between two times; None: nothing was done."""
    first_us = None if began_at is None else round(began_at * 1e6)
    last_us = None if ended_at is None else round(ended_at * 1e6)
    logged = read_logs(paths, first_us, last_us)
    if len(logged) == 0:
        return None
    first_us = int(logged.begin_us.min()) if first_us is None else first_us
    last_us = int(logged.end_us.max()) + 1 if last_us is None else last_us
    if last_us <= first_us:
        raise ValueError("the part of the run to look at must have a length")
    return outcome_of(logged, scripts, first_us, last_us, sampling_rate)


def outcome_of(
    transactions: Transactions,
    scripts: Sequence[str],
    first_us: int,
    last_us: int,
    sampling_rate: float = 1.0,
) -> Outcome:
    """What was done between two times (µs since the epoch).

    Transactions and latencies are of those that ended then. ``tps`` and its samples count a
    transaction by the share of it that is in the time: one that lasts for seconds, as a scan
    does, would else make them jump. ``sampling_rate`` is the share that was logged.
    """
    inside = transactions.overlapping(first_us, last_us)
    whole = _outcome(inside, first_us, last_us, sampling_rate)
    if len(scripts) < 2:
        return whole
    parts = tuple(
        (name, _outcome(inside.where(inside.script == number), first_us, last_us, sampling_rate))
        for number, name in enumerate(scripts)
    )
    return replace(whole, scripts=parts)


def _outcome(
    transactions: Transactions, first_us: int, last_us: int, sampling_rate: float
) -> Outcome:
    seconds = (last_us - first_us) / _SECOND_US
    done = transactions.where(transactions.latency_us >= 0)
    work = work_per_second(done.begin_us, done.end_us, first_us, last_us) / sampling_rate
    latency_us = transactions.ended(first_us, last_us).latency_us
    done_us = latency_us[latency_us >= 0]
    mean_ms = p50_ms = p95_ms = p99_ms = max_ms = stddev_ms = None
    if len(done_us):
        mean_ms, max_ms = float(done_us.mean()) / 1000, float(done_us.max()) / 1000
        stddev_ms = float(done_us.std()) / 1000
        p50_ms, p95_ms, p99_ms = (
            float(value) / 1000 for value in np.percentile(done_us, (50, 95, 99))
        )
    return Outcome(
        seconds=seconds,
        transactions=round(len(done_us) / sampling_rate),
        failed=round(int((latency_us == FAILED).sum()) / sampling_rate),
        skipped=round(int((latency_us == SKIPPED).sum()) / sampling_rate),
        tps=float(work.sum()) / seconds,
        tps_samples=tuple(float(value) for value in work[: int(seconds)]),
        mean_ms=mean_ms,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        max_ms=max_ms,
        histogram=histogram_of(done_us) if len(done_us) else None,
        stddev_ms=stddev_ms,
    )


def histogram_of(latency_us: NDArray[np.int64]) -> LatencyHistogram:
    """Latencies in bins whose edges are the same for all, so that histograms can be added.

    >>> histogram_of(np.array([900, 1050])).counts
    (1, 1)
    """
    bin_of = np.searchsorted(_UPPER_MS, latency_us / 1000, side="right")
    counts = np.bincount(np.minimum(bin_of, len(_UPPER_MS) - 1), minlength=len(_UPPER_MS))
    used = np.flatnonzero(counts)
    bins = slice(int(used[0]), int(used[-1]) + 1)
    return LatencyHistogram(
        tuple(float(edge) for edge in _UPPER_MS[bins]), tuple(int(count) for count in counts[bins])
    )


def work_per_second(
    begin_us: NDArray[np.int64], end_us: NDArray[np.int64], first_us: int, last_us: int
) -> NDArray[np.float64]:
    """How many transactions were done in each second of a time, by the shares that are in it.

    >>> work_per_second(np.array([500_000]), np.array([2_500_000]), 0, 2_000_000)
    array([0.25, 0.5 ])
    """
    seconds = max(-((first_us - last_us) // _SECOND_US), 1)
    work = np.zeros(seconds)
    for first in range(0, len(end_us), _PART):
        part = slice(first, first + _PART)
        work += _work(begin_us[part], end_us[part], first_us, last_us)[:seconds]
    return work


def _work(
    begin_us: NDArray[np.int64], end_us: NDArray[np.int64], first_us: int, last_us: int
) -> NDArray[np.float64]:
    begin_us = np.minimum(begin_us, end_us - 1)  # the shortest is 1 µs
    begin = np.clip(begin_us, first_us, last_us) - first_us
    end = np.clip(end_us, first_us, last_us) - first_us
    first, last = begin // _SECOND_US, np.maximum(end - 1, begin) // _SECOND_US
    # One entry a transaction and second of it.
    spans = last - first + 1
    owner = np.repeat(np.arange(len(begin)), spans)
    second = np.repeat(first - np.cumsum(spans) + spans, spans) + np.arange(len(owner))
    overlap_us = np.minimum(end[owner], (second + 1) * _SECOND_US) - np.maximum(
        begin[owner], second * _SECOND_US
    )
    share = overlap_us / (end_us - begin_us)[owner]
    seconds = -((first_us - last_us) // _SECOND_US)
    work = np.bincount(second, weights=share, minlength=max(seconds, 1))
    return work.astype(np.float64, copy=False)
