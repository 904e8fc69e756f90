"""What is left of a volume on an instance: the least limit, and which one it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.catalog import EffectiveLimits, Limit, load
from pgstow.catalog.effective import effective_limits
from pgstow.model import Burst, Device, HostCap, HostSpec, Latency, Member, Volume
from pgstow.units import GIB, MIB, TIB, Bytes, BytesPerSecond, Iops


def on(instance: str, kind: str, size_gib: float, **given_: float) -> EffectiveLimits:
    catalog = load()
    volume = Volume(
        name="data",
        type=kind,
        size_bytes=Bytes(round(size_gib * GIB)),
        mount="/data",
        iops=Iops(given_["iops"]) if "iops" in given_ else None,
        throughput=BytesPerSecond(given_["mibps"] * MIB) if "mibps" in given_ else None,
        stripes=int(given_.get("stripes", 1)),
    )
    return catalog.effective_limits(volume, HostSpec("ec2", "us-east-1", instance))


def test_an_instance_binds_before_the_volume() -> None:
    found = on("r6i.2xlarge", "gp3", 500, iops=16000, mibps=1000)
    assert found.sustained_iops == Limit(12000, "instance baseline")
    assert found.sustained_bytes_per_second == Limit(312.5e6, "instance baseline")
    assert found.burst_iops == Limit(16000, "volume")
    assert found.burst_bytes_per_second == Limit(1000 * MIB, "volume")
    assert found.burst_seconds == 1800


def test_a_volume_binds_before_a_large_instance() -> None:
    found = on("r6i.8xlarge", "gp3", 500, iops=6000, mibps=250)
    assert found.sustained_iops == found.burst_iops == Limit(6000, "volume")
    assert found.sustained_bytes_per_second == Limit(250 * MIB, "volume")
    assert found.burst_seconds is None


def test_the_instances_own_burst_binds() -> None:
    found = on("m5.large", "io2", 1000, iops=64000)
    assert found.sustained_iops == Limit(3600, "instance baseline")
    assert found.burst_iops == Limit(18750, "instance burst")
    assert found.burst_bytes_per_second == Limit(593.75e6, "instance burst")


def test_a_volumes_burst_lasts_as_long_as_its_credits() -> None:
    found = on("r6i.8xlarge", "gp2", 100)
    assert found.sustained_iops == Limit(300, "volume")
    assert found.burst_iops == Limit(3000, "volume burst")
    assert found.burst_seconds == pytest.approx(2000)
    st1 = on("r6i.8xlarge", "st1", 1024)
    assert st1.burst_bytes_per_second == Limit(250 * MIB, "volume burst")
    assert st1.burst_seconds == pytest.approx(TIB / (210 * MIB))


def test_credits_last_longer_where_the_instance_is_slower() -> None:
    striped = on("t3.large", "gp2", 100, stripes=8)  # 2,400 IOPS, to 24,000; t3.large: 15,700
    assert striped.burst_iops == Limit(15700, "instance burst")
    assert striped.burst_seconds == 1800
    no_host_burst = effective_limits(device(300, 3000), HostCap(1000, None))
    assert no_host_burst.burst_iops == Limit(1000, "instance baseline")
    assert no_host_burst.burst_seconds == pytest.approx(5_400_000 / 700)


def test_the_machines_own_disks_are_not_under_its_cap() -> None:
    assert on("i3en.large", "instance-store", 100).sustained_iops == Limit(42500, "volume")


def test_what_has_no_limit_says_so() -> None:
    assert on("i3en.large", "instance-store", 100).sustained_bytes_per_second == Limit(
        None, "nothing"
    )


def device(iops: float, burst: float, stripes: int = 1) -> Device:
    latency = Latency(1.0, 1.0, 1.0, 1.0)
    credits = Burst("iops", capacity=5_400_000, refill_per_s=iops, burst_rate=burst)
    member = Member(iops, None, 262144, latency, burst=credits)
    return Device("data", Bytes(GIB), stripes, Bytes(65536), member)


@given(
    own=st.floats(100, 1e5),
    more=st.floats(1.01, 50),
    baseline=st.floats(100, 1e6),
    host_more=st.floats(1, 50),
    stripes=st.integers(1, 16),
)
def test_no_limit_exceeds_any_of_its_parts(
    own: float, more: float, baseline: float, host_more: float, stripes: int
) -> None:
    cap = HostCap(baseline, None, burst_iops=baseline * host_more)
    found = effective_limits(device(own, own * more, stripes), cap)
    low, high = found.sustained_iops.value, found.burst_iops.value
    assert low is not None and high is not None
    assert low == min(own * stripes, baseline)
    assert low <= high == min(own * more * stripes, baseline * host_more)
    assert (found.burst_seconds is not None) == (high > low)
