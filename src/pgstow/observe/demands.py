"""What each relation asked of the devices, from what PostgreSQL counts.

Two things it does not count are estimated:

*Sequential reads.* PostgreSQL counts the blocks of a table that missed shared buffers, not who
asked. A sequential scan that returned n of a table's rows passed about n / rows of its blocks
(where the number of rows is unknown: all blocks, each scan). So many of the table's missed blocks
are called sequential, at most all of them; the rest, and all of indexes and TOAST, are random.
VACUUM and CREATE INDEX count as random: they are no scans to PostgreSQL.

*Blocks written.* Checkpointer, background writer and backends say how many blocks they wrote, not
whose. The blocks that each relation can have dirtied give the shares: a row updated in place
(HOT) or deleted touches one block at random, another update two, an insert 1 / (rows per block)
of one; in each index an insert or a non-HOT update touches one. Of t touches between two
checkpoints on a relation of B blocks, B (1 - exp(-t / B)) are different blocks.

A relation grows by its mean bytes for each row inserted, less those deleted; an index with its
table.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pgstow.model.profile import Demand, Relation
from pgstow.model.provenance import Rate
from pgstow.observe.intervals import Interval, rate_of
from pgstow.postgres.counters import NO_COUNTERS, RelationCounters, RelationKey


class _Change(NamedTuple):
    """What happened to one relation in one interval."""

    random_reads: float
    sequential_reads: float
    hits: int
    rows_changed: int
    growth_bytes: float


_NOTHING = _Change(0.0, 0.0, 0, 0, 0.0)


def demands(
    kept: Sequence[Interval],
    keys: Mapping[RelationKey, Relation],
    indexed: Mapping[RelationKey, RelationKey],
    *,
    blocks_written: Rate,
    checkpoints: int,
    block_bytes: int,
) -> tuple[Demand, ...]:
    """The demand of every relation that had any, in the order of ``keys``."""
    seconds = [interval.seconds for interval in kept]
    changes: list[dict[RelationKey, _Change]] = []
    touches: dict[RelationKey, float] = {}
    for interval in kept:
        changes.append(_changes(interval, keys, indexed, touches, block_bytes))
    shares = _shares(touches, keys, max(1, checkpoints), block_bytes)
    found = []
    for key, relation in keys.items():
        own = [change.get(key, _NOTHING) for change in changes]
        share = shares.get(key, 0.0)
        if share == 0.0 and all(change == _NOTHING for change in own):
            continue
        spread = blocks_written.stdev
        found.append(
            Demand(
                relation=relation.id,
                random_reads=rate_of((c.random_reads for c in own), seconds),
                sequential_read_bytes=rate_of(
                    (c.sequential_reads * block_bytes for c in own), seconds
                ),
                block_writes=Rate(
                    blocks_written.mean * share,
                    None if spread is None else spread * share,
                    blocks_written.samples,
                ),
                tuple_writes=rate_of((c.rows_changed for c in own), seconds),
                buffer_hits=rate_of((c.hits for c in own), seconds),
                growth_bytes=rate_of((c.growth_bytes for c in own), seconds),
            )
        )
    return tuple(found)


def _changes(
    interval: Interval,
    keys: Mapping[RelationKey, Relation],
    indexed: Mapping[RelationKey, RelationKey],
    touches: dict[RelationKey, float],
    block_bytes: int,
) -> dict[RelationKey, _Change]:
    """What happened in one interval; adds the touches of blocks to ``touches``."""
    before, after = interval.before.server.relations, interval.after.server.relations
    found = {}
    for key, now in after.items():
        relation = keys.get(key)
        past = before.get(key, NO_COUNTERS)
        if relation is None or now == past:
            continue
        hits = now.blocks_hit - past.blocks_hit
        reads = max(0, now.blocks_fetched - past.blocks_fetched - hits)
        sequential = 0.0
        if relation.kind in ("table", "materialized view"):
            sequential = min(reads, _scanned_blocks(past, now, relation, block_bytes))
        inserted, updated, hot, deleted = _row_changes(past, now)
        found[key] = _Change(
            reads - sequential,
            sequential,
            hits,
            inserted + updated + deleted,
            _growth_bytes(inserted - deleted, now, relation),
        )
        per_block = max(1.0, now.rows / now.pages) if now.pages and now.rows else 1.0
        touched = inserted / per_block + hot + 2 * (updated - hot) + deleted
        if touched:
            touches[key] = touches.get(key, 0.0) + touched
    for index, table in indexed.items():
        if table in found:
            inserted, updated, hot, _ = _row_changes(before.get(table, NO_COUNTERS), after[table])
            if inserted + updated - hot:
                touches[index] = touches.get(index, 0.0) + inserted + updated - hot
            if index in keys and found[table].growth_bytes:
                grown = found[table].growth_bytes * _ratio(keys, index, table)
                found[index] = found.get(index, _NOTHING)._replace(growth_bytes=grown)
    return found


def _ratio(keys: Mapping[RelationKey, Relation], index: RelationKey, table: RelationKey) -> float:
    """Bytes of an index for each of its table."""
    return keys[index].size_bytes / max(1, keys[table].size_bytes) if table in keys else 0.0


def _growth_bytes(rows: int, now: RelationCounters, relation: Relation) -> float:
    """What rows that came or went take; the room of deleted ones is used again.

    Of a table that was never analysed, the rows are those counted since it was made.
    """
    there = now.rows if now.rows > 0 else now.rows_inserted - now.rows_deleted
    return rows * relation.size_bytes / there if there > 0 else 0.0


def _row_changes(past: RelationCounters, now: RelationCounters) -> tuple[int, int, int, int]:
    """Rows inserted, updated, of those in place, and deleted."""
    return (
        now.rows_inserted - past.rows_inserted,
        now.rows_updated - past.rows_updated,
        min(now.rows_hot_updated - past.rows_hot_updated, now.rows_updated - past.rows_updated),
        now.rows_deleted - past.rows_deleted,
    )


def _scanned_blocks(
    past: RelationCounters, now: RelationCounters, relation: Relation, block_bytes: int
) -> float:
    scans = now.sequential_scans - past.sequential_scans
    rows = now.rows_scanned - past.rows_scanned
    if now.rows > 0 and now.pages > 0:
        return rows / now.rows * now.pages
    return scans * relation.size_bytes / block_bytes


def _shares(
    touches: Mapping[RelationKey, float],
    keys: Mapping[RelationKey, Relation],
    periods: int,
    block_bytes: int,
) -> dict[RelationKey, float]:
    """Each relation's share of the blocks written, by the different blocks it dirtied."""
    dirtied = {}
    for key, count in touches.items():
        relation = keys.get(key)
        if relation is not None:
            blocks = max(1.0, relation.size_bytes / block_bytes)
            dirtied[key] = -periods * blocks * math.expm1(-count / periods / blocks)
    total = sum(dirtied.values())
    return {key: value / total for key, value in dirtied.items()} if total > 0 else {}
