"""The mean-value estimate: limits, laws, and agreement with the simulator."""

from dataclasses import replace

import content_platform
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mean_values import Estimate, estimate

from pgstow import catalog
from pgstow.model import HostSpec, Layout, Relation, RelationId, Volume
from pgstow.prediction import Workload, predict, workload_of
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

CATALOG = catalog.load()
PROFILE = content_platform.profile()
WORK = workload_of(PROFILE)
RELATIONS: dict[RelationId, Relation] = {one.id: one for one in PROFILE.server.relations}


def on(layout: Layout, work: Workload = WORK, *, is_bursting: bool = True) -> Estimate:
    return estimate(work, layout, RELATIONS, CATALOG, is_bursting=is_bursting)


def with_data(**changes: object) -> Layout:
    volume = replace(PROFILE.layout.volumes[0], **changes)  # type: ignore[arg-type]
    return replace(PROFILE.layout, volumes=(volume,))


def gp3(iops: float, stripes: int = 1) -> Layout:
    return with_data(
        size_bytes=Bytes(400 * GIB),
        iops=Iops(iops),
        throughput=BytesPerSecond(700 * MIB),
        stripes=stripes,
    )


@given(st.floats(3000, 30_000), st.floats(1.01, 4), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_more_iops_are_never_slower(iops: float, factor: float, stripes: int) -> None:
    few, many = on(gp3(iops, stripes)), on(gp3(iops * factor, stripes))
    assert many.tps >= few.tps * (1 - 1e-6)


@given(st.integers(1, 300), st.floats(3000, 30_000))
@settings(max_examples=25, deadline=None)
def test_no_limit_is_exceeded_and_littles_law_holds(clients: int, iops: float) -> None:
    work = replace(WORK, clients=clients)
    found = on(gp3(iops), work)
    assert all(used <= 1 + 1e-3 for _, used in found.utilisations)
    response_s = found.response_ms / 1e3
    assert found.tps * (response_s + work.think_us / 1e6) == pytest.approx(clients, rel=1e-6)
    assert 0 <= found.flushes_per_s <= found.tps * work.write_fraction * (1 + 1e-9)


@pytest.mark.parametrize("iops", [3000.0, 6000.0, 20_000.0])
def test_the_simulator_agrees(iops: float) -> None:
    layout = gp3(iops)
    simulated = predict(PROFILE, layout, CATALOG).performance.tps
    assert on(layout).tps == pytest.approx(simulated, rel=0.12)


def test_a_full_volume_is_named() -> None:
    assert on(gp3(3000)).binding == f"{PROFILE.layout.volumes[0].name}: iops"


def test_an_instances_cap_binds_where_volumes_do_not() -> None:
    large = replace(gp3(16_000), host=HostSpec("ec2", "us-east-1", "r6i.16xlarge"))
    small = replace(gp3(16_000), host=HostSpec("ec2", "us-east-1", "r6i.large"))
    assert on(small).binding == "host: iops"
    assert on(small).tps < on(large).tps


def test_credits_that_are_spent_leave_the_baseline() -> None:
    volume = Volume("data", "gp2", Bytes(100 * GIB), "/mnt/data")
    layout = replace(PROFILE.layout, volumes=(volume,))
    bursting, spent = on(layout), on(layout, is_bursting=False)
    assert bursting.tps / spent.tps == pytest.approx(10, rel=0.3)  # 3,000 IOPS for 300


def test_a_disk_serves_one_request_after_the_other() -> None:
    volume = Volume("data", "local-hdd", Bytes(500 * GIB), "/mnt/data")
    layout = replace(PROFILE.layout, host=HostSpec("local"), volumes=(volume,))
    found = on(layout)
    assert found.binding == "data: arm"
    assert found.tps < on(gp3(3000)).tps / 10


def test_an_instances_own_disk_reads_and_writes_at_its_own_figures() -> None:
    disk = Volume("data", "instance-store", Bytes(50 * GIB), "/mnt/data")
    host = HostSpec("ec2", "us-east-1", "m6gd.medium")  # 13,438 reads, or 5,625 writes
    layout = replace(PROFILE.layout, host=host, volumes=(disk,))
    simulated = predict(PROFILE, layout, CATALOG)
    (load,) = simulated.volumes
    assert load.iops_limit == 13_438
    writes = load.writes * 13_438 / 5_625
    assert load.utilisation == pytest.approx((load.reads + writes) / 13_438, rel=0.05)
    found = on(layout, replace(WORK, cores=1))
    assert dict(found.utilisations)["data: iops"] == pytest.approx(load.utilisation, rel=0.12)


def test_an_instances_own_disk_asks_nothing_of_its_storage_cap() -> None:
    disk = Volume("data", "instance-store", Bytes(50 * GIB), "/mnt/data")
    host = HostSpec("ec2", "us-east-1", "i3en.large")
    found = predict(PROFILE, replace(PROFILE.layout, host=host, volumes=(disk,)), CATALOG)
    assert found.host_utilisation == 0
