"""What WAL and temporary files ask of a volume of each shape, and what waiting is left for it."""

import math
from dataclasses import dataclass

from pgstow.model import Profile
from pgstow.planning.shapes import Shape
from pgstow.prediction import SEQUENTIAL_READ_BYTES, Workload
from pgstow.units import GIB, parse_size

WAL = "wal"
TEMP = "temp"
REST = "the data directory"  # itself, beside the relations
WAL_OVER_MOST = 1.5  # how far pg_wal may be over max_wal_size, which is a soft limit
_WAL_PAGE_BYTES = 8192
_BASE_GIB = 0.5  # system catalogs, transaction status, logs and what else the data directory holds


@dataclass(frozen=True, slots=True)
class Need:
    """What one unit asks of a volume of one shape, at the wanted throughput."""

    iops: float
    bytes_per_s: float
    wait_us: float  # its part of one transaction's response time


def base_gib() -> float:
    """The data directory beside its relations."""
    return _BASE_GIB


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


def wal_needs(tps: float, workload: Workload, shapes: tuple[Shape, ...]) -> list[Need]:
    """What the WAL asks of each shape: the slower it flushes, the fewer flushes there are."""
    commits = workload.write_fraction * tps
    needs = []
    for shape in shapes:
        flushes = flush_rate(commits, shape.write_us / 1e6)
        busy = flushes * shape.write_us / 1e6
        needs.append(
            Need(
                iops=flushes,
                bytes_per_s=commits * workload.wal_bytes + flushes * _WAL_PAGE_BYTES / 2,
                # a commit that finds a flush running waits for the rest of it, half on average
                wait_us=workload.write_fraction * shape.write_us * (1 + busy / 2),
            )
        )
    return needs


def wal_gib(profile: Profile) -> float:
    """What pg_wal may hold: max_wal_size is soft, so half as much again, and wal_keep_size."""
    total = 0.0
    for name, factor in (("max_wal_size", WAL_OVER_MOST), ("wal_keep_size", 1.0)):
        text = profile.server.setting(name) or ""
        for postgres_unit, unit in (("kB", "KiB"), ("MB", "MiB"), ("GB", "GiB"), ("TB", "TiB")):
            if text.endswith(postgres_unit):
                total += factor * parse_size(text.removesuffix(postgres_unit) + unit) / GIB
    return total or 1.5  # max_wal_size is 1 GB by default


def temp_needs(tps: float, workload: Workload, shapes: tuple[Shape, ...]) -> list[Need]:
    """What temporary files ask of each shape: written once, read once."""
    moved = 2 * workload.temp_bytes * tps
    return [
        Need(
            iops=moved / SEQUENTIAL_READ_BYTES,
            bytes_per_s=moved,
            wait_us=2 * workload.temp_bytes / SEQUENTIAL_READ_BYTES * shape.read_us,
        )
        for shape in shapes
    ]


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
