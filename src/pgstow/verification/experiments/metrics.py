"""The figures of a trial that can be compared, by name. Unknown is None, never 0."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pgstow.model import Trial, UserError


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a trial: its name, its unit, and how it is read."""

    name: str
    unit: str
    read: Callable[[Trial], float | None]


def known_metric(name: str) -> Metric:
    """The metric of that name; UserError where there is none.

    ``waits.EVENT`` is the event's part of all sessions; ``scripts.NAME.METRIC`` is of one script.
    """
    kind, _, rest = name.partition(".")
    script, _, figure = rest.rpartition(".")
    if kind == "waits" and rest:
        return Metric(name, "% of sessions", lambda trial: _sessions_pct(trial, rest))
    if kind == "scripts" and script and figure in METRICS:
        whole = METRICS[figure]
        return Metric(name, whole.unit, lambda trial: _of_script(trial, script, whole))
    found = METRICS.get(name)
    if found is None:
        more = "waits.EVENT, scripts.NAME.METRIC"
        raise UserError(f"there is no metric {name}", f"use {', '.join(METRICS)}, {more}")
    return found


def _sessions_pct(trial: Trial, event: str) -> float | None:
    """An event's part of the active sessions, in percent; 0 where it was never seen."""
    waits = trial.instruments.waits
    sums = {name: sum(values) for name, values in waits.sessions} if waits else {}
    total = sum(sums.values())
    return sums.get(event, 0.0) / total * 100 if total > 0 else None


def _of_script(trial: Trial, script: str, metric: Metric) -> float | None:
    outcome = dict(trial.outcome.scripts).get(script)
    return None if outcome is None else metric.read(replace(trial, outcome=outcome))


def usd_per_1000_tps(usd_month: float | None, tps: float | None) -> float | None:
    """The monthly price of 1,000 transactions per second; unknown without a price or any TPS.

    >>> usd_per_1000_tps(300.0, 2000.0)
    150.0
    """
    return None if usd_month is None or not tps else usd_month / tps * 1000


def _per(total: float | None, count: int) -> float | None:
    return None if total is None or count <= 0 else total / count


def _wal_sync_ms(trial: Trial) -> float | None:
    wal = trial.instruments.wal
    return _per(wal.sync_ms, wal.syncs) if wal else None


def _wal_write_ms(trial: Trial) -> float | None:
    wal = trial.instruments.wal
    return _per(wal.write_ms, wal.writes) if wal else None


def _wal_bytes(trial: Trial) -> float | None:
    wal = trial.instruments.wal
    return _per(wal.bytes, trial.outcome.transactions) if wal else None


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        one.name: one
        for one in (
            Metric("tps", "per second", lambda t: t.outcome.tps),
            Metric("mean_ms", "ms", lambda t: t.outcome.mean_ms),
            Metric("p50_ms", "ms", lambda t: t.outcome.p50_ms),
            Metric("p95_ms", "ms", lambda t: t.outcome.p95_ms),
            Metric("p99_ms", "ms", lambda t: t.outcome.p99_ms),
            Metric("max_ms", "ms", lambda t: t.outcome.max_ms),
            Metric("wal_sync_ms", "ms per sync", _wal_sync_ms),
            Metric("wal_write_ms", "ms per write", _wal_write_ms),
            Metric("wal_bytes", "bytes per transaction", _wal_bytes),
            Metric("usd_month", "$ per month", lambda t: t.usd_month),
            Metric(
                "usd_per_1000_tps",
                "$ per month",
                lambda t: usd_per_1000_tps(t.usd_month, t.outcome.tps),
            ),
        )
    }
)
