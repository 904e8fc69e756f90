"""Settings that belong to a layout's storage: what each should be, why, and by which source.

Only what exists in the server's version and differs enough from what it has to be noticed. Values
that PostgreSQL's documentation leaves to the reader are computed from the catalog's latencies and
limits and from the observed load; the formula stands with each.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pgstow.catalog.catalog import Catalog
from pgstow.model import (
    DEFAULT_TABLESPACE,
    Device,
    Goal,
    Layout,
    Prediction,
    Profile,
    ServerState,
    Setting,
)
from pgstow.planning.needs import WAL_OVER_MOST, wal_gib
from pgstow.planning.wal import CHECKPOINT_TARGET, required_wal_bytes
from pgstow.prediction import SEQUENTIAL_READ_BYTES, Workload, volumes_of_relations, workload_of
from pgstow.units import BLOCK_BYTES, GIB, MIB, format_rate, format_size

_NOTICED = 1.5  # a planner's cost that is within this factor of the computed one is left alone
_CACHED = 0.9  # of random reads: what random_page_cost is documented to expect
_SSD_COST_LEAST, _DISK_COST = 1.1, 4.0  # documented for solid-state drives; the default, for disks
_READ_AHEAD_REQUESTS = 2  # Linux reads the next window while one is used
_CONCURRENCY_LEAST, _CONCURRENCY_MOST = 16, 1000  # the default since 18; the most there may be
_BUFFERS_SHARE, _BUFFERS_MOST = 0.25, 0.4  # of memory
_BUFFERS_FROM_BYTES = GIB  # of memory: the documented rule is for servers with at least this much
_FPI_SHARE, _FPI_SHARE_TIMEOUT = 0.3, 0.5  # of the WAL
_IDLE_CPU = 0.7
_WAL_SHARE = 0.7  # of what is free on its volume
_LONG_TIMEOUT_S = 900
_IO_WORKERS_MOST = 32
_Z99 = 2.3263


@dataclass(frozen=True, slots=True)
class _Case:
    """All that the rules look at."""

    profile: Profile
    layout: Layout
    prediction: Prediction
    catalog: Catalog
    workload: Workload
    memory_bytes: int | None
    is_server_set: bool  # whether the server's own settings are planned, not only tablespaces'

    @property
    def server(self) -> ServerState:
        return self.profile.server

    @property
    def major(self) -> int:
        return self.server.version_num // 10_000

    def source(self, chapter: str) -> str:
        return f"PostgreSQL {self.major} documentation, {chapter}"

    def free_bytes(self, volume: str) -> float:
        """The space of a volume beside its relations and WAL."""
        volume_of = volumes_of_relations(self.layout, self.server.relations)
        used = sum(r.size_bytes for r in self.server.relations if volume_of[r.id].name == volume)
        wal = wal_gib(self.profile) * GIB if volume == self.layout.postgres.wal else 0.0
        return self.layout.volume(volume).total_bytes - used - wal

    @property
    def wal_bytes_per_s(self) -> float:
        work = self.workload
        return work.write_fraction * work.wal_bytes * self.prediction.performance.tps

    @property
    def full_page_share(self) -> float:
        """Of the WAL, at most: an image is a block less its hole."""
        wal = self.profile.wal
        images = wal.full_page_images.mean * BLOCK_BYTES
        return min(1.0, images / wal.bytes.mean) if wal.bytes.mean > 0 else 0.0


def settings(
    profile: Profile,
    prediction: Prediction,
    catalog: Catalog,
    *,
    memory_bytes: int | None = None,
    is_server_set: bool = True,
) -> tuple[Setting, ...]:
    """The settings to change for a predicted layout; ``memory_bytes`` is the server's own.

    Without ``is_server_set``, those of tablespaces only, beside what the server has now.
    """
    layout, work = prediction.layout, workload_of(profile)
    case = _Case(profile, layout, prediction, catalog, work, memory_bytes, is_server_set)
    of_server = (_buffers, _checkpoints, _wal, _temp, _io_method) if is_server_set else ()
    rules = (_costs, _concurrency, *of_server)
    return tuple(setting for rule in rules for setting in rule(case))


def layout_with_settings(
    profile: Profile, prediction: Prediction, goal: Goal, catalog: Catalog
) -> tuple[Layout, tuple[Setting, ...]]:
    """The planned layout with its settings, and what of them is changed.

    Without ``goal.settings``, those of its tablespaces only: they come with the volumes.
    """
    memory = catalog.memory_bytes(prediction.layout.host)
    if profile.host is not None:  # a container may have less than its machine
        memory = min(memory or profile.host.memory_bytes, profile.host.memory_bytes)
    found = settings(profile, prediction, catalog, memory_bytes=memory, is_server_set=goal.settings)
    if prediction.layout.host.platform == "rds":  # there a parameter group has them
        return prediction.layout, found
    return with_settings(prediction.layout, found), found


def with_settings(layout: Layout, found: tuple[Setting, ...]) -> Layout:
    """The layout with these settings written down; what else it says of settings stays."""
    server = dict(layout.postgres.settings)
    server |= {one.name: one.value for one in found if one.tablespace is None}
    spaces = []
    for space in layout.tablespaces:
        own = {one.name: one.value for one in found if one.tablespace == space.name}
        spaces.append(replace(space, options=tuple((dict(space.options) | own).items())))
    placement = replace(layout.postgres, settings=tuple(server.items()))
    return replace(layout, postgres=placement, tablespaces=tuple(spaces))


def _costs(case: _Case) -> Iterator[Setting]:
    """random_page_cost: random against sequential time of a page, times what is not cached."""
    name = "random_page_cost"

    def target_value(device: Device) -> tuple[float, str]:
        random_us, page_us = random_read_us(device), sequential_page_us(device)
        cost = random_us / page_us * (1 - _CACHED)
        cost = round(min(max(cost, _SSD_COST_LEAST), _DISK_COST), 1)
        return cost, (
            f"a random page takes {random_us:,.0f} µs and a page of a scan {page_us:,.0f} µs on "
            f"{{volume}}; with {_CACHED:.0%} of random reads cached that is a cost of {cost:g}"
        )

    yield from _by_volume(case, name, target_value, "Planner Cost Constants", default=4.0)


def _concurrency(case: _Case) -> Iterator[Setting]:
    """effective_io_concurrency: what a volume can have in flight, by Little's law."""
    name = "effective_io_concurrency"

    def target_value(device: Device) -> tuple[float, str]:
        if device.member.mechanics is not None:
            return float(device.stripes), "{volume} is a stripe of that many disks"
        random_us = random_read_us(device)
        if device.iops is None:
            return _CONCURRENCY_LEAST, "the default since PostgreSQL 18, for {volume}"
        flight = device.iops * random_us / 1e6
        count = min(max(math.ceil(flight), _CONCURRENCY_LEAST), _CONCURRENCY_MOST)
        why = (
            f"{device.iops:,.0f} IOPS of {random_us:,.0f} µs each are {flight:,.0f} reads in flight"
        )
        least = f"; {_CONCURRENCY_LEAST}, the default since PostgreSQL 18, is the least"
        return float(count), f"{why} on {{volume}}{least if count > flight + 1 else ''}"

    default = 16.0 if case.major >= 18 else 1.0
    yield from _by_volume(
        case, name, target_value, "Resource Consumption", default=default, only_raised=True
    )


def _by_volume(
    case: _Case,
    name: str,
    target_value: Callable[[Device], tuple[float, str]],
    chapter: str,
    *,
    default: float,
    only_raised: bool = False,
) -> Iterator[Setting]:
    """A setting for the data directory's volume, and for tablespaces on others that differ."""

    def differs(value: float, present: float) -> bool:
        low, high = sorted((max(value, 1e-9), max(present, 1e-9)))
        if only_raised and value < present:
            return False
        return high / low >= _NOTICED

    layout = case.layout
    data = layout.volume(layout.postgres.data)
    shown = case.server.setting(name)
    server = _number(shown, default)
    value, why = target_value(case.catalog.device(data, layout.host))
    source = case.source(chapter)
    if case.is_server_set and differs(value, server):
        yield Setting(name, f"{value:g}", shown, why.format(volume=data.name), source)
        server = value
    options = {space.name: dict(space.options) for space in case.server.tablespaces}
    for space in layout.tablespaces:
        if space.name == DEFAULT_TABLESPACE or not space.relations:
            continue
        own = options.get(space.name, {}).get(name, dict(space.options).get(name))
        value, why = target_value(case.catalog.device(layout.volume(space.volume), layout.host))
        if differs(value, _number(own, server)):
            because = why.format(volume=space.volume)
            yield Setting(name, f"{value:g}", own, because, source, space.name)


def random_read_us(device: Device) -> float:
    """Mean time of a read of one page anywhere."""
    latency = device.member.latency
    sigma = math.log(latency.read_us_p99 / latency.read_us_p50) / _Z99
    way_us = device.member.mechanics.mean_us if device.member.mechanics else 0.0
    return latency.read_us_p50 * math.exp(sigma * sigma / 2) + way_us


def sequential_page_us(device: Device) -> float:
    """Time of a page in a long scan: at the device's throughput, or its latency with read-ahead."""
    latency, mechanics = device.member.latency, device.member.mechanics
    pages = SEQUENTIAL_READ_BYTES / BLOCK_BYTES
    request_us = latency.read_us_p50 + latency.read_us_per_mib * SEQUENTIAL_READ_BYTES / MIB
    times = [request_us / pages / _READ_AHEAD_REQUESTS]
    if device.bytes_per_second:
        times.append(BLOCK_BYTES / device.bytes_per_second * 1e6)
    if mechanics is not None:
        times = [BLOCK_BYTES / mechanics.bytes_per_second * 1e6, *times[1:]]
    return max(times)


def _buffers(case: _Case) -> Iterator[Setting]:
    """shared_buffers: a quarter of memory, no more than there are data."""
    memory, shown = case.memory_bytes, case.server.setting("shared_buffers")
    present = setting_bytes(shown)
    if memory is None or present is None or memory < _BUFFERS_FROM_BYTES:
        return
    stored = sum(relation.size_bytes for relation in case.server.relations)
    quarter = memory * _BUFFERS_SHARE
    source = case.source("Resource Consumption")
    if present > memory * _BUFFERS_MOST:
        why = (
            f"{format_size(present)} is {present / memory:.0%} of {format_size(memory)}; over "
            f"{_BUFFERS_MOST:.0%} is unlikely to work better than less, as reads go through the "
            "system's cache too"
        )
        yield Setting("shared_buffers", _megabytes(quarter), shown, why, source)
    elif present < min(quarter, stored) / _NOTICED:
        why = f"a quarter of {format_size(memory)} of memory is where to begin"
        if stored < quarter:
            why = f"all relations together have {format_size(stored)}, and memory has room for them"
        value = _megabytes(min(quarter, stored * 1.1))
        yield Setting("shared_buffers", value, shown, why, source)


def _checkpoints(case: _Case) -> Iterator[Setting]:
    """When checkpoints come, and how evenly they write."""
    source = case.source("WAL Configuration")
    shown = case.server.setting("checkpoint_completion_target")
    if shown is not None and _number(shown, CHECKPOINT_TARGET) < CHECKPOINT_TARGET:
        why = f"a checkpoint writes all it has to within {_number(shown, 0.5):.0%} of its time"
        value = f"{CHECKPOINT_TARGET:g}"
        yield Setting("checkpoint_completion_target", value, shown, why, source)
    shown = case.server.setting("checkpoint_timeout")
    timeout_s = setting_seconds(shown) or 300.0
    share = case.full_page_share
    if share >= _FPI_SHARE_TIMEOUT and timeout_s < _LONG_TIMEOUT_S / _NOTICED:
        rate = case.wal_bytes_per_s
        why = (
            f"up to {share:.0%} of the WAL is full-page images, one for each page's first change "
            f"after a checkpoint; a crash then has up to {format_size(rate * _LONG_TIMEOUT_S)} of "
            "WAL to replay"
        )
        timeout_s = _LONG_TIMEOUT_S
        yield Setting("checkpoint_timeout", "15min", shown, why, source)
    shown = case.server.setting("max_wal_size")
    present = setting_bytes(shown)
    required = required_wal_bytes(case.wal_bytes_per_s, timeout_s)
    if present is None or required <= present:
        return
    room = _wal_room(case)
    if room >= required or room > present * _NOTICED:
        why = (
            f"{format_rate(case.wal_bytes_per_s)} of WAL reach {format_size(present)} before "
            f"checkpoint_timeout ({timeout_s / 60:g} min): checkpoints come early and in a hurry"
        )
        if room < required:
            why += (
                f"; {format_size(required)} would do, and there is no more room on "
                f"{case.layout.postgres.wal}"
            )
            required = room
        yield Setting("max_wal_size", _megabytes(required), shown, why, source)


def _wal_room(case: _Case) -> float:
    """The largest max_wal_size whose WAL the volume of pg_wal takes beside all else on it."""
    name = case.layout.postgres.wal
    free = case.free_bytes(name) + wal_gib(case.profile) * GIB
    return math.floor(max(0.0, free * _WAL_SHARE / WAL_OVER_MOST / (GIB / 4))) * GIB / 4


def _wal(case: _Case) -> Iterator[Setting]:
    """Less WAL for spare CPU; and no recycling where the filesystem copies on write."""
    source = case.source("Write Ahead Log")
    shown = case.server.setting("wal_compression")
    share, cpu = case.full_page_share, case.prediction.cpu_utilisation
    if shown == "off" and share >= _FPI_SHARE and cpu is not None and cpu < _IDLE_CPU:
        lz4 = "; lz4 costs less CPU where the server was built with it" if case.major >= 15 else ""
        why = (
            f"up to {share:.0%} of the WAL is full-page images, which compress, and {1 - cpu:.0%} "
            f"of the CPU is free{lz4}"
        )
        yield Setting("wal_compression", "on", shown, why, source)
    volume = case.layout.volume(case.layout.postgres.wal)
    if volume.filesystem == "btrfs":
        for name in ("wal_init_zero", "wal_recycle"):
            shown = case.server.setting(name)
            if shown == "on":
                why = f"{volume.name} is btrfs, which copies on write: a new file costs less"
                yield Setting(name, "off", shown, why, source)


def _temp(case: _Case) -> Iterator[Setting]:
    """temp_file_limit: so that no one process fills the volume of temporary files."""
    shown = case.server.setting("temp_file_limit")
    if shown != "-1" or case.workload.temp_bytes <= 0:
        return
    placement = case.layout.postgres
    free = {name: case.free_bytes(name) for name in placement.temp or (placement.data,)}
    name = min(free, key=lambda one: free[one])
    if free[name] < 2 * MIB:
        return
    also = " where the data are" if name == placement.data else ""
    why = f"half of the {format_size(free[name])} left on {name}{also}: no process may fill it"
    source = case.source("Resource Consumption")
    yield Setting("temp_file_limit", _megabytes(free[name] / 2), shown, why, source)


def _io_method(case: _Case) -> Iterator[Setting]:
    """io_method and io_workers: asynchronous reads, since 18."""
    if case.major < 18:
        return
    source = case.source("Resource Consumption")
    scans = sum(work.sequential_reads for work in case.workload.relations)
    shown = case.server.setting("io_method")
    if scans > 0 and shown == "sync":
        why = "scans wait for every read where io_method is sync"
        yield Setting("io_method", "worker", shown, why, source)
        shown = "worker"
    workers = case.server.setting("io_workers")  # 19 adjusts their number itself
    times = [load.read_ms for load in case.prediction.volumes if load.read_ms]
    if shown != "worker" or workers is None or not times:
        return
    flight = scans * case.prediction.performance.tps * max(times) / 1e3
    count = min(math.ceil(flight), _IO_WORKERS_MOST)
    if count >= int(workers) * _NOTICED:
        why = f"scans have {flight:,.1f} reads in flight, and each worker waits for one"
        yield Setting("io_workers", str(count), workers, why, source)


def setting_bytes(text: str | None) -> int | None:
    """A size as SHOW prints it; None: not known, or no size.

    >>> setting_bytes("128MB"), setting_bytes("0"), setting_bytes("-1"), setting_bytes(None)
    (134217728, 0, None, None)
    """
    if text is None:
        return None
    units = {"kB": 1024, "MB": MIB, "GB": GIB, "TB": 1024 * GIB, "B": 1}
    for unit, factor in units.items():
        number = text.removesuffix(unit)
        if text.endswith(unit) and number.isdigit():
            return int(number) * factor
    return 0 if text == "0" else None


def setting_seconds(text: str | None) -> float | None:
    """A time as SHOW prints it.

    >>> setting_seconds("5min"), setting_seconds("30s"), setting_seconds("on")
    (300.0, 30.0, None)
    """
    for unit, factor in (("min", 60), ("ms", 0.001), ("s", 1), ("h", 3600), ("d", 86400)):
        number = (text or "").removesuffix(unit)
        if text is not None and text.endswith(unit) and number.isdigit():
            return float(number) * factor
    return None


def _number(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        return default


def _megabytes(size: float) -> str:
    """A size as the settings take it, down to a whole MB.

    >>> _megabytes(16 * GIB), _megabytes(1.5 * GIB)
    ('16GB', '1536MB')
    """
    whole = max(1, math.floor(size / MIB))
    return f"{whole // 1024}GB" if whole % 1024 == 0 else f"{whole}MB"
