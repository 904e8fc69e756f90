"""The figures of a trial that can be compared, by name. Unknown is None, never 0."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pgstow.model import CommitUse, Trial, UserError, WalUse

Read = Callable[[Trial], float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a trial: its name, its unit, and how it is read."""

    name: str
    unit: str
    read: Read


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


def _wal(read: Callable[[WalUse, Trial], float | None]) -> Read:
    """A figure of the WAL's; None where it was not read."""
    return lambda trial: None if (wal := trial.instruments.wal) is None else read(wal, trial)


def _commits(read: Callable[[CommitUse], float]) -> Read:
    """A figure of the test commits; None where none were sent."""
    return lambda trial: None if (found := trial.instruments.commits) is None else read(found)


def _us_per_transaction(total_ms: float | None, trial: Trial) -> float | None:
    return None if total_ms is None else _per(total_ms * 1000, trial.outcome.transactions)


def _await_max_ms(trial: Trial) -> float | None:
    """Of whichever device's requests waited longest."""
    known = [one.await_ms_worst_second for one in trial.instruments.devices or ()]
    return max((found for found in known if found is not None), default=None)


def _device_writes(trial: Trial) -> float | None:
    devices = trial.instruments.devices
    if not devices or trial.outcome.tps <= 0:
        return None
    return sum(one.writes_per_s for one in devices) / trial.outcome.tps


def _device_write_kib(trial: Trial) -> float | None:
    writes = sum(one.writes_per_s for one in trial.instruments.devices or ())
    written = sum(one.write_bytes_per_s for one in trial.instruments.devices or ())
    return written / writes / 1024 if writes > 0 else None


_WAL_METRICS = (
    Metric("wal_sync_ms", "ms per sync", _wal(lambda wal, _: _per(wal.sync_ms, wal.syncs))),
    Metric("wal_write_ms", "ms per write", _wal(lambda wal, _: _per(wal.write_ms, wal.writes))),
    Metric(
        "wal_write_max_ms",
        "ms per write, in the second where it is most",
        _wal(lambda wal, _: wal.write_ms_worst_second),
    ),
    Metric(
        "wal_sync_us",
        "µs per transaction",
        _wal(lambda wal, trial: _us_per_transaction(wal.sync_ms, trial)),
    ),
    Metric(
        "wal_write_us",
        "µs per transaction",
        _wal(lambda wal, trial: _us_per_transaction(wal.write_ms, trial)),
    ),
    Metric(
        "wal_bytes",
        "bytes per transaction",
        _wal(lambda wal, trial: _per(wal.bytes, trial.outcome.transactions)),
    ),
    Metric(
        "wal_writes",
        "per transaction",
        _wal(lambda wal, trial: _per(float(wal.writes), trial.outcome.transactions)),
    ),
    Metric(
        "wal_write_kib", "KiB of WAL per write", _wal(lambda wal, _: _kib(wal.bytes, wal.writes))
    ),
)


def _kib(total_bytes: float, count: int) -> float | None:
    return _per(total_bytes / 1024, count)


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
            Metric("stddev_ms", "ms", lambda t: t.outcome.stddev_ms),
            Metric("seconds", "s", lambda t: t.outcome.seconds),
            Metric("connection_ms", "ms", lambda t: t.outcome.connection_ms),
            Metric("commit_mean_ms", "ms", _commits(lambda one: one.mean_ms)),
            Metric("commit_p99_ms", "ms", _commits(lambda one: one.p99_ms)),
            Metric("commit_max_ms", "ms", _commits(lambda one: one.max_ms)),
            *_WAL_METRICS,
            Metric("await_max_ms", "ms, in the second where it is most", _await_max_ms),
            Metric("device_writes", "per transaction", _device_writes),
            Metric("device_write_kib", "KiB per write", _device_write_kib),
            Metric("usd_month", "$ per month", lambda t: t.usd_month),
            Metric(
                "usd_per_1000_tps",
                "$ per month",
                lambda t: usd_per_1000_tps(t.usd_month, t.outcome.tps),
            ),
        )
    }
)
