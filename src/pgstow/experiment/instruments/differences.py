"""Differences between two readings of cumulative counters. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import fmean, quantiles

from pgstow.host.devices import DeviceCounters
from pgstow.model import CheckpointUse, CommitUse, DeviceUse, IoUse, WalUse
from pgstow.postgres.trial import CheckpointTotals, IoKey, IoTotals, WalTotals

_FEWEST_OPERATIONS = 10  # between two samples, for a mean of their time
_FEWEST_COMMITS = 20
_NOTHING = IoTotals(0, 0.0, 0.0, 0, 0.0, 0.0, 0, 0, 0, 0, 0.0)


def wal_use(
    before: WalTotals, after: WalTotals, seconds: Sequence[tuple[int, float | None]] = ()
) -> WalUse:
    """What the WAL cost in between; ``seconds`` are writes and their time, read each second."""
    return WalUse(
        bytes=after.bytes - before.bytes,
        records=after.records - before.records,
        full_page_images=after.full_page_images - before.full_page_images,
        writes=after.writes - before.writes,
        syncs=after.syncs - before.syncs,
        write_ms=_time(before.write_ms, after.write_ms),
        sync_ms=_time(before.sync_ms, after.sync_ms),
        write_ms_worst_second=worst_mean(seconds),
    )


def io_use(before: Mapping[IoKey, IoTotals], after: Mapping[IoKey, IoTotals]) -> tuple[IoUse, ...]:
    """The rows of pg_stat_io in which something happened in between, most bytes first."""
    rows = []
    for key, now in after.items():
        then = before.get(key, _NOTHING)
        row = IoUse(
            *key,
            reads=now.reads - then.reads,
            read_bytes=now.read_bytes - then.read_bytes,
            read_ms=_time(then.read_ms, now.read_ms),
            writes=now.writes - then.writes,
            write_bytes=now.write_bytes - then.write_bytes,
            write_ms=_time(then.write_ms, now.write_ms),
            extends=now.extends - then.extends,
            hits=now.hits - then.hits,
            evictions=now.evictions - then.evictions,
            fsyncs=now.fsyncs - then.fsyncs,
            fsync_ms=_time(then.fsync_ms, now.fsync_ms),
        )
        if row.reads or row.writes or row.extends or row.hits or row.fsyncs:
            rows.append(row)
    moved = sorted(rows, key=lambda row: row.read_bytes + row.write_bytes, reverse=True)
    return tuple(moved)


def checkpoint_use(before: CheckpointTotals, after: CheckpointTotals) -> CheckpointUse:
    """The checkpoints that were counted in between."""
    return CheckpointUse(
        timed=after.timed - before.timed,
        requested=after.requested - before.requested,
        buffers_written=after.buffers_written - before.buffers_written,
        write_ms=after.write_ms - before.write_ms,
        sync_ms=after.sync_ms - before.sync_ms,
    )


def device_use(
    device: str, volume: str | None, samples: Sequence[DeviceCounters], seconds: float
) -> DeviceUse:
    """A block device's use over that time, from samples about a second apart, the first at its
    beginning and the last at its end. The counters are the kernel's, which never go back."""
    before, after = samples[0], samples[-1]
    reads, writes = after.reads - before.reads, after.writes - before.writes
    flushes = None
    if before.flushes is not None and after.flushes is not None:
        flushes = (after.flushes - before.flushes) / seconds
    return DeviceUse(
        device=device,
        volume=volume,
        reads_per_s=reads / seconds,
        writes_per_s=writes / seconds,
        read_bytes_per_s=(after.read_bytes - before.read_bytes) / seconds,
        write_bytes_per_s=(after.write_bytes - before.write_bytes) / seconds,
        read_await_ms=(after.read_ms - before.read_ms) / reads if reads else None,
        write_await_ms=(after.write_ms - before.write_ms) / writes if writes else None,
        flushes_per_s=flushes,
        queue=(after.queue_ms - before.queue_ms) / 1000 / seconds,
        await_ms_worst_second=worst_mean(
            [(one.reads + one.writes, float(one.read_ms + one.write_ms)) for one in samples]
        ),
    )


def worst_mean(totals: Sequence[tuple[int, float | None]]) -> float | None:
    """The largest mean time of an operation between two samples of their number and total time.

    Between samples with few operations there is no value: their times may be of those before.

    >>> worst_mean([(0, 0.0), (100, 200.0), (200, 1200.0), (201, 1300.0)])
    10.0
    """
    means = [
        (later - former) / (done - before)
        for (before, former), (done, later) in pairwise(totals)
        if former is not None and later is not None and done - before >= _FEWEST_OPERATIONS
    ]
    return max(means, default=None)


def commit_use(commit_ms: Sequence[float]) -> CommitUse | None:
    """What test commits took; None where there were too few for a percentile."""
    if len(commit_ms) < _FEWEST_COMMITS:
        return None
    ordered = sorted(commit_ms)
    p99 = quantiles(ordered, n=100, method="inclusive")[98]
    return CommitUse(len(ordered), fmean(ordered), p99, ordered[-1])


def went_back(before: WalTotals | CheckpointTotals, after: WalTotals | CheckpointTotals) -> bool:
    """Whether a counter is smaller than it was: someone reset it."""
    names = [name for name in before.__slots__ if not name.endswith("_ms")]
    return any(attrgetter(name)(after) < attrgetter(name)(before) for name in names)


def _time(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
