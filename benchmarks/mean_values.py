"""A workload on a layout as a closed network of queues: throughput in a fraction of a millisecond.

What the simulator plays, in mean values: processors, latencies that nobody queues for, a hard
disk's arm, commits in groups; and limits as a volume has them, which let short bursts pass and
hold only the sustained rate. Tests hold the simulator against it; percentiles are the simulator's.
"""

import math
from dataclasses import dataclass

from mva import Station, solve

from pgstow.catalog.catalog import Catalog
from pgstow.model import Device, HostCap, Layout, Relation, RelationId
from pgstow.prediction.simulation import HostOverhead, VolumeTotals, totals_by_volume
from pgstow.prediction.workload import SEQUENTIAL_READ_BYTES, Workload
from pgstow.units import BLOCK_BYTES, MIB

_NORMAL_P99 = 2.326347874040841  # of the standard normal distribution
_ROUNDS = 30  # of the fixed point; it has converged to a per mille long before


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean values of a layout. ``binding`` is the fullest limit, by whose name: "data: iops"."""

    tps: float
    response_ms: float
    flushes_per_s: float
    utilisations: tuple[tuple[str, float], ...]  # of limits, by name

    @property
    def binding(self) -> str:
        """The limit that is used most."""
        return max(self.utilisations, key=lambda one: one[1])[0]


@dataclass(frozen=True, slots=True)
class _Use:
    """What one transaction takes of one limit, apart from flushes of the WAL, and with one."""

    name: str
    limit: float
    units: float
    units_per_flush: float


@dataclass(frozen=True, slots=True)
class _Placed:
    """A workload on a layout's devices."""

    workload: Workload
    wal: str
    devices: dict[str, Device]
    totals: dict[str, VolumeTotals]
    cap: HostCap
    host: HostOverhead


def estimate(
    workload: Workload,
    layout: Layout,
    relations: dict[RelationId, Relation],
    catalog: Catalog,
    *,
    overhead: HostOverhead | None = None,
    is_bursting: bool = True,
    flushes_first: bool = False,
) -> Estimate:
    """Throughput and mean latency; with burst credits where there are some, or without.

    ``flushes_first``: the limits hold write-back and not the WAL, as where the kernel throttles
    write-back (blk-wbt).
    """
    placed = _Placed(
        workload,
        layout.postgres.wal,
        {volume.name: catalog.device(volume, layout.host) for volume in layout.volumes},
        totals_by_volume(workload, layout, relations),
        catalog.host_cap(layout.host),
        overhead or HostOverhead(),
    )
    uses = _uses(placed, is_bursting)
    rate, flushes = _balance(placed, uses, flushes_first)
    used = [(use.name, rate * _asked(use, flushes / rate) / use.limit) for use in uses]
    used.append(("cpu", rate * workload.cpu_us / 1e6 / workload.cores))
    response_s = workload.clients / rate - workload.think_us / 1e6
    return Estimate(rate, response_s * 1e3, flushes, tuple(used))


def _balance(placed: _Placed, uses: list[_Use], flushes_first: bool) -> tuple[float, float]:
    """Transactions and flushes per second where network and limits agree.

    What limits hold back, each request of a transaction waits for alike, flushes too (unless
    these go first); the longer a flush takes, the more commits share it.
    """
    workload = placed.workload
    share, customers = workload.write_fraction, workload.clients
    flush_s = _flush_s(placed.devices[placed.wal], workload, placed.host)
    # No more flushes than the limits have room for, and nothing else.
    flush_s = max([flush_s, *(use.units_per_flush / use.limit for use in uses)])
    stations = _stations(placed)
    requests = 1 + sum(one.reads + one.sequential_reads for one in placed.totals.values())
    held_s, rate, per_commit = 0.0, 0.0, 2 / max(2, customers)
    for _ in range(_ROUNDS):
        wal = [Station.batches("wal", share * (flush_s + held_s), customers)] if share > 0 else []
        means = solve([*stations, *wal], customers)
        caps = [use.limit / _asked(use, share * per_commit) for use in uses]
        rate = min([means.throughput_per_s, *caps])
        together = max(1.0, rate * share * (flush_s + held_s))
        per_commit = (per_commit + 1 / together) / 2
        waited_s = customers / rate - customers / means.throughput_per_s
        if wal and not flushes_first:
            held_s = max(0.0, held_s + waited_s / requests / 2)
    return rate, rate * share * per_commit


def _asked(use: _Use, flushes: float) -> float:
    """Units of one transaction with so many flushes; never quite nothing."""
    return max(use.units + use.units_per_flush * flushes, 1e-12)


def _stations(placed: _Placed) -> list[Station]:
    """Where clients wait, but for the WAL: the processors, latencies, and disks' arms."""
    workload, read_us = placed.workload, placed.host.read_us
    stations = [
        Station.delay("clients", workload.think_us / 1e6),
        Station.servers("cpu", workload.cpu_us / 1e6, workload.cores),
    ]
    ahead = float(SEQUENTIAL_READ_BYTES)
    for name, total in placed.totals.items():
        device = placed.devices[name]
        small = _read_s(device, workload.read_bytes) + read_us / 1e6
        large = _read_s(device, ahead) + read_us / 1e6
        latency_s = total.reads * small + total.sequential_reads * large
        stations.append(Station.delay(f"{name}: latency", latency_s))
        seek_s = _positioning_s(device, workload.read_bytes) * total.reads
        seek_s += _positioning_s(device, ahead, is_sequential=True) * total.sequential_reads
        if device.member.mechanics is not None and device.member.mechanics.is_serial:
            stations.append(Station(f"{name}: arm", seek_s / device.stripes))
        else:
            stations.append(Station.delay(f"{name}: arm", seek_s))
    return stations


def _uses(placed: _Placed, is_bursting: bool) -> list[_Use]:
    """Each limit with what it is asked for; the host's are of all its network volumes."""
    found = []
    counted, moved = _Sum(), _Sum()
    for name, device in placed.devices.items():
        operations, size, arm = _asked_of(placed, name)
        iops, bytes_per_s = _limits(device, is_bursting)
        if iops:
            found.append(_Use(f"{name}: iops", iops, operations.each, operations.flush))
        if bytes_per_s:
            found.append(_Use(f"{name}: throughput", bytes_per_s, size.each, size.flush))
        if device.member.mechanics is not None and device.member.mechanics.is_serial:
            found.append(_Use(f"{name}: arm", float(device.stripes), arm.each, arm.flush))
        if device.uses_host_cap:
            counted, moved = counted.plus(operations), moved.plus(size)
    for name, limit, total in (
        ("host: iops", placed.cap.iops, counted),
        ("host: throughput", placed.cap.bytes_per_second, moved),
    ):
        if limit:
            found.append(_Use(name, limit, total.each, total.flush))
    return found


@dataclass(frozen=True, slots=True)
class _Sum:
    """Units of one transaction, and of one flush of the WAL."""

    each: float = 0.0
    flush: float = 0.0

    def plus(self, other: "_Sum") -> "_Sum":
        return _Sum(self.each + other.each, self.flush + other.flush)


def _asked_of(placed: _Placed, name: str) -> tuple[_Sum, _Sum, _Sum]:
    """Operations as counted, bytes, and seconds of a disk's arm that one volume is asked for."""
    workload, device, total = placed.workload, placed.devices[name], placed.totals[name]
    ahead = float(SEQUENTIAL_READ_BYTES)
    reads = (
        (total.reads, workload.read_bytes, False),
        (total.sequential_reads, ahead, True),
    )
    writes = (
        (total.writes, workload.write_bytes, False),
        (
            workload.background_wal_writes if name == placed.wal else 0.0,
            workload.background_wal_bytes,
            True,
        ),
    )
    requests = (*reads, *writes)
    counted = sum(count * _units(device, size) for count, size, _ in reads)
    counted += device.write_cost_ratio * sum(
        count * _units(device, size) for count, size, _ in writes
    )
    moved = sum(count * size for count, size, _ in requests)
    arm = sum(
        count * _positioning_s(device, size, is_sequential=sequential)
        for count, size, sequential in requests
    )
    if name != placed.wal or workload.write_fraction <= 0:
        return _Sum(counted), _Sum(moved), _Sum(arm)
    flush = _flush_bytes(workload)
    moved += workload.wal_bytes * workload.write_fraction
    # A flush writes the page that it ends in again with the next one.
    return (
        _Sum(counted, device.write_cost_ratio * _units(device, flush)),
        _Sum(moved, BLOCK_BYTES),
        _Sum(arm, _positioning_s(device, flush)),
    )


def _limits(device: Device, is_bursting: bool) -> tuple[float | None, float | None]:
    """The array's operations and bytes per second."""
    member, burst = device.member, device.member.burst
    iops, moved = member.iops, member.bytes_per_second
    if burst is not None and is_bursting and burst.initial > 0:
        iops = burst.burst_rate if burst.kind == "iops" else iops
        moved = burst.burst_rate if burst.kind == "bytes" else moved
    if burst is not None and burst.kind == "bytes" and moved:
        # Such a bucket is charged whole units, so its bytes are so many operations.
        iops = min(iops or math.inf, moved / member.io_unit_bytes)
    stripes = device.stripes
    return (iops * stripes if iops else None), (moved * stripes if moved else None)


def _units(device: Device, size: float) -> float:
    """Operations that a request counts, over all members that it touches."""
    chunks = 1 + max(0.0, size - 512) / device.chunk_bytes if device.stripes > 1 else 1.0
    return max(math.ceil(size / device.member.io_unit_bytes), min(chunks, device.stripes))


def _read_s(device: Device, size: float) -> float:
    latency = device.member.latency
    mean_us = _log_normal_mean(latency.read_us_p50, latency.read_us_p99)
    return (mean_us + max(0.0, size - latency.base_bytes) / MIB * latency.read_us_per_mib) / 1e6


def _flush_s(device: Device, workload: Workload, host: HostOverhead) -> float:
    """One flush of the WAL: its write, what the host adds, and the way to the next one."""
    latency, size = device.member.latency, _flush_bytes(workload)
    mean_us = _log_normal_mean(latency.write_us_p50, latency.write_us_p99)
    mean_us += max(0.0, size - latency.base_bytes) / MIB * latency.write_us_per_mib
    mean_us += host.wal_sync_us + host.handover_us
    return mean_us / 1e6 + _positioning_s(device, size)


def _flush_bytes(workload: Workload) -> float:
    """At least what one commit wrote, in whole pages; half a page more for the page begun."""
    return max(workload.wal_bytes, 1.0) // BLOCK_BYTES * BLOCK_BYTES + 1.5 * BLOCK_BYTES


def _positioning_s(device: Device, size: float, *, is_sequential: bool = False) -> float:
    """What a disk's mechanics take for one request; 0 for what is no disk."""
    mechanics = device.member.mechanics
    if mechanics is None or size <= 0:
        return 0.0
    moving_us = 0.0 if is_sequential else mechanics.mean_seek_us + mechanics.turn_us / 2
    return moving_us / 1e6 + size / mechanics.bytes_per_second


def _log_normal_mean(p50: float, p99: float) -> float:
    if p50 <= 0:
        return 0.0
    sigma = math.log(p99 / p50) / _NORMAL_P99
    return p50 * math.exp(sigma**2 / 2)
