"""What each unit of a plan asks of a volume of each shape, at a wanted throughput."""

import math
from collections.abc import Iterable

from pgstow.model import Layout, Profile, RelationId
from pgstow.planning.problem import Need, Unit
from pgstow.planning.shapes import Shape
from pgstow.prediction import SEQUENTIAL_READ_BYTES, RelationWork, Workload, places
from pgstow.units import GIB, parse_size

WAL = "wal"
TEMP = "temp"
REST = "the rest"  # the data directory itself and every relation too cold to matter
_SINGLE_SHARE = 0.004  # of all device operations: below this a relation is not placed by itself
_MAX_SINGLE = 60
_WAL_PAGE_BYTES = 8192
_BASE_GIB = 0.5  # system catalogs, transaction status, logs and what else the data directory holds


def work_by_unit(profile: Profile, workload: Workload) -> dict[str, list[RelationWork]]:
    """Group relations into units: each busy one alone, the others of each volume together.

    TOAST and its index are part of their table.
    """
    relations = {relation.id: relation for relation in profile.server.relations}
    by_owner: dict[RelationId, list[RelationWork]] = {}
    for work in workload.relations:
        by_owner.setdefault(relations[work.relation].owner, []).append(work)
    total = sum(_operations(works) for works in by_owner.values()) or 1.0
    busiest = sorted(by_owner.items(), key=lambda item: -_operations(item[1]))
    units: dict[str, list[RelationWork]] = {REST: []}
    where = places(profile.layout, profile.server.relations)
    for relation, works in busiest:
        is_single = _operations(works) / total >= _SINGLE_SHARE and len(units) <= _MAX_SINGLE
        home = where[works[0].relation].name
        rest = REST if home == profile.layout.postgres.data else f"{REST} on {home}"
        units.setdefault(str(relation) if is_single else rest, []).extend(works)
    return units


def _operations(works: Iterable[RelationWork]) -> float:
    return sum(work.reads + work.sequential_reads + work.writes for work in works)


def units_at(
    tps: float,
    profile: Profile,
    workload: Workload,
    shapes: tuple[Shape, ...],
    allowed: dict[str, frozenset[str]],
) -> tuple[Unit, ...]:
    """Every unit with its needs at ``tps``; ``allowed`` limits a unit to some shapes."""
    grouped = work_by_unit(profile, workload)
    layout = profile.layout
    where = places(layout, profile.server.relations)
    units = []
    for key, works in grouped.items():
        home = layout.postgres.data
        if works:
            home = where[works[0].relation].name
        usable = allowed.get(key, frozenset(shape.key for shape in shapes))
        units.append(
            Unit(
                key=key,
                gib=sum(work.size_bytes for work in works) / GIB
                + (_BASE_GIB if key == REST else 0),
                needs={s.key: _relation_need(works, s, tps) for s in shapes if s.key in usable},
                current=home,
            )
        )
    units.append(_wal_unit(tps, profile, workload, shapes, allowed))
    if workload.temp_bytes > 0:
        units.append(_temp_unit(tps, layout, workload, shapes, allowed))
    return tuple(units)


def _relation_need(works: list[RelationWork], shape: Shape, tps: float) -> Need:
    reads = sum(work.reads for work in works)
    sequential = sum(work.sequential_reads for work in works)
    writes = sum(work.writes for work in works)
    random_bytes = shape.random_io_bytes
    return Need(
        iops=(reads + sequential + writes) * tps,
        bytes_per_s=((reads + writes) * random_bytes + sequential * SEQUENTIAL_READ_BYTES) * tps,
        wait_us=(reads + sequential) * shape.read_us,
    )


def flush_rate(commits_per_s: float, flush_s: float) -> float:
    """Flushes a second of a WAL that is flushed by one leader at a time (group commit).

    Commits arrive as a Poisson stream; a flush begins when one is waiting and takes ``flush_s``,
    so between two begins lies a flush and, with probability exp(-a), an idle gap of mean 1/rate.

    >>> round(flush_rate(10.0, 0.001))
    10
    >>> round(flush_rate(100_000.0, 0.001))
    1000
    """
    if commits_per_s <= 0:
        return 0.0
    idle_s = math.exp(-commits_per_s * flush_s) / commits_per_s
    return 1 / (flush_s + idle_s)


def _wal_unit(
    tps: float,
    profile: Profile,
    workload: Workload,
    shapes: tuple[Shape, ...],
    allowed: dict[str, frozenset[str]],
) -> Unit:
    commits = workload.write_fraction * tps
    needs = {}
    for shape in shapes:
        if shape.key not in allowed.get(WAL, frozenset((shape.key,))):
            continue
        flushes = flush_rate(commits, shape.write_us / 1e6)
        busy = flushes * shape.write_us / 1e6
        needs[shape.key] = Need(
            iops=flushes,
            bytes_per_s=commits * workload.wal_bytes + flushes * _WAL_PAGE_BYTES / 2,
            # a commit that finds a flush running waits for the rest of it, half on average
            wait_us=workload.write_fraction * shape.write_us * (1 + busy / 2),
        )
    return Unit(
        key=WAL,
        gib=wal_gib(profile),
        needs=needs,
        current=profile.layout.postgres.wal,
    )


def wal_gib(profile: Profile) -> float:
    """What pg_wal may hold: max_wal_size is soft, so half as much again, and wal_keep_size."""
    total = 0.0
    for name, factor in (("max_wal_size", 1.5), ("wal_keep_size", 1.0)):
        text = profile.server.setting(name) or ""
        for postgres_unit, unit in (("kB", "KiB"), ("MB", "MiB"), ("GB", "GiB"), ("TB", "TiB")):
            if text.endswith(postgres_unit):
                total += factor * parse_size(text.removesuffix(postgres_unit) + unit) / GIB
    return total or 1.5  # max_wal_size is 1 GB by default


def _temp_unit(
    tps: float,
    layout: Layout,
    workload: Workload,
    shapes: tuple[Shape, ...],
    allowed: dict[str, frozenset[str]],
) -> Unit:
    moved = 2 * workload.temp_bytes * tps  # written once, read once
    home = layout.postgres.temp[0] if layout.postgres.temp else layout.postgres.data
    usable = allowed.get(TEMP, frozenset(shape.key for shape in shapes))
    needs = {
        shape.key: Need(
            iops=moved / SEQUENTIAL_READ_BYTES,
            bytes_per_s=moved,
            wait_us=2 * workload.temp_bytes / SEQUENTIAL_READ_BYTES * shape.read_us,
        )
        for shape in shapes
        if shape.key in usable
    }
    # room for a minute of what is spilled, at least 1 GiB
    size = max(1.0, workload.temp_bytes * tps * 60 / GIB)
    return Unit(key=TEMP, gib=size, needs=needs, current=home)


def response_budget_us(workload: Workload, tps: float) -> float | None:
    """What a transaction may wait for I/O so that the clients reach ``tps``; None: they cannot.

    N = X (R + Z) gives R; the CPU's own part is inflated as in an M/M/c queue's approximation
    (Sakasegawa), service / c x rho^(sqrt(2(c+1)) - 1) / (1 - rho).
    """
    cores, busy = workload.cores, tps * workload.cpu_us / 1e6
    rho = busy / cores
    if rho >= 1:
        return None
    waiting = rho ** (math.sqrt(2 * (cores + 1)) - 1) / (cores * (1 - rho))
    response = workload.clients / tps * 1e6 - workload.think_us
    left = response - workload.cpu_us * (1 + waiting)
    return left if left > 0 else None
