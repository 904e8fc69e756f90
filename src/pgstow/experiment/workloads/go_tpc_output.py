"""What go-tpc tells as it runs (``--output=json``), put together.

After each interval it prints an array with one object a kind of transaction: of TPC-C how many, the
sum of their latencies, and quantiles; of TPC-H's queries the mean alone. Latencies of a part of a
run are therefore a mixture of the intervals' quantiles, between which they are taken to be evenly
spread; and there is no histogram. A line is dated by when it came.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgstow.model.experiment import Outcome

OutputLine = tuple[float, str]  # when (time.time()), and a line
_CURRENT = "[Current]"
_ERROR = "_ERR"
_QUANTILES = ("50th(ms)", "90th(ms)", "95th(ms)", "99th(ms)", "99.9th(ms)", "Max(ms)")
_SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True)
class Interval:
    """One kind of transaction in one interval; ``quantiles_ms`` are at _SHARES."""

    at: float  # its middle
    kind: str
    count: int
    sum_ms: float
    quantiles_ms: tuple[float, ...]


def outcome_of(
    output: Sequence[OutputLine],
    interval_s: float,
    began_at: float | None = None,
    ended_at: float | None = None,
) -> Outcome | None:
    """What was done, or what was done between two times; None: nothing."""
    half_s = interval_s / 2
    intervals = [found for at, line in output for found in parse(at - half_s, line)]
    if not intervals:
        return None
    began_at = intervals[0].at - half_s if began_at is None else began_at
    ended_at = intervals[-1].at + half_s if ended_at is None else ended_at
    inside = [one for one in intervals if began_at <= one.at < ended_at]
    if not inside:
        return None
    kinds = sorted({one.kind.removesuffix(_ERROR) for one in inside})
    whole = _outcome(inside, began_at, ended_at, ())
    if len(kinds) < 2:
        return whole
    parts = []
    for kind in kinds:
        of_kind = [one for one in inside if one.kind in (kind, kind + _ERROR)]
        parts.append((kind, _outcome(of_kind, began_at, ended_at, ())))
    return _outcome(inside, began_at, ended_at, tuple(parts))


def parse(at: float, line: str) -> list[Interval]:
    """One line's intervals with that middle; none where it is a summary or a message.

    >>> parse(7.0, '[{"Prefix":"[Current] ","Operation":"Q1","Avg(s)":"1.50"}]')
    [Interval(at=7.0, kind='q1', count=1, sum_ms=1500.0, quantiles_ms=(1500.0,))]
    """
    if not line.startswith("[{"):
        return []
    try:
        rows = json.loads(line)
    except ValueError:
        return []
    return [_interval(at, row) for row in rows if row.get("Prefix", "").strip() == _CURRENT]


def _interval(at: float, row: dict[str, str]) -> Interval:
    name, errors, _ = row["Operation"].partition(_ERROR)
    kind = name.lower() + errors
    if "Count" not in row:
        latency_ms = float(row["Avg(s)"]) * 1000
        return Interval(at, kind, 1, latency_ms, (latency_ms,))
    quantiles = tuple(float(row[name]) for name in _QUANTILES)
    return Interval(at, kind, int(row["Count"]), float(row["Sum(ms)"]), quantiles)


def _outcome(
    intervals: Sequence[Interval],
    began_at: float,
    ended_at: float,
    parts: tuple[tuple[str, Outcome], ...],
) -> Outcome:
    seconds = ended_at - began_at
    done = [one for one in intervals if not one.kind.endswith(_ERROR)]
    count = sum(one.count for one in done)
    samples = np.zeros(max(int(seconds), 0))
    for one in done:
        index = int(one.at - began_at)
        if index < len(samples):
            samples[index] += one.count
    p50_ms, p95_ms, p99_ms = _mixed(done, (0.5, 0.95, 0.99))
    return Outcome(
        seconds=seconds,
        transactions=count,
        failed=sum(one.count for one in intervals) - count,
        skipped=0,
        tps=count / seconds,
        tps_samples=tuple(float(value) for value in samples),
        mean_ms=sum(one.sum_ms for one in done) / count if count else None,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        max_ms=max((one.quantiles_ms[-1] for one in done if one.count), default=None),
        scripts=parts,
    )


def _mixed(done: Sequence[Interval], shares: Sequence[float]) -> tuple[float | None, ...]:
    """Quantiles of all together: where the intervals' weighted distributions reach the share."""
    weight = sum(one.count for one in done)
    if weight == 0:
        return tuple(None for _ in shares)
    at_ms = np.unique([value for one in done for value in one.quantiles_ms])
    below = np.zeros(len(at_ms))
    for one in done:
        if len(one.quantiles_ms) == 1:
            below += one.count * (at_ms >= one.quantiles_ms[0])
        else:
            below += one.count * np.interp(at_ms, one.quantiles_ms, _SHARES, left=0.0)
    reached = np.searchsorted(below, np.array(shares) * weight * (1 - 1e-9))
    return tuple(float(at_ms[min(index, len(at_ms) - 1)]) for index in reached)
