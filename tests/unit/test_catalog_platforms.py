"""Storage of RDS, Google Cloud and Azure: limits, the provider's own stripes, prices, refusals."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.catalog import Catalog, load
from pgstow.model import HostSpec, Layout, LayoutError, Placement, Volume
from pgstow.units import GIB, MIB, TIB, Bytes, BytesPerSecond, Iops

RDS = HostSpec("rds", "us-east-1", "db.r6i.2xlarge")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


def volume(
    kind: str,
    gib: float = 500,
    iops: float | None = None,
    mibps: float | None = None,
    name: str = "data",
    stripes: int = 1,
) -> Volume:
    return Volume(
        name=name,
        type=kind,
        size_bytes=Bytes(round(gib * GIB)),
        mount=f"/{name}",
        iops=None if iops is None else Iops(iops),
        throughput=None if mibps is None else BytesPerSecond(mibps * MIB),
        stripes=stripes,
    )


def alone(one: Volume, host: HostSpec = RDS) -> Layout:
    return Layout(host, (one,), Placement(one.name, one.name))


@pytest.mark.parametrize(
    ("one", "members", "iops", "mibps"),
    [
        (volume("rds-gp3", 399), 1, 3000, 125),
        (volume("rds-gp3", 400), 4, 12000, 500),
        (volume("rds-gp3", 1000, 20000, 1000), 4, 20000, 1000),
        (volume("rds-gp2", 399), 1, 1197, 250),
        (volume("rds-gp2", 400), 4, 1200, 512),
        (volume("rds-gp2", 1336), 4, 4008, 1000),
        (volume("rds-gp2", 64 * 1024), 4, 64000, 1000),
        (volume("rds-io1", 5120, 256000), 4, 256000, 4000),
        (volume("rds-io2", 399, 256000), 1, 256000, 4000),
        (volume("rds-io2", 400, 12000), 4, 12000, 3072),
        (volume("rds-io2", 5120, 256000), 4, 256000, 16000),
        (volume("rds-dlv", 1024), 1, 3000, 500),
    ],
)
def test_rds_stripes_from_400_gib(
    catalog: Catalog, one: Volume, members: int, iops: float, mibps: float
) -> None:
    device = catalog.device(one, RDS)
    assert (device.stripes, device.iops) == (members, iops)
    assert device.bytes_per_second == pytest.approx(mibps * MIB)
    assert device.size_bytes == one.size_bytes


def test_rds_gp2_bursts_with_every_member(catalog: Catalog) -> None:
    one = volume("rds-gp2", 400)
    burst = catalog.device(one, RDS).member.burst
    assert burst is not None
    assert burst.burst_rate * catalog.device(one, RDS).stripes == 12000
    assert catalog.burst_seconds(one) == pytest.approx(5_400_000 / (3000 - 300))


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (volume("rds-gp3", 399, 4000), "iops: cannot be set for rds-gp3 of less than 400GiB"),
        (volume("rds-gp3", 100, None, 200), "throughput: cannot be set for rds-gp3 of less than"),
        (volume("rds-gp3", 500, 8000), "8,000 is under rds-gp3's least, 12,000"),
        (volume("rds-gp3", 5000, 70000), "70,000 is over rds-gp3's most, 64,000"),
        (volume("rds-gp3", 500, None, 250), "250MiB/s is under rds-gp3's least, 500MiB/s"),
        (volume("rds-io1", 100, 6000), "over rds-io1's 50 IOPS per GiB × 100 GiB = 5,000"),
        (volume("rds-io2", 100), "iops: none are given"),
        (volume("rds-io2", 5120, 256001), "256,001 is over rds-io2's most, 256,000"),
        (volume("rds-io2", 10000, 4999), "4,999 is under rds-io2's 0.5 IOPS per GiB × 10,000"),
        (volume("rds-io1", 10000, 4999), "4,999 is under rds-io1's 0.5 IOPS per GiB × 10,000"),
        (volume("rds-gp3", 10), "10GiB is under rds-gp3's least, 20GiB"),
        (volume("rds-gp3", 500, stripes=2), "stripes: RDS stripes by itself"),
        (volume("gp3"), "gp3 is no volume type of platform rds; use one of: rds-gp2, rds-gp3"),
        (volume("rds-dlv", 1024), "rds-dlv holds the WAL alone, not the data directory"),
    ],
)
def test_what_rds_does_not_sell(catalog: Catalog, one: Volume, says: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        catalog.check(alone(one))
    assert says in str(refusal.value)


def test_a_dedicated_log_volume_goes_with_provisioned_iops_only(catalog: Catalog) -> None:
    log = volume("rds-dlv", 1024, name="wal")
    for kind in ("rds-io1", "rds-io2"):
        layout = Layout(RDS, (volume(kind, 500, 5000), log), Placement("data", "wal"))
        catalog.check(layout)
        usd = 500 * 0.125 + 5000 * 0.10 + 1024 * 0.125 + 3000 * 0.10
        assert catalog.layout_price(layout).usd_month == pytest.approx(usd)
    price = catalog.volume_type("rds-dlv").price_in("us-east-1")
    assert price is not None
    assert (price.provenance.origin, price.provenance.source[:7]) == ("assumed", "derived")
    with pytest.raises(LayoutError, match="goes with rds-io1 or rds-io2 only"):
        catalog.check(Layout(RDS, (volume("rds-gp3"), log), Placement("data", "wal")))
    for gib in (1023, 1025):
        small = volume("rds-dlv", gib, name="wal")
        with pytest.raises(LayoutError, match="rds-dlv's"):
            catalog.check(
                Layout(RDS, (volume("rds-io2", 500, 5000), small), Placement("data", "wal"))
            )


def test_rds_has_one_volume_of_data(catalog: Catalog) -> None:
    volumes = (volume("rds-gp3"), volume("rds-gp3", name="wal"))
    with pytest.raises(LayoutError, match="RDS for PostgreSQL has one volume"):
        catalog.check(Layout(RDS, volumes, Placement("data", "wal")))


def test_rds_prices_are_for_what_is_over_the_members(catalog: Catalog) -> None:
    price = catalog.price(volume("rds-gp3", 500, 15000), RDS)
    assert price.usd_month == pytest.approx(57.5 + 3000 * 0.02)
    assert price.lines[1][0] == "3,000 IOPS over 12,000 × $0.02"
    assert catalog.price(volume("rds-gp3", 500), RDS).usd_month == pytest.approx(57.5)
    fast = catalog.price(volume("rds-gp3", 500, 15000, 1000), RDS)
    assert fast.usd_month == pytest.approx(57.5 + 3000 * 0.02 + 500 * 0.08)
    for kind in ("rds-io1", "rds-io2"):  # no tiers
        assert catalog.price(volume(kind, 500, 5000), RDS).usd_month == pytest.approx(562.5)
    large = catalog.price(volume("rds-io2", 500, 70000), RDS).usd_month
    assert large == pytest.approx(62.5 + 7000)
    assert catalog.price(volume("rds-gp3"), HostSpec("ec2", "us-east-1")).usd_month is None


def test_an_rds_instance_has_the_caps_of_its_ec2_type(catalog: Catalog) -> None:
    assert catalog.host_cap(RDS).iops == 12000
    assert catalog.cores(RDS) == 8
    with pytest.raises(LayoutError, match="no instance type 'zz9'"):
        catalog.check(alone(volume("rds-gp3"), HostSpec("rds", "us-east-1", "db.zz9")))


@given(gib=st.integers(400, 65536), iops=st.integers(12000, 64000))
def test_the_members_of_a_stripe_are_the_whole(gib: int, iops: int) -> None:
    catalog, one = load(), volume("rds-gp3", gib, iops)
    device = catalog.device(one, RDS)
    assert device.iops == pytest.approx(iops)
    assert device.size_bytes == gib * GIB
    assert device.member.iops == pytest.approx(iops / 4)


# Google Cloud and Azure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "iops", "mibps"),
    [
        (volume("pd-balanced", 1000), 9000, 420),
        (volume("pd-ssd", 100), 9000, 288),
        (volume("pd-ssd", 10000), 100000, 1200),
        (volume("pd-standard", 1000), 750, 120),
        (volume("hyperdisk-balanced"), 3000, 140),
        (volume("hyperdisk-balanced", 500, 100000, 2400), 100000, 2400),
        (volume("hyperdisk-extreme", 500, 10000), 10000, 2500),
        (volume("hyperdisk-extreme", 500, 350000), 350000, 5000),
        (volume("premium-ssd-v2"), 3000, 125e6 / MIB),
        (volume("ultra-disk", 512, 400000), 400000, 1e6 / MIB),
    ],
)
def test_limits_of_the_other_clouds(
    catalog: Catalog, one: Volume, iops: float, mibps: float
) -> None:
    device = catalog.device(one, RDS)
    assert device.iops == pytest.approx(iops)
    assert device.bytes_per_second == pytest.approx(mibps * MIB)


@pytest.mark.parametrize(
    ("platform", "one", "says"),
    [
        ("azure", volume("premium-ssd-v2", 100, 80000), "500 IOPS per GiB × 100 GiB = 50,000"),
        ("azure", volume("ultra-disk", 4, 5000), "1,000 IOPS per GiB × 4 GiB = 4,000"),
        ("gce", volume("hyperdisk-balanced", 500, 160001), "160,001 is over"),
        ("gce", volume("hyperdisk-balanced", 10, 6000), "500 IOPS per GiB × 10 GiB = 5,000"),
        ("gce", volume("hyperdisk-balanced", 500, 4000, 1001), "× 4,000 IOPS = 1000MiB/s"),
        ("azure", volume("premium-ssd-v2", 100, 4000, 200), "no whole number of MB/s"),
        ("gce", volume("hyperdisk-extreme", 100, 120001), "1,200 IOPS per GiB"),
        ("gce", volume("gp3"), "gp3 is no volume type of platform gce"),
    ],
)
def test_what_the_other_clouds_do_not_sell(
    catalog: Catalog, platform: str, one: Volume, says: str
) -> None:
    host = HostSpec("gce" if platform == "gce" else "azure", "a-region", "a-machine")
    with pytest.raises(LayoutError) as refusal:
        catalog.check(alone(one, host))
    assert says in str(refusal.value)


def test_prices_of_the_other_clouds_are_known_or_unknown(catalog: Catalog) -> None:
    iowa, east = HostSpec("gce", "us-central1"), HostSpec("azure", "eastus")
    nowhere = HostSpec("azure", "northeurope")
    assert catalog.price(volume("pd-ssd"), iowa).usd_month == pytest.approx(85)
    balanced = volume("hyperdisk-balanced", 500, 5000, 240)
    assert catalog.price(balanced, iowa).usd_month == pytest.approx(40 + 10 + 4)
    extreme = volume("hyperdisk-extreme", 500, 10000)
    assert catalog.price(extreme, iowa).usd_month == pytest.approx(62.5 + 320)
    assert catalog.price(volume("premium-ssd-v2", 100), east).usd_month == pytest.approx(8.03)
    ultra = replace(volume("ultra-disk", 100, 1000), throughput=BytesPerSecond(10e6))
    usd = 100 * 0.11972 + 1000 * 0.04964 + 10 * 0.34967  # nothing is free
    assert catalog.price(ultra, east).usd_month == pytest.approx(usd)
    assert "10 MB/s × $0.34967" in [text for text, _ in catalog.price(ultra, east).lines]
    assert catalog.price(volume("ultra-disk", 100, 1000), nowhere).usd_month is None
    assert "catalog-stale" not in [w.code for w in catalog.check(alone(volume("pd-ssd"), iowa))]


def test_sizes_of_azure_reach_64_tib(catalog: Catalog) -> None:
    assert catalog.volume_type("ultra-disk").max_size_bytes == 64 * TIB
    assert catalog.volume_type("premium-ssd-v2").max_throughput == 2000e6  # 1,200 until 2026


# where a write's time goes ------------------------------------------------------------------


@pytest.mark.parametrize("name", list(load().volume_types))
def test_the_parts_of_a_write_can_add_up_to_its_median(catalog: Catalog, name: str) -> None:
    found = catalog.anatomy(name)
    assert all(0 <= part.us_min <= part.us_max for part in found.parts)
    low = sum(part.us_min for part in found.parts)
    high = sum(part.us_max for part in found.parts)
    assert low <= found.write_us_p50 * 1.001
    assert found.write_us_p50 <= high * 1.001
    assert all(part.provenance.source and part.provenance.date for part in found.parts)


def test_the_network_is_no_more_than_the_fastest_type_leaves_for_it(catalog: Catalog) -> None:
    def part(name: str, where: str) -> tuple[float, float]:
        (found,) = [one for one in catalog.anatomy(name).parts if one.where == where]
        return found.us_min, found.us_max

    assert part("io2", "network") == (0, 450 - 51)
    assert part("gp3", "network") == (0, 450 - 51)
    copies = [one for one in catalog.anatomy("gp3").parts if "copies" in one.what]
    assert [(one.us_min, one.us_max) for one in copies] == [(1350, 1749)]


def test_a_hard_disks_arm_and_platter_are_parts(catalog: Catalog) -> None:
    parts = {part.what: part.us_max for part in catalog.anatomy("local-hdd").parts}
    assert parts["seek: mean"] == 7400
    assert parts["rotation: half a revolution"] == pytest.approx(4166.5)
    assert "seek: mean" not in [p.what for p in catalog.anatomy("local-nvme").parts]
