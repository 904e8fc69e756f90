"""Prediction on the content platform: the present layout, and what changes must do."""

from dataclasses import replace

import content_platform
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow import catalog
from pgstow.model import Layout, Rate, UserError, Volume
from pgstow.prediction import predict, totals_by_volume, workload_of
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
