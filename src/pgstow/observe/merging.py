"""Several profiles of one server as one: rates by time, latencies by what they are of.

A rate of the whole is all events by all time, so each profile's counts by its seconds; the spread
is that of all samples about the common mean. What one profile does not know the whole does not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TypeVar

from pgstow.model.errors import UserError
from pgstow.model.profile import (
    Activity,
    BackgroundWrites,
    Demand,
    DeviceTraffic,
    HostTraffic,
    Profile,
    WalDemand,
)
from pgstow.model.provenance import Rate
from pgstow.model.storage import Layout, RelationId

_NOTHING = Rate(0.0, 0.0, 0)
T = TypeVar("T")


def merged(profiles: Sequence[Profile]) -> Profile:
    """One profile of all the time that several observed; sizes and settings are the latest's.

    They must be of one server, on the same volumes, and not overlap.
    """
    ordered = sorted(profiles, key=lambda one: one.started_at)
    _check(ordered)
    seconds = [one.seconds for one in ordered]
    last = ordered[-1]

    def together(read: Callable[[Profile], Rate]) -> Rate:
        return rate_of_all([read(one) for one in ordered], seconds)

    return Profile(
        started_at=ordered[0].started_at,
        seconds=sum(seconds),
        samples=sum(one.samples for one in ordered),
        server=last.server,
        layout=last.layout,
        demands=_demands(ordered, seconds),
        wal=_wal(ordered, together),
        background=_background(ordered, together),
        activity=_activity(ordered, together),
        host=_host(ordered, seconds),
        warnings=tuple(dict.fromkeys(w for one in ordered for w in one.warnings)),
        commit_ms=tuple(ms for one in ordered for ms in one.commit_ms),
        tps_samples=tuple(tps for one in ordered for tps in one.tps_samples),
    )


def rate_of_all(rates: Sequence[Rate], seconds: Sequence[float]) -> Rate:
    """One rate of several periods: the mean by time, the spread of all samples about it.

    >>> rate_of_all([Rate(10.0, 0.0, 2), Rate(40.0, 0.0, 2)], [20, 10])
    Rate(mean=20.0, stdev=18.257418583505537, samples=4)
    """
    mean = sum(r.mean * s for r, s in zip(rates, seconds, strict=True)) / sum(seconds)
    samples = sum(one.samples for one in rates)
    if samples < 2 or any(one.stdev is None and one.samples > 1 for one in rates):
        return Rate(mean, None, samples)
    squares = sum(
        (one.samples - 1) * (one.stdev or 0.0) ** 2 + one.samples * (one.mean - mean) ** 2
        for one in rates
        if one.samples > 0
    )
    return Rate(mean, math.sqrt(squares / (samples - 1)), samples)


def mean_of_all(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """A mean over all that was counted; None as soon as something counted was not timed.

    >>> mean_of_all([1.0, 4.0], [2, 1]), mean_of_all([1.0, None], [2, 0]), mean_of_all([None], [1])
    (2.0, 1.0, None)
    """
    counted = [(v, w) for v, w in zip(values, weights, strict=True) if w > 0]
    total = sum(weight for _, weight in counted)
    if total <= 0 or any(value is None for value, _ in counted):
        return None
    return sum((value or 0.0) * weight for value, weight in counted) / total


def _mean_time(
    seen: Sequence[T | None],
    seconds: Sequence[float],
    time: Callable[[T], float | None],
    count: Callable[[T], Rate],
) -> float | None:
    """How long one of many events took, over the periods in which they were seen."""
    pairs = [(one, s) for one, s in zip(seen, seconds, strict=True) if one is not None]
    return mean_of_all([time(one) for one, _ in pairs], [count(one).mean * s for one, s in pairs])


def _check(ordered: Sequence[Profile]) -> None:
    if len(ordered) < 2:
        raise UserError("one profile is nothing to merge", "name two or more")
    first = ordered[0]
    for earlier, later in pairwise(ordered):
        if later.server.system_identifier != first.server.system_identifier:
            raise UserError(
                "the profiles are of different servers", "merge those of one; see observe --list"
            )
        if _volumes(later.layout) != _volumes(first.layout):
            raise UserError(
                f"the profiles of {first.started_at} and {later.started_at} are of different"
                " layouts",
                "merge those from before a change, or those from after it",
            )
        if _seconds_between(earlier.started_at, later.started_at) < earlier.seconds - 1:
            raise UserError(
                f"the profiles of {earlier.started_at} and {later.started_at} overlap",
                "what both saw would count twice; merge profiles of different times",
            )


def _seconds_between(one: str, other: str) -> float:
    return (datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds()


def _volumes(layout: Layout) -> object:
    """What two layouts must have in common for their devices to be the same."""
    spaces = frozenset((space.name, space.volume) for space in layout.tablespaces)
    return layout.host, frozenset(layout.volumes), layout.postgres, spaces


def _demands(ordered: Sequence[Profile], seconds: Sequence[float]) -> tuple[Demand, ...]:
    """Every relation that the last profile still has; what was not asked in a period counts 0."""
    there = {relation.id for relation in ordered[-1].server.relations}
    by_profile = [{d.relation: d for d in one.demands if d.relation in there} for one in ordered]
    keys = dict.fromkeys(key for found in by_profile for key in found)
    idle = [replace(_NOTHING, samples=one.activity.transactions.samples) for one in ordered]

    def demand(key: RelationId) -> Demand:
        found = [one.get(key) for one in by_profile]

        def rates(read: Callable[[Demand], Rate]) -> Rate:
            pairs = zip(found, idle, strict=True)
            return rate_of_all([read(d) if d else none for d, none in pairs], seconds)

        is_growth_known = all(d is None or d.growth_bytes is not None for d in found)
        return Demand(
            relation=key,
            random_reads=rates(lambda d: d.random_reads),
            sequential_read_bytes=rates(lambda d: d.sequential_read_bytes),
            block_writes=rates(lambda d: d.block_writes),
            tuple_writes=rates(lambda d: d.tuple_writes),
            buffer_hits=rates(lambda d: d.buffer_hits),
            growth_bytes=rates(lambda d: d.growth_bytes or _NOTHING) if is_growth_known else None,
        )

    return tuple(demand(key) for key in keys)


def _activity(
    ordered: Sequence[Profile], together: Callable[[Callable[[Profile], Rate]], Rate]
) -> Activity:
    counted = all(one.activity.subtransactions is not None for one in ordered)
    return Activity(
        transactions=together(lambda p: p.activity.transactions),
        write_transactions=together(lambda p: p.activity.write_transactions),
        active_sessions=together(lambda p: p.activity.active_sessions),
        client_backends=together(lambda p: p.activity.client_backends),
        subtransactions=together(lambda p: p.activity.subtransactions or _NOTHING)
        if counted
        else None,
    )


def _wal(
    ordered: Sequence[Profile], together: Callable[[Callable[[Profile], Rate]], Rate]
) -> WalDemand:
    demands, seconds = [one.wal for one in ordered], [one.seconds for one in ordered]
    return WalDemand(
        bytes=together(lambda p: p.wal.bytes),
        writes=together(lambda p: p.wal.writes),
        syncs=together(lambda p: p.wal.syncs),
        full_page_images=together(lambda p: p.wal.full_page_images),
        sync_us=_mean_time(demands, seconds, lambda w: w.sync_us, lambda w: w.syncs),
        write_us=_mean_time(demands, seconds, lambda w: w.write_us, lambda w: w.writes),
    )


def _background(
    ordered: Sequence[Profile], together: Callable[[Callable[[Profile], Rate]], Rate]
) -> BackgroundWrites:
    return BackgroundWrites(
        checkpointer=together(lambda p: p.background.checkpointer),
        background_writer=together(lambda p: p.background.background_writer),
        backends=together(lambda p: p.background.backends),
        temp_bytes=together(lambda p: p.background.temp_bytes),
        checkpoints_timed=sum(p.background.checkpoints_timed for p in ordered),
        checkpoints_requested=sum(p.background.checkpoints_requested for p in ordered),
    )


def _host(ordered: Sequence[Profile], seconds: Sequence[float]) -> HostTraffic | None:
    """The machine; unknown where one profile did not see it, or it was another one."""
    hosts = [one.host for one in ordered if one.host is not None]
    machines = {(one.cores, one.memory_bytes) for one in hosts}
    if len(hosts) < len(ordered) or len(machines) > 1:
        return None
    names = dict.fromkeys(device.device for one in hosts for device in one.devices)
    seen = [{device.device: device for device in one.devices} for one in hosts]
    return replace(
        hosts[-1],
        busy_cores=rate_of_all([one.busy_cores for one in hosts], seconds),
        devices=tuple(_device(name, [one.get(name) for one in seen], seconds) for name in names),
    )


def _device(
    name: str, seen: Sequence[DeviceTraffic | None], seconds: Sequence[float]
) -> DeviceTraffic:
    last = next(one for one in reversed(seen) if one is not None)

    def rates(read: Callable[[DeviceTraffic], Rate]) -> Rate:
        return rate_of_all([read(one) if one else _NOTHING for one in seen], seconds)

    is_flushed = all(one is None or one.flushes is not None for one in seen)
    return DeviceTraffic(
        device=name,
        volume=last.volume,
        reads=rates(lambda d: d.reads),
        writes=rates(lambda d: d.writes),
        read_bytes=rates(lambda d: d.read_bytes),
        write_bytes=rates(lambda d: d.write_bytes),
        read_ms=_mean_time(seen, seconds, lambda d: d.read_ms, lambda d: d.reads),
        write_ms=_mean_time(seen, seconds, lambda d: d.write_ms, lambda d: d.writes),
        queue=rates(lambda d: d.queue),
        flushes=rates(lambda d: d.flushes or _NOTHING) if is_flushed else None,
    )
