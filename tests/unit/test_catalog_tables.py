"""Instances and prices as tables of text, and how old they are."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.catalog import Catalog, Instance, InstancePrice, load
from pgstow.catalog.staleness import latest_day
from pgstow.catalog.tables import (
    format_instance_prices,
    format_instances,
    read_instance_prices,
    read_instances,
)
from pgstow.model import HostSpec, Layout, Placement, Provenance, Volume
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond

FACTS = Provenance("documented", "a test", "2026-11-20")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    rate = st.none() | st.integers(1, 10**8).map(lambda n: BytesPerSecond(n * 1e3))
    iops = st.none() | st.integers(1, 10**6).map(float)
    disks = draw(st.integers(0, 24))
    size = draw(st.sampled_from(["nano", "large", "2xlarge", "16xlarge", "metal-24xl"]))
    return Instance(
        name=f"{draw(st.from_regex(r'[a-z]{1,4}[0-9][a-z]{0,3}', fullmatch=True))}.{size}",
        vcpus=draw(st.integers(1, 1920)),
        memory_bytes=Bytes(draw(st.integers(512, 10**8)) * MIB),
        baseline_iops=draw(iops),
        max_iops=draw(iops),
        baseline_bytes_per_second=draw(rate),
        max_bytes_per_second=draw(rate),
        max_attachments=draw(st.none() | st.integers(1, 128)),
        disks=disks,
        disk_bytes=Bytes(draw(st.integers(1, 10**5)) * 10**9) if disks else None,
        disk_kind=draw(st.sampled_from(["nvme", "ssd", "hdd"])) if disks else None,
        provenance=FACTS,
        is_nitro=draw(st.sampled_from([True, False, None])),
    )


@given(st.lists(instances(), min_size=1, unique_by=lambda one: one.name))
def test_what_is_written_is_read_back(written: list[Instance]) -> None:
    found = read_instances(format_instances(written, FACTS), "a.csv")
    assert dict(found) == {one.name: one for one in written}


@given(
    st.dictionaries(
        st.sampled_from(["us-east-1", "eu-west-1", "sa-east-1"]),
        st.dictionaries(
            st.sampled_from(["m5.large", "m5.2xlarge", "t3.nano", "r6i.metal"]),
            st.integers(1, 10**6).map(lambda n: InstancePrice(n / 10**4, FACTS)),
            min_size=1,
        ),
        min_size=1,
    )
)
def test_prices_that_are_written_are_read_back(
    written: dict[str, dict[str, InstancePrice]],
) -> None:
    found = read_instance_prices(format_instance_prices(written), "a.csv")
    assert {region: dict(rows) for region, rows in found.items()} == written


def test_all_that_describe_instance_types_knows_is_there(catalog: Catalog) -> None:
    assert len(catalog.instances) == 1395
    assert {"r8gb.xlarge", "i7ie.large", "m1.small", "u7in-32tb.224xlarge"} <= set(
        catalog.instances
    )
    for name in catalog.instances:
        one = catalog.instance(name)
        assert one.name == name
        assert one.vcpus >= 1 and one.memory_bytes >= 512 * MIB
        assert (one.disks > 0) == (one.disk_bytes is not None) == (one.disk_kind is not None)
        if one.baseline_iops is not None and one.max_iops is not None:
            assert 0 < one.baseline_iops <= one.max_iops


def test_sizes_stand_in_order(catalog: Catalog) -> None:
    r6i = [name for name in catalog.instances if name.startswith("r6i.")]
    assert r6i[:4] == ["r6i.large", "r6i.xlarge", "r6i.2xlarge", "r6i.4xlarge"]


def test_what_is_not_known_of_an_old_instance_is_none(catalog: Catalog) -> None:
    old = catalog.instance("m1.small")
    assert (old.baseline_iops, old.max_bytes_per_second, old.disk_kind) == (None, None, "hdd")
    assert catalog.host_cap(HostSpec("ec2", "us-east-1", "m1.small")).iops is None


@pytest.mark.parametrize(
    ("name", "usd_hour"),  # on which three price tables of other origin agree
    [("r6i.2xlarge", 0.504), ("m5.large", 0.096), ("c6g.xlarge", 0.136), ("r6g.4xlarge", 0.8064)],
)
def test_instance_prices(catalog: Catalog, name: str, usd_hour: float) -> None:
    price = catalog.instance_price(name, "us-east-1")
    assert price is not None
    assert price.usd_hour == usd_hour
    assert price.usd_month == pytest.approx(730 * usd_hour)
    assert catalog.instance_price(name, None) == price


def test_at_least_60_types_have_a_price_and_none_is_0(catalog: Catalog) -> None:
    prices = catalog.instance_prices["us-east-1"]
    assert len(prices) >= 60
    assert all(one.usd_hour > 0 for one in prices.values())
    assert set(prices) <= set(catalog.instances)
    assert catalog.instance_price("r6i.metal", "us-east-1") is None
    assert catalog.instance_price("r6i.large", "us-mars-1") is None


def test_hard_disks_of_an_instance_are_no_nvme(catalog: Catalog) -> None:
    volume = Volume("data", "instance-store", Bytes(100 * GIB), "/data")
    found = {
        name: [
            warning.code
            for warning in catalog.check(
                Layout(HostSpec("ec2", "us-east-1", name), (volume,), Placement("data", "data"))
            )
        ]
        for name in ("d3.xlarge", "i4i.xlarge")
    }
    assert "instance-store-hdd" in found["d3.xlarge"]
    assert "instance-store-hdd" not in found["i4i.xlarge"]


# age ----------------------------------------------------------------------------------------


def test_a_catalog_older_than_6_months_is_a_warning(catalog: Catalog) -> None:
    prices = date.fromisoformat(catalog.instance_prices["us-east-1"]["r6i.large"].provenance.date)
    assert catalog.stale_warnings(prices + timedelta(days=30), "ec2", "us-east-1") == ()
    (warning,) = catalog.stale_warnings(prices + timedelta(days=184), "ec2", "us-east-1")
    assert warning.code == "catalog-stale"
    assert f"instance prices in us-east-1 of {prices}" in warning.message
    assert warning.remedy == "pgstow catalog update --region us-east-1"
    (warning,) = catalog.stale_warnings(date(2028, 1, 1), "ec2", None)
    for what in ("volume prices in us-east-1", "instances of", "instance prices in us-east-1"):
        assert what in warning.message


def test_a_machine_of_ones_own_has_nothing_that_ages(catalog: Catalog) -> None:
    assert catalog.stale_warnings(date(2040, 1, 1), "local", None) == ()


@given(st.dates(date(2020, 1, 1), date(2090, 12, 31)))
def test_a_date_without_a_day_is_not_taken_for_older_than_it_is(day: date) -> None:
    assert latest_day(day.isoformat()) == day
    assert latest_day(f"{day:%Y-%m}") >= day
    assert latest_day(f"{day:%Y}") == date(day.year, 12, 31)


def test_disks_of_instances_do_what_aws_says(catalog: Catalog) -> None:
    """The instance types guide's own figures; of those it does not state there are none."""
    speeds = catalog.disk_speeds
    assert (speeds["i3en.xlarge"].read_iops, speeds["i3en.xlarge"].write_iops) == (85_000, 65_000)
    assert (speeds["i4i.32xlarge"].read_iops, speeds["m9gd.large"].write_iops) == (3.2e6, 21_802)
    assert "x1e.xlarge" not in speeds
    assert "second hand" in speeds["g5.xlarge"].provenance.source
    for name, one in speeds.items():
        instance = catalog.instance(name)
        assert instance.disks and instance.disk_kind == "nvme", name
        assert one.read_iops > one.write_iops > 1000, name
    host = HostSpec("ec2", "us-east-1", "i4i.8xlarge")
    assert catalog.disk_speed(host) == speeds["i4i.8xlarge"]
    assert catalog.rules("instance-store", host)[0].iops.included == 220_000  # writes of one
    assert catalog.disk_speed(HostSpec("ec2", "us-east-1", "r6i.large")) is None
    assert catalog.disk_speed(HostSpec("local")) is None


def test_which_instances_are_nitro_is_known(catalog: Catalog) -> None:
    every = {one.is_nitro for one in catalog.instances.values()}
    assert every == {True, False}
    assert catalog.instance("r6i.metal").is_nitro
    assert not catalog.instance("m4.16xlarge").is_nitro
