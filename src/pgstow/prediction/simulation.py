"""A workload on a layout: the simulator's input and its answer."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pgstow import _native
from pgstow.catalog.catalog import Catalog
from pgstow.model import Device, Layout, Relation, RelationId
from pgstow.prediction.workload import SEQUENTIAL_READ_BYTES, Workload, named
from pgstow.units import BLOCK_BYTES

_TARGET_TRANSACTIONS = 60_000  # enough for a p99 of the mix within about 2 %
_LEAST_TRANSACTIONS = 20  # of a server that is all but idle
_RELATIONS_APART = 32  # of more, many small means add up to a Poisson number anyway
_QUEUE_DEPTH = 128  # requests that Linux has under way on a device: nr_requests


@dataclass(frozen=True, slots=True)
class VolumeTotals:
    """Operations per transaction on one volume."""

    reads: float
    sequential_reads: float
    writes: float


def totals_by_volume(
    workload: Workload, layout: Layout, relations: dict[RelationId, Relation]
) -> dict[str, VolumeTotals]:
    """Sum the relations' work over the volumes that store them."""
    return _totals(workload, layout, _relation_volumes(workload, layout, relations))


def _relation_volumes(
    workload: Workload, layout: Layout, relations: dict[RelationId, Relation]
) -> list[str]:
    """The volume of each of the workload's relations, in its order."""
    placed, data = named(layout), layout.volume(layout.postgres.data)
    return [placed.get(relations[work.relation].owner, data).name for work in workload.relations]


def _totals(workload: Workload, layout: Layout, volume_names: list[str]) -> dict[str, VolumeTotals]:
    sums = {volume.name: [0.0, 0.0, 0.0] for volume in layout.volumes}
    for work, volume in zip(workload.relations, volume_names, strict=True):
        one = sums[volume]
        one[0] += work.reads
        one[1] += work.sequential_reads
        one[2] += work.writes
    temp = layout.postgres.temp or (layout.postgres.data,)
    for name in temp:  # temporary files are written and read back once
        passes = workload.temp_bytes / len(temp) / SEQUENTIAL_READ_BYTES
        sums[name][1] += passes
        sums[name][2] += passes
    return {name: VolumeTotals(*one) for name, one in sums.items()}


@dataclass(frozen=True, slots=True)
class HostOverhead:
    """What the host adds to its devices' latencies, measured by :mod:`calibration`."""

    read_us: float = 0.0
    wal_sync_us: float = 0.0  # of one flush of the WAL
    handover_us: float = 0.0  # from one flush to the next that is waited for


@dataclass(frozen=True, slots=True)
class Period:
    """The time that a prediction covers: from ``warm_up_s`` after credits are as in the layout."""

    warm_up_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """I/O on a volume whatever the clients do: a backup that reads it, a replica that is fed."""

    volume: str
    per_second: float
    request_bytes: int = SEQUENTIAL_READ_BYTES
    writes: bool = False
    sequential: bool = True


def simulate(
    workload: Workload,
    layout: Layout,
    relations: dict[RelationId, Relation],
    catalog: Catalog,
    *,
    overhead: HostOverhead,
    period: Period | None = None,
    open_loads: Sequence[OpenLoad] = (),
    seed: int = 1,
) -> dict[str, Any]:
    """Run a workload on a layout in virtual time; the simulator's answer as it gives it.

    Without a period it runs for as long as enough transactions take.
    """
    index = {volume.name: position for position, volume in enumerate(layout.volumes)}
    volume_names = _relation_volumes(workload, layout, relations)
    totals = _totals(workload, layout, volume_names)
    if period is None:
        tps = workload.transactions_per_second
        length_s = max(2.0, min(60.0, _TARGET_TRANSACTIONS / tps), _LEAST_TRANSACTIONS / tps)
        period = Period(length_s / 5, length_s)
    config = {
        "seed": seed,
        "warmup_s": period.warm_up_s,
        "duration_s": period.duration_s,
        "clients": workload.clients,
        "think_us": workload.think_us,
        "cores": workload.cores,
        "cpu_us": workload.cpu_us,
        "host": asdict(catalog.host_cap(layout.host)),
        "devices": [
            _as_seen(catalog.device(volume, layout.host), overhead.read_us)
            for volume in layout.volumes
        ],
        "reads": _reads(workload, volume_names, totals, index),
        "background_writes": _writes(workload, layout, totals, index),
        "background_depth": _QUEUE_DEPTH,
        "wal": {
            "device": index[layout.postgres.wal],
            "write_fraction": workload.write_fraction,
            "bytes_per_transaction": max(1.0, workload.wal_bytes),
            "overhead_us": overhead.wal_sync_us,
            "handover_us": overhead.handover_us,
            "commit_delay_us": workload.commit_delay_us,
            "commit_siblings": workload.commit_siblings,
        }
        if workload.write_fraction > 0
        else None,
        "open": [_open(load, index) for load in open_loads],
    }
    answer: dict[str, Any] = json.loads(_native.simulate(json.dumps(config)))
    return answer


def _open(load: OpenLoad, index: dict[str, int]) -> dict[str, Any]:
    return {
        "device": index[load.volume],
        "per_second": load.per_second,
        "bytes": load.request_bytes,
        "writes": load.writes,
        "sequential": load.sequential,
    }


def _as_seen(device: Device, read_us: float) -> dict[str, Any]:
    """The device once its data are there (a prediction is of what comes after the first touch),
    with what the host adds to a read."""
    latency = device.member.latency
    slower = replace(
        latency,
        read_us_p50=latency.read_us_p50 + read_us,
        read_us_p99=latency.read_us_p99 + read_us,
    )
    return asdict(replace(device, member=replace(device.member, restored=None, latency=slower)))


def _reads(
    workload: Workload,
    volume_names: list[str],
    totals: dict[str, VolumeTotals],
    index: dict[str, int],
) -> list[dict[str, Any]]:
    """Reads that clients wait for: those of the relations read most each as they are, of which a
    transaction makes as many as its mean allows, the others' as one."""
    reading = [
        (one.reads, index[volume])
        for one, volume in zip(workload.relations, volume_names, strict=True)
        if one.reads > 0
    ]
    ranked = sorted(reading, key=lambda one: -one[0])
    size = _sectors(workload.read_bytes)
    found = [
        _source(device, reads, size) | {"is_even": True}
        for reads, device in ranked[:_RELATIONS_APART]
    ]
    rest: dict[int, float] = {}
    for reads, device in ranked[_RELATIONS_APART:]:
        rest[device] = rest.get(device, 0.0) + reads
    found += [_source(device, total, size) for device, total in rest.items()]
    for name, total in totals.items():
        if total.sequential_reads > 0:
            source = _source(index[name], total.sequential_reads, SEQUENTIAL_READ_BYTES)
            found.append(source | {"sequential": True})
    return found


def _writes(
    workload: Workload,
    layout: Layout,
    totals: dict[str, VolumeTotals],
    index: dict[str, int],
) -> list[dict[str, Any]]:
    """Writes that nobody waits for, begun together as their writers' *_flush_after say."""
    size = _sectors(workload.write_bytes)
    pages = max(1.0, size / BLOCK_BYTES)
    background = []
    if workload.background_wal_writes > 0:
        log = _sectors(workload.background_wal_bytes)
        log_writes = _source(index[layout.postgres.wal], workload.background_wal_writes, log)
        background = [log_writes | {"period_s": 0, "batch": 1}]
    return background + [
        _source(index[name], total.writes * share, size)
        | {"period_s": 0, "batch": max(1, round(batch / pages))}
        for name, total in totals.items()
        for share, batch in workload.flush_batches
        if total.writes > 0
    ]


def _source(device: int, per_transaction: float, size: int) -> dict[str, Any]:
    return {"device": device, "per_transaction": per_transaction, "bytes": size}


def _sectors(size: float) -> int:
    """A size in whole 512-byte sectors, at least one."""
    return max(1, round(size / 512)) * 512
