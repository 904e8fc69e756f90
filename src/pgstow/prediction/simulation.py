"""A workload on a layout, as the simulator takes it, and what it answers."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from pgstow import _native
from pgstow.model import Device, HostCap, HostSpec, Layout, Relation, RelationId, Volume
from pgstow.prediction.workload import SEQUENTIAL_READ_BYTES, Workload, places
from pgstow.units import BLOCK_BYTES

_WANTED_TRANSACTIONS = 60_000  # enough for a p99 of the mix within about 2 %


class DeviceCatalog(Protocol):
    """What prediction needs of the catalog."""

    def device(self, volume: Volume) -> Device:
        """The volume as a device."""

    def host_cap(self, host: HostSpec) -> HostCap:
        """The machine's own cap on storage traffic."""


@dataclass(frozen=True, slots=True)
class VolumeTotals:
    """Operations per transaction on one volume."""

    reads: float
    sequential_reads: float
    writes: float


def totals_by_volume(
    workload: Workload, layout: Layout, relations: dict[RelationId, Relation]
) -> dict[str, VolumeTotals]:
    """Sum the relations' work over the volumes that a layout puts them on."""
    sums = {volume.name: [0.0, 0.0, 0.0] for volume in layout.volumes}
    where = places(layout, relations.values())
    for work in workload.relations:
        one = sums[where[work.relation].name]
        one[0] += work.reads
        one[1] += work.sequential_reads
        one[2] += work.writes
    temp = layout.postgres.temp or (layout.postgres.data,)
    for name in temp:  # temporary files are written and read back once
        passes = workload.temp_bytes / len(temp) / SEQUENTIAL_READ_BYTES
        sums[name][1] += passes
        sums[name][2] += passes
    return {name: VolumeTotals(*one) for name, one in sums.items()}


def _initialised(device: Device) -> Device:
    """The device once its data are there: a prediction is of what comes after the first touch."""
    return replace(device, member=replace(device.member, restored=None))


def simulate(
    workload: Workload,
    layout: Layout,
    relations: dict[RelationId, Relation],
    catalog: DeviceCatalog,
    *,
    wal_overhead_us: float,
    seed: int = 1,
) -> dict[str, Any]:
    """Run a workload on a layout in virtual time; the simulator's answer as it gives it."""
    index = {volume.name: position for position, volume in enumerate(layout.volumes)}
    totals = totals_by_volume(workload, layout, relations)
    reads, background = [], []
    for name, total in totals.items():
        if total.reads > 0:
            reads.append(_source(index[name], total.reads, BLOCK_BYTES, sequential=False))
        if total.sequential_reads > 0:
            sequential = _source(
                index[name], total.sequential_reads, SEQUENTIAL_READ_BYTES, sequential=True
            )
            reads.append(sequential)
        if total.writes > 0:
            write = {
                "device": index[name],
                "per_transaction": total.writes,
                "bytes": _sectors(workload.write_bytes),
                "period_s": 0,
            }
            background.append(write)
    duration_s = max(2.0, min(60.0, _WANTED_TRANSACTIONS / workload.transactions_per_second))
    config = {
        "seed": seed,
        "warmup_s": duration_s / 5,
        "duration_s": duration_s,
        "clients": workload.clients,
        "think_us": workload.think_us,
        "cores": workload.cores,
        "cpu_us": workload.cpu_us,
        "host": asdict(catalog.host_cap(layout.host)),
        "devices": [asdict(_initialised(catalog.device(volume))) for volume in layout.volumes],
        "reads": reads,
        "background_writes": background,
        "wal": {
            "device": index[layout.postgres.wal],
            "write_fraction": workload.write_fraction,
            "bytes_per_transaction": max(1.0, workload.wal_bytes),
            "overhead_us": wal_overhead_us,
        }
        if workload.write_fraction > 0
        else None,
    }
    answer: dict[str, Any] = json.loads(_native.simulate(json.dumps(config)))
    return answer


def _source(device: int, per_transaction: float, size: int, *, sequential: bool) -> dict[str, Any]:
    return {
        "device": device,
        "per_transaction": per_transaction,
        "bytes": size,
        "sequential": sequential,
    }


def _sectors(size: float) -> int:
    """A size in whole 512-byte sectors, at least one."""
    return max(1, round(size / 512)) * 512
