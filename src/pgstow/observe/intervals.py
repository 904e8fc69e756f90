"""From cumulative counters to rates: pairs of samples, without those with a reset between them."""

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pgstow.host.devices import HostSample
from pgstow.model.provenance import Rate, Warning
from pgstow.postgres.counters import ServerSample


@dataclass(frozen=True, slots=True)
class Sample:
    """Server and host at one instant; ``host`` of None: it cannot be seen."""

    server: ServerSample
    host: HostSample | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """Two samples in a row between which the counters only counted."""

    before: Sample
    after: Sample

    @property
    def seconds(self) -> float:
        """The time between the samples."""
        return self.after.server.at_s - self.before.server.at_s


def intervals(samples: Sequence[Sample]) -> tuple[tuple[Interval, ...], tuple[Warning, ...]]:
    """Pair the samples; pairs across a restart or a reset are left out, with a warning."""
    kept = []
    warnings: dict[tuple[str, str], int] = {}
    for before, after in itertools.pairwise(samples):
        flaw = _flaw(before, after)
        if flaw is None:
            kept.append(Interval(before, after))
        else:
            warnings[flaw] = warnings.get(flaw, 0) + 1
    return tuple(kept), tuple(_warning(flaw, count) for flaw, count in warnings.items())


def _flaw(before: Sample, after: Sample) -> tuple[str, str] | None:
    old, new = before.server, after.server
    if new.at_s <= old.at_s:
        return "clock", "the clock stood still"
    if new.started_at != old.started_at:
        return "restart", "the server was restarted"
    if set(new.gone) != set(old.gone):
        names = ", ".join(sorted(set(new.gone) ^ set(old.gone)))
        return "database-lost", f"database {names} could not be read all the time"
    for name, at in new.resets.items():
        if name in old.resets and old.resets[name] != at:
            return "counter-reset", f"the statistics of {name} were reset"
    backwards = _backwards(old, new)
    if backwards is not None:
        return "counter-reset", f"the counters of {backwards} went backwards"
    return None


def _backwards(old: ServerSample, new: ServerSample) -> str | None:
    if new.wal.bytes < old.wal.bytes or new.wal.syncs < old.wal.syncs:
        return "wal"
    if any(a < b for a, b in zip(_writes(new), _writes(old), strict=True)):
        return "checkpoints"
    for name, database in new.databases.items():
        was = old.databases.get(name)
        if was is not None and (
            database.transactions < was.transactions or database.temp_bytes < was.temp_bytes
        ):
            return f"database {name}"
    for key, counters in new.relations.items():
        past = old.relations.get(key)
        # the last two are gauges
        if past is not None and any(a < b for a, b in zip(counters[:8], past[:8], strict=True)):
            return f"relation {key[1]} of database {key[0]}"
    return None


def _writes(sample: ServerSample) -> tuple[int, ...]:
    writes = sample.writes
    return (
        writes.checkpoints_timed,
        writes.checkpoints_requested,
        writes.checkpointer_blocks,
        writes.background_writer_blocks,
        writes.backend_blocks,
    )


def _warning(flaw: tuple[str, str], count: int) -> Warning:
    code, reason = flaw
    times = "one interval is" if count == 1 else f"{count} intervals are"
    return Warning(code, f"{reason} while observing: {times} left out")


def rate(kept: Sequence[Interval], amount: Callable[[Interval], float]) -> Rate:
    """Events per second over intervals: all events by all time, and the spread between them."""
    return rate_of([amount(interval) for interval in kept], [i.seconds for i in kept])


def rate_of(amounts: Iterable[float], seconds: Sequence[float]) -> Rate:
    """Events per second from the amount of each interval.

    >>> rate_of([10, 30], [5, 5])
    Rate(mean=4.0, stdev=2.8284271247461903, samples=2)
    """
    listed = list(amounts)
    total = sum(seconds)
    if total <= 0:
        return Rate(0.0, None, 0)
    each = [amount / second for amount, second in zip(listed, seconds, strict=True)]
    spread = statistics.stdev(each) if len(each) > 1 else None
    return Rate(sum(listed) / total, spread, len(each))


def gauge(values: Sequence[float]) -> Rate:
    """The mean of a value that is read, not counted."""
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Rate(statistics.fmean(values) if values else 0.0, spread, len(values))
