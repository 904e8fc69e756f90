"""Prediction on the content platform: the present layout, and what changes must do."""

from dataclasses import replace

import content_platform
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow import catalog
from pgstow.model import Layout, Profile, Rate, UserError, Volume
from pgstow.prediction import (
    SEQUENTIAL_READ_BYTES,
    CacheSize,
    OpenLoad,
    predict,
    totals_by_volume,
    workload_of,
)
from pgstow.prediction.calibration import CommitTail, Neighbours
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

CATALOG = catalog.load()
PROFILE = content_platform.profile()
FAST = BytesPerSecond(500 * MIB)


def _with_data(**changes: object) -> Layout:
    volume = replace(PROFILE.layout.volumes[0], **changes)  # type: ignore[arg-type]
    return replace(PROFILE.layout, volumes=(volume,))


def test_present_layout_is_predicted_as_observed() -> None:
    found = predict(PROFILE, PROFILE.layout, CATALOG)
    assert found.performance.tps == pytest.approx(content_platform.TPS, rel=0.15)
    assert found.bottleneck == "volume data: iops"
    low, high = found.tps_interval
    assert low <= content_platform.TPS <= high


def test_price_is_the_catalogs() -> None:
    found = predict(PROFILE, PROFILE.layout, CATALOG)
    assert found.performance.usd_month == pytest.approx(20 * 0.08)
    assert found.volumes[0].usd_month == pytest.approx(20 * 0.08)


def test_more_iops_give_more_transactions_until_something_else_binds() -> None:
    tps = [
        predict(
            PROFILE,
            _with_data(size_bytes=Bytes(200 * GIB), iops=Iops(iops), throughput=FAST),
            CATALOG,
        )
        for iops in (3000, 6000, 12_000, 60_000)
    ]
    speeds = [one.performance.tps for one in tps]
    assert speeds == sorted(speeds)
    assert speeds[1] == pytest.approx(2 * speeds[0], rel=0.1)
    assert tps[-1].bottleneck in ("cpu", "host cap")


def test_wal_apart_shortens_commits() -> None:
    wal = Volume("wal", "gp3", Bytes(4 * GIB), "/mnt/wal")
    apart = replace(
        PROFILE.layout,
        volumes=(*PROFILE.layout.volumes, wal),
        postgres=replace(PROFILE.layout.postgres, wal="wal"),
    )
    before = predict(PROFILE, PROFILE.layout, CATALOG).performance.commit_ms
    after = predict(PROFILE, apart, CATALOG).performance.commit_ms
    assert before.p99 is not None
    assert after.p99 is not None
    assert after.p99 < before.p99 / 4


def test_a_commits_wait_behind_data_stays_with_the_data() -> None:
    """What a probe saw beyond the model is bursts of data writes; the WAL's own volume has none."""
    wal = Volume("wal", "gp3", Bytes(4 * GIB), "/mnt/wal")
    apart = replace(
        PROFILE.layout,
        volumes=(*PROFILE.layout.volumes, wal),
        postgres=replace(PROFILE.layout.postgres, wal="wal"),
    )
    measured = replace(PROFILE, commit_ms=(5.0,) * 97 + (400.0,) * 3)

    def commit_p99_ms(profile: Profile, layout: Layout) -> float:
        found = predict(profile, layout, CATALOG).performance.commit_ms.p99
        assert found is not None
        return found

    assert commit_p99_ms(measured, measured.layout) == pytest.approx(400, rel=0.1)
    assert commit_p99_ms(measured, apart) == pytest.approx(commit_p99_ms(PROFILE, apart))
    assert commit_p99_ms(measured, _with_data(iops=Iops(16_000))) < 200


@given(
    st.floats(-10, 500), st.floats(0, 1), st.floats(0, 1), st.floats(1e6, 1e9), st.floats(1e6, 1e9)
)
def test_the_excess_of_commits_follows_its_cause(
    excess_ms: float, seen: float, share: float, rate: float, other: float
) -> None:
    tail = CommitTail(excess_ms, Neighbours(seen, rate))
    assert tail.on(Neighbours(seen, rate)) == pytest.approx(excess_ms)
    if excess_ms > 0 and seen >= 0.05:
        assert tail.on(Neighbours(0.0, other)) == 0
        assert tail.on(Neighbours(share, 2 * other)) == pytest.approx(
            tail.on(Neighbours(share, other)) / 2
        )
    else:
        assert tail.on(Neighbours(share, other)) == excess_ms


def test_physical_reads_are_what_the_device_saw() -> None:
    work = workload_of(PROFILE)
    device = PROFILE.host.devices[0] if PROFILE.host else None
    assert device is not None
    assert work.reads * work.transactions_per_second == pytest.approx(device.reads.mean)


def test_unseen_host_widens_the_interval_and_says_so() -> None:
    blind = predict(replace(PROFILE, host=None), PROFILE.layout, CATALOG)
    seen = predict(PROFILE, PROFILE.layout, CATALOG)
    assert [w.code for w in blind.warnings].count("logical-reads") == 1

    def width(interval: tuple[float, float]) -> float:
        return (interval[1] - interval[0]) / (interval[1] + interval[0])

    assert width(blind.tps_interval) > width(seen.tps_interval)


def test_nothing_ran_is_the_users_to_mend() -> None:
    idle = replace(PROFILE, activity=replace(PROFILE.activity, transactions=Rate(0.0)))
    with pytest.raises(UserError, match="saw no transactions"):
        predict(idle, PROFILE.layout, CATALOG)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 10))
def test_demands_per_transaction_do_not_depend_on_speed(factor: float) -> None:
    slow = workload_of(PROFILE)
    fast = workload_of(content_platform.profile(tps=content_platform.TPS * factor))
    assert fast.reads == pytest.approx(slow.reads, rel=1e-6)
    assert fast.write_fraction == pytest.approx(slow.write_fraction)


def test_totals_do_not_depend_on_placement() -> None:
    work = workload_of(PROFILE)
    relations = {relation.id: relation for relation in PROFILE.server.relations}
    totals = totals_by_volume(work, PROFILE.layout, relations)
    assert sum(t.reads for t in totals.values()) == pytest.approx(work.reads)


def test_a_backup_on_the_volume_slows_the_clients_down() -> None:
    alone = predict(PROFILE, PROFILE.layout, CATALOG)
    name = PROFILE.layout.volumes[0].name
    backup = OpenLoad(name, per_second=400.0)
    beside = predict(PROFILE, PROFILE.layout, CATALOG, open_loads=[backup])
    assert beside.performance.tps < 0.95 * alone.performance.tps


def test_a_load_on_no_volume_is_refused() -> None:
    with pytest.raises(UserError, match="no volume elsewhere"):
        predict(PROFILE, PROFILE.layout, CATALOG, open_loads=[OpenLoad("elsewhere", 1.0)])


def test_more_memory_reads_less_and_less_memory_more() -> None:
    present = sum(one.size_bytes for one in PROFILE.server.relations) // 8

    def tps(factor: float) -> float:
        size = CacheSize(present, round(factor * present))
        return predict(PROFILE, PROFILE.layout, CATALOG, cache=size).performance.tps

    assert tps(0.5) < tps(1) < tps(2)
    assert tps(1) == pytest.approx(predict(PROFILE, PROFILE.layout, CATALOG).performance.tps)


def test_the_present_p99_is_met_and_carries_over() -> None:
    plain = predict(PROFILE, PROFILE.layout, CATALOG).performance.latency_ms.p99
    assert plain is not None
    measured = replace(PROFILE, client_p99_ms=3 * plain)
    found = predict(measured, PROFILE.layout, CATALOG)
    assert found.performance.latency_ms.p99 == pytest.approx(3 * plain, rel=0.1)
    assert found.p99_interval is not None
    low, high = found.p99_interval
    assert low < 3 * plain < high


def test_flushes_are_not_writes_of_data() -> None:
    assert PROFILE.host is not None
    device = PROFILE.host.devices[0]
    more = replace(
        device, writes=Rate(device.writes.mean + 500, None, 3), flushes=Rate(500, None, 3)
    )
    host = replace(PROFILE.host, devices=(more, *PROFILE.host.devices[1:]))
    flushed = workload_of(replace(PROFILE, host=host))
    plain = workload_of(PROFILE)
    assert sum(w.writes for w in flushed.relations) == pytest.approx(
        sum(w.writes for w in plain.relations)
    )


def test_large_reads_that_no_scan_explains_were_read_ahead() -> None:
    assert PROFILE.host is not None
    device = PROFILE.host.devices[0]
    large = replace(device, read_bytes=Rate(device.reads.mean * 100_000, None, 3))
    host = replace(PROFILE.host, devices=(large, *PROFILE.host.devices[1:]))
    found = workload_of(replace(PROFILE, host=host))
    reads = sum(w.reads for w in found.relations) * found.read_bytes
    reads += sum(w.sequential_reads for w in found.relations) * SEQUENTIAL_READ_BYTES
    assert reads * found.transactions_per_second == pytest.approx(large.read_bytes.mean, rel=0.01)
