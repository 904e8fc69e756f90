"""Facts on which published sources disagree: the catalog follows the provider."""

import pytest

from pgstow.catalog import Catalog, load
from pgstow.model import HostSpec, Layout, LayoutError, Placement, Volume
from pgstow.units import GIB, MIB, TIB, Bytes, BytesPerSecond, Iops

EC2 = HostSpec("ec2", "us-east-1")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


def volume(kind: str, gib: float, iops: float | None = None, mibps: float | None = None) -> Volume:
    return Volume(
        name="data",
        type=kind,
        size_bytes=Bytes(round(gib * GIB)),
        mount="/data",
        iops=None if iops is None else Iops(iops),
        throughput=None if mibps is None else BytesPerSecond(mibps * MIB),
    )


def check(catalog: Catalog, one: Volume) -> None:
    catalog.check(Layout(EC2, (one,), Placement("data", "data")))


@pytest.mark.parametrize(
    ("iops", "usd_iops"),
    [
        (32000, 2080.0),
        (32001, 2080.0455),
        (64000, 3536.0),  # flat at the first tier it would be 4,160
        (100000, 3536.0 + 36000 * 0.03185),
    ],
)
def test_the_iops_of_io2_are_tiered(catalog: Catalog, iops: float, usd_iops: float) -> None:
    price = catalog.price(volume("io2", 1000, iops), EC2)
    assert price.usd_month == pytest.approx(125 + usd_iops)


def test_the_price_that_two_studies_quote_for_io2_is_wrong(catalog: Catalog) -> None:
    usd = catalog.price(volume("io2", 500, 64000), EC2).usd_month
    assert usd == pytest.approx(3598.50)
    assert usd not in (665.0, 1280.0)


def test_the_iops_of_io1_are_not_tiered(catalog: Catalog) -> None:
    price = catalog.price(volume("io1", 1280, 64000), EC2)
    assert price.usd_month == pytest.approx(160 + 64000 * 0.065)


def test_io1_of_500_gib_has_at_most_25000_iops(catalog: Catalog) -> None:
    check(catalog, volume("io1", 500, 25000))
    with pytest.raises(LayoutError, match=r"50 IOPS per GiB × 500 GiB = 25,000"):
        check(catalog, volume("io1", 500, 25001))


@pytest.mark.parametrize("gib", [1, 33, 500, 16384, 65536])
def test_gp3_has_no_burst_of_any_kind(catalog: Catalog, gib: float) -> None:
    one = volume("gp3", gib)
    assert catalog.device(one, EC2).member.burst is None
    assert catalog.device(one, EC2).bytes_per_second == 125 * MIB
    assert catalog.burst_seconds(one) is None


def test_gp3_reaches_what_it_does_since_2025_09(catalog: Catalog) -> None:
    check(catalog, volume("gp3", 64 * 1024, 80000, 2000))
    assert catalog.volume_type("gp3").max_size_bytes == 64 * TIB
    for wrong in (
        volume("gp3", 64 * 1024, 80001),
        volume("gp3", 64 * 1024, 80000, 2001),
        volume("gp3", 64 * 1024 + 1),
    ):
        with pytest.raises(LayoutError, match="gp3's most"):
            check(catalog, wrong)


def test_the_price_list_states_the_throughput_of_gp3_per_gib(catalog: Catalog) -> None:
    price = catalog.volume_type("gp3").price_in("us-east-1")
    assert price is not None
    assert price.usd_per_mibps == pytest.approx(40.96 / 1024)


def test_gp2_of_170_gib_has_128_mibps(catalog: Catalog) -> None:
    assert catalog.device(volume("gp2", 170), EC2).bytes_per_second == 128 * MIB  # not 160, nor 250
    assert catalog.device(volume("gp2", 16384), EC2).iops == 16000  # not the 10,000 of 2018


def test_cold_disks_cost_what_they_do_since_2020(catalog: Catalog) -> None:
    assert catalog.price(volume("sc1", 1000), EC2).usd_month == pytest.approx(15)  # not 25
