"""The load of WAL and temporary files on each candidate volume, and the time left to wait."""

import math
from dataclasses import dataclass

from pgstow.model import Profile
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.prediction import SEQUENTIAL_READ_BYTES, Workload
from pgstow.units import BLOCK_BYTES, GIB, parse_size

WAL = "wal"
TEMP = "temp"
REST = "the data directory"  # itself, beside the relations
WAL_OVER_MOST = 1.5  # how far pg_wal may be over max_wal_size, which is a soft limit
_ROUNDING = 1e-9
_BASE_GIB = 0.5  # system catalogs, transaction status, logs and what else the data directory holds


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """The load of one special item on one candidate, at the target throughput."""

    iops: float
    bytes_per_s: float
    wait_us: float  # its part of one transaction's response time


def base_gib() -> float:
    """The data directory beside its relations."""
    return _BASE_GIB


def flush_rate(commits_per_s: float, flush_s: float) -> float:
    """Flushes a second of a WAL that is flushed by one leader at a time (group commit).

    Commits arrive as a Poisson stream; a flush begins when one is waiting and takes ``flush_s``, so
    between two begins there is a flush and, with probability exp(-a), an idle gap of mean 1/rate.

    >>> round(flush_rate(10.0, 0.001))
    10
    >>> round(flush_rate(100_000.0, 0.001))
    1000
    """
    if commits_per_s <= 0:
        return 0.0
    idle_s = math.exp(-commits_per_s * flush_s) / commits_per_s
    return 1 / (flush_s + idle_s)


def wal_needs(
    tps: float,
    workload: Workload,
    candidates: tuple[CandidateVolume, ...],
    *,
    handover_us: float = 0.0,
) -> list[ResourceDemand]:
    """The WAL's load on each candidate: the slower it flushes, the fewer flushes there are.

    A commit waits for one whole flush at the least. The rest of one that runs already, and
    ``handover_us`` between the two, only some commits wait for; how many, the simulator says.
    """
    background = tps * workload.background_wal_writes
    commits = workload.write_fraction * tps
    needs = []
    for candidate in candidates:
        flushes = flush_rate(commits, candidate.write_us / 1e6)
        written = commits * workload.wal_bytes + flushes * BLOCK_BYTES
        needs.append(
            ResourceDemand(
                iops=flushes + background,
                bytes_per_s=written + background * workload.background_wal_bytes,
                wait_us=workload.write_fraction * max(0.0, candidate.write_us - handover_us),
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


def temp_needs(
    tps: float, workload: Workload, candidates: tuple[CandidateVolume, ...]
) -> list[ResourceDemand]:
    """Temporary files' load on each candidate: written once, read once; reads are waited for."""
    moved = 2 * workload.temp_bytes * tps
    return [
        ResourceDemand(
            iops=moved / SEQUENTIAL_READ_BYTES,
            bytes_per_s=moved,
            wait_us=workload.temp_bytes / SEQUENTIAL_READ_BYTES * candidate.read_us,
        )
        for candidate in candidates
    ]


def response_budget_us(workload: Workload, tps: float) -> float | None:
    """How long a transaction may wait for I/O for clients to reach ``tps``; None: they cannot.

    The asymptotic bounds of a closed network (Denning and Buzen, "The operational analysis of
    queueing network models", ACM Computing Surveys 1978): X <= cores / D and N = X (R + Z) with R
    at least what is computed and waited for without any queue. They hold for whatever was
    measured, so no load that was seen is ever out of reach; what queues add, the simulator knows.
    """
    if tps * workload.cpu_us / 1e6 > workload.cores:
        return None
    between_us = workload.clients / tps * 1e6
    left = between_us - workload.think_us - workload.cpu_us
    return max(0.0, left) if left >= -_ROUNDING * between_us else None
