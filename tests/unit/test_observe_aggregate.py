"""What samples become: laws that hold for any counters, and examples worked by hand."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observe_samples import (
    IDLE,
    INDEX,
    ORDERS,
    ORDERS_KEY,
    STARTED,
    TABLE,
    host_sample,
    observation,
    server_sample,
)

from pgstow.model import Profile, UserError
from pgstow.model.provenance import Rate
from pgstow.observe import aggregate
from pgstow.postgres.counters import (
    DatabaseCounters,
    RelationCounters,
    ServerSample,
    WalCounters,
    WriteCounters,
)

counts = st.integers(0, 10**9)


@st.composite
def steps(draw: st.DrawFn) -> list[ServerSample]:
    """Samples of a server that only counts upwards, at uneven times."""
    samples = [server_sample(0.0)]
    for _ in range(draw(st.integers(1, 6))):
        samples.append(_later(draw, samples[-1]))
    return samples


def _later(draw: st.DrawFn, last: ServerSample) -> ServerSample:
    database, wal, writes = last.databases["shop"], last.wal, last.writes
    table = last.relations.get(TABLE, IDLE)
    fetched = draw(counts)
    hit = draw(st.integers(0, fetched))
    updated = draw(counts)
    moved = RelationCounters(
        table.blocks_fetched + fetched,
        table.blocks_hit + hit,
        table.sequential_scans + draw(st.integers(0, 5)),
        table.rows_scanned + draw(counts),
        table.rows_inserted + draw(counts),
        table.rows_updated + updated,
        table.rows_hot_updated + draw(st.integers(0, updated)),
        table.rows_deleted + draw(counts),
        1000,
        draw(st.sampled_from([0, 50000])),
    )
    return replace(
        last,
        at_s=last.at_s + draw(st.floats(0.5, 100)),
        next_transaction_id=last.next_transaction_id + draw(counts),
        databases={
            "shop": DatabaseCounters(
                database.transactions + draw(counts),
                database.busy_ms + draw(counts),
                database.temp_bytes + draw(counts),
            )
        },
        wal=WalCounters(
            wal.bytes + draw(counts),
            wal.full_page_images + draw(counts),
            wal.writes + draw(counts),
            wal.syncs + draw(counts),
            (wal.write_ms or 0.0) + draw(counts),
            (wal.sync_ms or 0.0) + draw(counts),
        ),
        writes=WriteCounters(
            writes.checkpoints_timed + draw(st.integers(0, 2)),
            writes.checkpoints_requested + draw(st.integers(0, 2)),
            writes.checkpointer_blocks + draw(counts),
            writes.background_writer_blocks + draw(counts),
            writes.backend_blocks + draw(counts),
        ),
        relations={TABLE: moved},
    )


def rates(profile: Profile) -> list[Rate]:
    """Every rate of a profile."""
    wal, background, activity = profile.wal, profile.background, profile.activity
    found = [wal.bytes, wal.writes, wal.syncs, wal.full_page_images]
    found += [background.checkpointer, background.background_writer, background.backends]
    found += [background.temp_bytes, activity.transactions, activity.write_transactions]
    found += [activity.active_sessions]
    for demand in profile.demands:
        found += [demand.random_reads, demand.sequential_read_bytes, demand.block_writes]
        found += [demand.tuple_writes, demand.buffer_hits]
    return found


@given(steps())
def test_rate_times_time_is_what_was_counted(samples: list[ServerSample]) -> None:
    profile = aggregate(observation(samples))
    last, seconds = samples[-1], profile.seconds
    table = last.relations[TABLE]
    demand = profile.demand(ORDERS)
    reads = 0.0
    if demand is not None:
        reads = demand.random_reads.mean + demand.sequential_read_bytes.mean / 8192
        assert math.isclose(demand.buffer_hits.mean * seconds, table.blocks_hit, rel_tol=1e-9)
    assert math.isclose(reads * seconds, table.blocks_fetched - table.blocks_hit, rel_tol=1e-9)
    assert math.isclose(profile.wal.bytes.mean * seconds, last.wal.bytes, rel_tol=1e-9)
    assert math.isclose(
        profile.activity.transactions.mean * seconds,
        last.databases["shop"].transactions,
        rel_tol=1e-9,
    )


@given(steps())
def test_blocks_written_are_shared_out_completely(samples: list[ServerSample]) -> None:
    profile = aggregate(observation(samples))
    shared = [demand.block_writes.mean for demand in profile.demands]
    total = profile.background
    written = total.checkpointer.mean + total.background_writer.mean + total.backends.mean
    assert sum(shared) == pytest.approx(written) or sum(shared) == 0.0


@given(steps(), st.data())
def test_a_reset_never_gives_a_negative_rate(
    samples: list[ServerSample], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(["announced", "silent", "restart"]))
    fresh = server_sample(samples[-1].at_s + 1.0)
    if kind == "announced":
        fresh = replace(fresh, resets={"wal": STARTED + timedelta(hours=1)})
    if kind == "restart":
        fresh = replace(fresh, started_at=STARTED + timedelta(hours=1))
    after = replace(fresh, at_s=fresh.at_s + 1.0)
    profile = aggregate(observation([*samples, fresh, after]))
    assert all(rate.mean >= 0 for rate in rates(profile))
    assert all(rate.stdev is None or rate.stdev >= 0 for rate in rates(profile))
    codes = {warning.code for warning in profile.warnings}
    if kind == "restart":
        assert "restart" in codes
    if kind == "announced":
        assert "counter-reset" in codes


@given(st.integers(2, 8))
def test_counters_that_stand_still_are_rates_of_zero(number: int) -> None:
    busy = replace(server_sample(0.0), relations={TABLE: IDLE._replace(blocks_fetched=10**6)})
    profile = aggregate(observation([replace(busy, at_s=float(i)) for i in range(number)]))
    assert profile.demands == ()
    assert all(
        rate.mean == 0 for rate in rates(profile) if rate != profile.activity.active_sessions
    )


def test_the_interval_with_a_reset_is_left_out_and_not_averaged() -> None:
    def at(second: float, wal_bytes: float, reset: int = 0) -> ServerSample:
        return server_sample(
            second,
            wal=WalCounters(wal_bytes, 0, 0, 0, None, None),
            resets={"wal": STARTED + timedelta(hours=reset)},
        )

    profile = aggregate(observation([at(0, 0), at(5, 500), at(10, 20, 1), at(15, 520, 1)]))
    assert profile.wal.bytes == Rate(100.0, 0.0, 2)
    assert profile.seconds == 10
    assert [w.message for w in profile.warnings if w.code == "counter-reset"] == [
        "the statistics of wal were reset while observing: one interval is left out"
    ]


def test_without_one_good_interval_there_is_no_profile() -> None:
    second = server_sample(5.0, started_at=STARTED + timedelta(hours=1))
    with pytest.raises(UserError, match="the server was restarted"):
        aggregate(observation([server_sample(0.0), second]))


def test_a_database_that_answered_only_sometimes_is_not_counted_from_zero() -> None:
    full = server_sample(0.0, relations={TABLE: IDLE._replace(blocks_fetched=10**9)})
    samples = [
        full,
        replace(full, at_s=5.0, relations={}, gone=("shop",)),
        replace(full, at_s=10.0),
        replace(full, at_s=15.0),
    ]
    profile = aggregate(observation(samples))
    assert profile.demands == ()
    assert "database-lost" in {warning.code for warning in profile.warnings}


def test_a_scan_of_half_the_rows_is_half_the_blocks() -> None:
    before = server_sample(0.0, relations={TABLE: IDLE})
    after = server_sample(
        10.0,
        relations={
            TABLE: IDLE._replace(
                blocks_fetched=900, blocks_hit=100, sequential_scans=1, rows_scanned=25000
            )
        },
    )
    demand = aggregate(observation([before, after])).demand(ORDERS)
    assert demand is not None
    assert demand.sequential_read_bytes.mean == 500 * 8192 / 10  # of 1000 blocks
    assert demand.random_reads.mean == 300 / 10


def test_an_unknown_number_of_rows_counts_whole_scans() -> None:
    fresh = IDLE._replace(pages=0, rows=0)
    before = server_sample(0.0, relations={TABLE: fresh})
    after = server_sample(
        1.0, relations={TABLE: fresh._replace(blocks_fetched=5000, sequential_scans=2)}
    )
    demand = aggregate(observation([before, after])).demand(ORDERS)
    assert demand is not None
    assert demand.sequential_read_bytes.mean == 2000 * 8192
    assert demand.random_reads.mean == 3000


def test_in_place_updates_spare_the_indexes() -> None:
    def profile(hot: int) -> Profile:
        written = WriteCounters(0, 0, 100, 0, 0)
        after = IDLE._replace(rows_updated=10, rows_hot_updated=hot)
        return aggregate(
            observation(
                [
                    server_sample(0.0, relations={TABLE: IDLE, INDEX: IDLE}),
                    server_sample(1.0, relations={TABLE: after, INDEX: IDLE}, writes=written),
                ]
            )
        )

    assert profile(hot=10).demand(ORDERS_KEY) is None
    cold = profile(hot=0).demand(ORDERS_KEY)
    assert cold is not None and cold.block_writes.mean == pytest.approx(100 / 3, rel=0.03)


def test_many_touches_of_few_blocks_are_few_blocks() -> None:
    after = IDLE._replace(rows_updated=10**6)
    written = WriteCounters(0, 0, 1200, 0, 0)
    profile = aggregate(
        observation(
            [
                server_sample(0.0, relations={TABLE: IDLE}),
                server_sample(1.0, relations={TABLE: after}, writes=written),
            ]
        )
    )
    shares = {d.relation: d.block_writes.mean for d in profile.demands}
    assert shares[ORDERS] == pytest.approx(1000)  # every block of both, once
    assert shares[ORDERS_KEY] == pytest.approx(200)


def test_unknown_flush_time_is_none_and_said() -> None:
    def at(second: float, syncs: int, sync_ms: float | None) -> ServerSample:
        return server_sample(second, wal=WalCounters(0.0, 0, 0, syncs, None, sync_ms))

    timed = aggregate(observation([at(0, 0, 0.0), at(1, 100, 250.0)]))
    assert timed.wal.sync_us == 2500
    untimed = aggregate(observation([at(0, 0, None), at(1, 100, None)]))
    assert untimed.wal.sync_us is None
    assert "wal-timing-off" in {warning.code for warning in untimed.warnings}


def test_own_statements_are_not_the_users() -> None:
    before = server_sample(0.0)
    after = server_sample(
        10.0,
        databases={"shop": DatabaseCounters(1000, 20000.0, 0)},
        next_transaction_id=1600,
        own_transactions=200,
        own_write_transactions=100,
        own_busy_ms=5000.0,
    )
    activity = aggregate(observation([before, after])).activity
    assert activity.transactions.mean == 80
    assert activity.write_transactions.mean == 50
    assert activity.active_sessions.mean == 1.5


def test_devices_are_seen_beside_the_server() -> None:
    hosts = [
        host_sample(0.0),
        host_sample(
            10.0, 5.0, reads=1000, read_bytes=8192000, read_ms=2000, queue_ms=40000, flushes=50
        ),
    ]
    host = aggregate(observation([server_sample(0.0), server_sample(10.0)], hosts)).host
    assert host is not None and host.busy_cores.mean == 0.5
    (device,) = host.devices
    assert (device.volume, device.reads.mean, device.read_ms) == ("data", 100, 2)
    assert device.queue.mean == 4
    assert device.write_ms is None
    assert device.flushes is not None and device.flushes.mean == 5


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_rows_that_come_and_stay_are_growth_of_the_table_and_its_indexes(
    inserted: int, deleted: int
) -> None:
    after = IDLE._replace(rows_inserted=inserted, rows_deleted=deleted)
    profile = aggregate(
        observation(
            [
                server_sample(0.0, relations={TABLE: IDLE}),
                server_sample(10.0, relations={TABLE: after}),
            ]
        )
    )
    grown = {d.relation: d.growth_bytes.mean for d in profile.demands if d.growth_bytes}
    stayed = (inserted - deleted) * 1000 * 8192 / 50000 / 10  # of 50,000 rows in 1,000 blocks
    assert grown.get(ORDERS, 0.0) == pytest.approx(stayed)
    assert grown.get(ORDERS_KEY, 0.0) == pytest.approx(stayed / 5)  # it has a fifth of the blocks


def test_a_table_that_was_never_analysed_grows_too() -> None:
    fresh = IDLE._replace(rows=0, pages=0, rows_inserted=400)
    later = fresh._replace(rows_inserted=500)
    profile = aggregate(
        observation(
            [
                server_sample(0.0, relations={TABLE: fresh}),
                server_sample(10.0, relations={TABLE: later}),
            ]
        )
    )
    demand = profile.demand(ORDERS)
    assert demand is not None and demand.growth_bytes is not None
    assert demand.growth_bytes.mean == pytest.approx(100 * 1000 * 8192 / 500 / 10)


def test_subtransactions_are_counted_where_the_server_does() -> None:
    first, last = server_sample(0.0, subtransactions=100), server_sample(10.0, subtransactions=400)
    assert aggregate(observation([first, last])).activity.subtransactions == Rate(30.0, None, 1)
    unknown = server_sample(0.0)
    assert aggregate(observation([unknown, last])).activity.subtransactions is None
    reset = server_sample(10.0, subtransactions=5)
    assert aggregate(observation([first, reset])).activity.subtransactions is None
