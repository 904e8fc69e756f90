"""Samples to a profile: pure arithmetic, no clock, no server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgstow.host.devices import DeviceCounters, HostSample
from pgstow.model.errors import UserError
from pgstow.model.profile import (
    Activity,
    BackgroundWrites,
    DeviceTraffic,
    HostTraffic,
    Profile,
    WalDemand,
)
from pgstow.model.provenance import Rate, Warning
from pgstow.model.storage import Layout
from pgstow.observe.demands import demands
from pgstow.observe.intervals import Interval, Sample, gauge, intervals, rate, rate_of
from pgstow.postgres.counters import DatabaseCounters, ServerSample
from pgstow.postgres.state import Inspection
from pgstow.units import BLOCK_BYTES, Bytes


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the host that do not change while observing."""

    cores: int
    memory_bytes: int
    volume_of_device: Mapping[str, str]  # device name to the layout's volume


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything seen of a server, from which a profile is made."""

    started_at: str
    inspection: Inspection
    layout: Layout
    samples: tuple[Sample, ...]
    machine: Machine | None = None
    warnings: tuple[Warning, ...] = ()
    commit_ms: tuple[float, ...] = field(default=())


def aggregate(observation: Observation) -> Profile:
    """Turn samples into rates with their spread; needs two samples with no reset between them."""
    kept, warnings = intervals(observation.samples)
    if not kept:
        detail = f": {warnings[0].message}" if warnings else ""
        raise UserError(
            f"no two samples can be compared{detail}",
            "observe for longer, while nobody resets statistics",
        )
    background = _background(kept)
    written = _increase(kept, _blocks_written)
    state = observation.inspection.state
    found = demands(
        kept,
        observation.inspection.keys,
        observation.inspection.indexed,
        blocks_written=written,
        checkpoints=background.checkpoints_timed + background.checkpoints_requested,
        block_bytes=int(state.setting("block_size") or BLOCK_BYTES),
    )
    wal = _wal(kept)
    changes = sum(demand.tuple_writes.mean for demand in found)
    return Profile(
        started_at=observation.started_at,
        seconds=sum(interval.seconds for interval in kept),
        samples=len(observation.samples),
        server=state,
        layout=observation.layout,
        demands=found,
        wal=wal,
        background=background,
        activity=_activity(kept),
        host=_host(kept, observation.machine),
        warnings=(
            *observation.warnings,
            *observation.inspection.warnings,
            *warnings,
            *_doubts(wal, background, changes, observation),
        ),
        commit_ms=observation.commit_ms,
        tps_samples=tuple(_transactions(i) / i.seconds for i in kept),
    )


def _doubts(
    wal: WalDemand, background: BackgroundWrites, changes: float, observation: Observation
) -> list[Warning]:
    """What makes the profile less than it could be."""
    found = []
    if wal.sync_us is None and wal.syncs.mean > 0:
        found.append(
            Warning(
                "wal-timing-off",
                "the time of WAL flushes is unknown: track_wal_io_timing is off",
                "ALTER SYSTEM SET track_wal_io_timing = on, reload, and observe again",
            )
        )
    if changes > 0 and background.checkpointer.mean == 0:
        found.append(
            Warning(
                "no-checkpoint-writes",
                "the checkpointer wrote nothing while observed, so block writes are too low",
                "observe for longer than checkpoint_timeout",
            )
        )
    if observation.inspection.state.setting("track_counts") == "off":
        found.append(
            Warning(
                "counts-off",
                "track_counts is off: nothing is known of single relations",
                "ALTER SYSTEM SET track_counts = on, reload, and observe again",
            )
        )
    return found


def _increase(kept: Sequence[Interval], counter: Callable[[ServerSample], float]) -> Rate:
    return rate(kept, lambda i: counter(i.after.server) - counter(i.before.server))


def _wal(kept: Sequence[Interval]) -> WalDemand:
    pairs = [(i.before.server.wal, i.after.server.wal) for i in kept]
    return WalDemand(
        bytes=_increase(kept, lambda s: s.wal.bytes),
        writes=_increase(kept, lambda s: s.wal.writes),
        syncs=_increase(kept, lambda s: s.wal.syncs),
        full_page_images=_increase(kept, lambda s: s.wal.full_page_images),
        sync_us=_mean_us(
            [(a.sync_ms, b.sync_ms) for a, b in pairs], sum(b.syncs - a.syncs for a, b in pairs)
        ),
        write_us=_mean_us(
            [(a.write_ms, b.write_ms) for a, b in pairs], sum(b.writes - a.writes for a, b in pairs)
        ),
    )


def _mean_us(times: Sequence[tuple[float | None, float | None]], count: int) -> float | None:
    """Mean time of one operation; unknown where any interval was not timed."""
    total_ms = 0.0
    for before, after in times:
        if before is None or after is None or after < before:
            return None
        total_ms += after - before
    return total_ms * 1000 / count if count > 0 else None


def _blocks_written(sample: ServerSample) -> int:
    writes = sample.writes
    return writes.checkpointer_blocks + writes.background_writer_blocks + writes.backend_blocks


def _background(kept: Sequence[Interval]) -> BackgroundWrites:
    pairs = [(i.before.server.writes, i.after.server.writes) for i in kept]
    return BackgroundWrites(
        checkpointer=_increase(kept, lambda s: s.writes.checkpointer_blocks),
        background_writer=_increase(kept, lambda s: s.writes.background_writer_blocks),
        backends=_increase(kept, lambda s: s.writes.backend_blocks),
        temp_bytes=_databases(kept, lambda d: d.temp_bytes),
        checkpoints_timed=sum(b.checkpoints_timed - a.checkpoints_timed for a, b in pairs),
        checkpoints_requested=sum(
            b.checkpoints_requested - a.checkpoints_requested for a, b in pairs
        ),
    )


_NEW = DatabaseCounters(0, 0.0, 0)


def _databases(
    kept: Sequence[Interval],
    counter: Callable[[DatabaseCounters], float],
    own: Callable[[ServerSample], float] = lambda _: 0.0,
) -> Rate:
    """The rate of a counter over all databases, without what pgstow itself caused."""
    return rate(kept, lambda interval: _over_databases(interval, counter, own))


def _over_databases(
    interval: Interval,
    counter: Callable[[DatabaseCounters], float],
    own: Callable[[ServerSample], float],
) -> float:
    """What a counter rose by in one interval, summed over all databases."""
    before, after = interval.before.server, interval.after.server
    total = sum(
        counter(now) - counter(before.databases.get(name, _NEW))
        for name, now in after.databases.items()
    )
    # A session reports its last statements a little late, so own ones may outnumber all.
    return max(0.0, total - (own(after) - own(before)))


def _transactions(interval: Interval) -> float:
    return _over_databases(interval, lambda d: d.transactions, lambda s: s.own_transactions)


def _activity(kept: Sequence[Interval]) -> Activity:
    def written(interval: Interval) -> float:
        before, after = interval.before.server, interval.after.server
        own = after.own_write_transactions - before.own_write_transactions
        return max(0.0, after.next_transaction_id - before.next_transaction_id - own)

    busy_ms = _databases(kept, lambda d: d.busy_ms, lambda s: s.own_busy_ms)
    samples = [kept[0].before.server, *(interval.after.server for interval in kept)]
    active = Rate(
        busy_ms.mean / 1000,
        None if busy_ms.stdev is None else busy_ms.stdev / 1000,
        busy_ms.samples,
    )
    if active.mean == 0:  # track_activities is off, or one statement outlasts the period
        active = gauge([sample.busy_backends for sample in samples])
    return Activity(
        transactions=rate(kept, _transactions),
        write_transactions=rate(kept, written),
        active_sessions=active,
        client_backends=gauge([sample.client_backends for sample in samples]),
        subtransactions=_subtransactions(kept),
    )


def _subtransactions(kept: Sequence[Interval]) -> Rate | None:
    pairs = [(i.before.server.subtransactions, i.after.server.subtransactions) for i in kept]
    rises = [after - before for before, after in pairs if before is not None and after is not None]
    if len(rises) < len(kept) or min(rises) < 0:  # statistics were reset
        return None
    return rate_of([float(rise) for rise in rises], [interval.seconds for interval in kept])


def _host(kept: Sequence[Interval], machine: Machine | None) -> HostTraffic | None:
    seen = [i for i in kept if i.before.host is not None and i.after.host is not None]
    if machine is None or not seen:
        return None

    def busy(interval: Interval) -> float:
        before, after = _hosts(interval)
        return after.busy_core_s - before.busy_core_s

    names = set.intersection(*(set(host.devices) for i in seen for host in _hosts(i)))
    devices = [
        _device(name, machine.volume_of_device.get(name), seen)
        for name in sorted(names)
        if name in machine.volume_of_device or _is_used(name, seen)
    ]
    return HostTraffic(
        cores=machine.cores,
        memory_bytes=Bytes(machine.memory_bytes),
        busy_cores=rate(seen, busy),
        devices=tuple(devices),
    )


def _hosts(interval: Interval) -> tuple[HostSample, HostSample]:
    before, after = interval.before.host, interval.after.host
    assert before is not None and after is not None
    return before, after


def _is_used(name: str, seen: Sequence[Interval]) -> bool:
    first, last = _hosts(seen[0])[0].devices[name], _hosts(seen[-1])[1].devices[name]
    return last.reads + last.writes > first.reads + first.writes


def _device(name: str, volume: str | None, seen: Sequence[Interval]) -> DeviceTraffic:
    pairs = [(a.devices[name], b.devices[name]) for a, b in (_hosts(i) for i in seen)]
    seconds = [interval.seconds for interval in seen]

    def increase(counter: Callable[[DeviceCounters], float]) -> Rate:
        return rate_of([max(0.0, counter(b) - counter(a)) for a, b in pairs], seconds)

    def mean_ms(
        time_ms: Callable[[DeviceCounters], int], count: Callable[[DeviceCounters], int]
    ) -> float | None:
        operations = sum(count(b) - count(a) for a, b in pairs)
        return sum(time_ms(b) - time_ms(a) for a, b in pairs) / operations if operations else None

    queue = increase(lambda d: d.queue_ms / 1000)
    counts_flushes = all(a.flushes is not None and b.flushes is not None for a, b in pairs)
    return DeviceTraffic(
        device=name,
        volume=volume,
        reads=increase(lambda d: d.reads),
        writes=increase(lambda d: d.writes),
        read_bytes=increase(lambda d: d.read_bytes),
        write_bytes=increase(lambda d: d.write_bytes),
        read_ms=mean_ms(lambda d: d.read_ms, lambda d: d.reads),
        write_ms=mean_ms(lambda d: d.write_ms, lambda d: d.writes),
        queue=queue,
        flushes=increase(lambda d: d.flushes or 0) if counts_flushes else None,
    )
