"""A miss-ratio curve: what a cache of another size would leave for the devices to read.

Che's approximation of an LRU cache (Che, Tung, Wang, "Hierarchical web caching systems", IEEE
JSAC 2002): a block is there if it was asked for within a time T that is the same for all, and T is
such that what is there fills the cache. Within a relation the blocks in use are taken to be asked
for alike; how many of them are in use follows from the misses seen with the present cache.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pgstow.model import Profile, RelationId
from pgstow.prediction.workload import Workload
from pgstow.units import BLOCK_BYTES

_NEVER = 1e-6  # a miss ratio below which a relation counts as always there
_STEPS = 200  # of a bisection; far more than the digits of a float
_FOREVER_S = 1e15


@dataclass(frozen=True, slots=True)
class Reuse:
    """One relation's use: accesses per second, the share that the devices had to serve, blocks."""

    relation: RelationId
    accesses: float
    miss_ratio: float
    blocks: float


@dataclass(frozen=True, slots=True)
class _WorkingSet:
    relation: RelationId
    accesses: float
    blocks: float  # in use

    def there(self, time_s: float) -> float:
        """Blocks in the cache."""
        return self.blocks * -math.expm1(-self.accesses * time_s / self.blocks)

    def miss_ratio(self, time_s: float) -> float:
        return math.exp(-self.accesses * time_s / self.blocks)


@dataclass(frozen=True, slots=True)
class MissRatioCurve:
    """Miss ratios of relations by the size of the cache that they share."""

    sets: tuple[_WorkingSet, ...]

    @classmethod
    def of(cls, uses: Iterable[Reuse], cache_blocks: float) -> "MissRatioCurve":
        """Fit the working sets to the misses seen with a cache of so many blocks.

        A relation of W blocks in use misses m = exp(-a T / W) of its a accesses per second, so
        W = a T / -ln m, and W (1 - m) are there; the sum of these is the cache, which gives T. A
        working set is no larger than its relation.
        """
        busy = [use for use in uses if use.accesses > 0]

        def sets(time_s: float) -> tuple[_WorkingSet, ...]:
            return tuple(
                _WorkingSet(
                    use.relation, use.accesses, min(use.blocks, time_s * _blocks_per_s(use))
                )
                for use in busy
            )

        def there(time_s: float) -> float:
            return sum(one.there(time_s) for one in sets(time_s))

        return cls(sets(_solved(there, cache_blocks)))

    @classmethod
    def uniform(cls, uses: Iterable[Reuse]) -> "MissRatioCurve":
        """All blocks of each relation in use alike, whatever misses were seen."""
        return cls(tuple(_WorkingSet(one.relation, one.accesses, one.blocks) for one in uses))

    def miss_ratios(self, cache_blocks: float) -> dict[RelationId, float]:
        """What share of each relation's accesses such a cache would miss."""
        if cache_blocks >= sum(one.blocks for one in self.sets):
            return {one.relation: 0.0 for one in self.sets}
        time_s = self._time_s(cache_blocks)
        return {one.relation: one.miss_ratio(time_s) for one in self.sets}

    def _time_s(self, cache_blocks: float) -> float:
        return _solved(self._there, cache_blocks)

    def _there(self, time_s: float) -> float:
        return sum(one.there(time_s) for one in self.sets)


def _solved(there: Callable[[float], float], cache_blocks: float) -> float:
    """The time at which so many blocks are cached; if they never are, a very long one."""
    low, high = 0.0, 1e-6
    while there(high) < cache_blocks and high < _FOREVER_S:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if there(middle) < cache_blocks:
            low = middle
        else:
            high = middle
    return high


def _blocks_per_s(use: Reuse) -> float:
    """Blocks in use per second of T. A miss ratio is kept off 0 and 1, which say nothing."""
    return use.accesses / -math.log(min(max(use.miss_ratio, _NEVER), 1 - 1e-9))


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What holds blocks, shared buffers and page cache together: observed, and as it is to be."""

    present_bytes: int
    target_bytes: int


def reuses(profile: Profile, workload: Workload) -> tuple[Reuse, ...]:
    """Each relation's accesses, and the share of them that reached the devices."""
    tps = workload.transactions_per_second
    demands = {demand.relation: demand for demand in profile.demands}
    found = []
    for work in workload.relations:
        demand = demands.get(work.relation)
        if demand is None:
            continue
        missed = (work.reads + work.sequential_reads) * tps
        scanned = demand.sequential_read_bytes.mean / BLOCK_BYTES
        accesses = demand.buffer_hits.mean + demand.random_reads.mean + scanned
        if accesses > 0:
            ratio = min(1.0, missed / accesses)
            found.append(Reuse(work.relation, accesses, ratio, work.size_bytes / BLOCK_BYTES))
    return tuple(found)


def with_cache(profile: Profile, workload: Workload, size: CacheSize) -> Workload:
    """The workload with the device reads that a cache of the target size would leave."""
    uses = reuses(profile, workload)
    curve = MissRatioCurve.of(uses, size.present_bytes / BLOCK_BYTES)
    before = curve.miss_ratios(size.present_bytes / BLOCK_BYTES)
    after = curve.miss_ratios(size.target_bytes / BLOCK_BYTES)

    def factor(relation: RelationId) -> float:
        was = before.get(relation, 0.0)
        return after[relation] / was if was > _NEVER else 1.0

    works = tuple(
        replace(
            work,
            reads=work.reads * factor(work.relation),
            sequential_reads=work.sequential_reads * factor(work.relation),
        )
        for work in workload.relations
    )
    return replace(workload, relations=works)
