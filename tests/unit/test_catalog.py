"""The catalog's figures, against what the providers publish."""

import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow import _native
from pgstow.catalog import Catalog, load
from pgstow.catalog.loading import catalog_of
from pgstow.model import HostSpec, Layout, Placement, UserError, Volume
from pgstow.units import GIB, MIB, TIB, Bytes, BytesPerSecond, Iops

EC2 = HostSpec("ec2", "us-east-1", "r6i.2xlarge")
RDS = ("rds-gp2", "rds-gp3", "rds-io1", "rds-io2", "rds-dlv")
EBS = ("gp2", "gp3", "io1", "io2", "st1", "sc1")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load()


def volume(
    kind: str = "gp3",
    size_gib: float = 500,
    iops: float | None = None,
    mibps: float | None = None,
    stripes: int = 1,
) -> Volume:
    return Volume(
        name="data",
        type=kind,
        size_bytes=Bytes(round(size_gib * GIB)),
        mount="/mnt/data",
        iops=None if iops is None else Iops(iops),
        throughput=None if mibps is None else BytesPerSecond(mibps * MIB),
        stripes=stripes,
    )


def test_every_type_of_the_design_is_there(catalog: Catalog) -> None:
    assert tuple(kind.name for kind in catalog.types("ec2")) == (*EBS, "instance-store")
    assert [kind.name for kind in catalog.types("local")] == [
        "local-hdd",
        "local-ssd",
        "local-nvme",
    ]
    assert tuple(kind.name for kind in catalog.types("rds")) == RDS
    assert {kind.name for kind in catalog.types("gce")} == {
        "pd-standard",
        "pd-balanced",
        "pd-ssd",
        "hyperdisk-balanced",
        "hyperdisk-extreme",
    }
    assert {kind.name for kind in catalog.types("azure")} == {"premium-ssd-v2", "ultra-disk"}


def test_every_fact_has_a_source_and_a_date(catalog: Catalog) -> None:
    facts = [
        fact
        for kind in catalog.volume_types.values()
        for fact in (*kind.facts.values(), *(price.provenance for price in kind.prices.values()))
    ]
    facts += [one.provenance for one in catalog.instances.values()]
    facts += [one.provenance for rows in catalog.instance_prices.values() for one in rows.values()]
    for fact in facts:
        assert len(fact.source) > 5
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", fact.date)
        assert fact.origin in ("documented", "assumed")


@pytest.mark.parametrize("name", EBS)
def test_every_ebs_type_has_prices_in_at_least_five_regions(catalog: Catalog, name: str) -> None:
    regions = set(catalog.volume_type(name).prices)
    assert {"us-east-1", "ap-northeast-1"} <= regions
    assert len(regions) >= 5


@pytest.mark.parametrize(
    "region",
    ["us-east-1", "us-west-1", "us-west-2", "eu-central-1", "ap-northeast-1", "ap-southeast-5"],
)
def test_all_of_gp3_has_a_price(catalog: Catalog, region: str) -> None:
    host = HostSpec("ec2", region)
    plain = catalog.price(volume(), host).usd_month
    more = catalog.price(volume(iops=6000, mibps=250), host).usd_month
    assert plain is not None and more is not None
    assert 0 < plain < more < 2 * plain


def test_what_has_no_price_in_a_region_makes_the_whole_unknown(catalog: Catalog) -> None:
    ohio = HostSpec("ec2", "us-east-2")  # no source was found for its throughput
    assert catalog.price(volume(iops=6000), ohio).usd_month == pytest.approx(40 + 15)
    one = volume(iops=6000, mibps=250)
    assert catalog.price(one, ohio).usd_month is None
    codes = [w.code for w in catalog.check(Layout(ohio, (one,), Placement("data", "data")))]
    assert codes == ["price-unknown"]
    assert catalog.price(volume("io2", iops=32000), ohio).usd_month is not None
    assert catalog.price(volume("io2", iops=32001), ohio).usd_month is None


@pytest.mark.parametrize(
    ("region", "tiers"),
    [
        ("eu-west-1", (0.072, 0.0504, 0.03528)),
        ("eu-central-1", (0.078, 0.0546, 0.03822)),
        ("eu-west-2", (0.076, 0.0532, 0.03724)),
    ],
)
def test_io2_is_priced_to_its_most_in_europe(
    catalog: Catalog, region: str, tiers: tuple[float, float, float]
) -> None:
    price = catalog.volume_type("io2").price_in(region)
    assert price is not None
    assert tuple(tier.usd for tier in price.iops_tiers) == tiers
    assert "second hand" in price.provenance.source
    found = catalog.price(volume("io2", iops=70000), HostSpec("ec2", region)).usd_month
    first, second, third = tiers
    usd = 500 * (price.usd_per_gib or 0) + 32000 * first + 32000 * second + 6000 * third
    assert found == pytest.approx(usd)


def test_a_fast_restore_and_backups_have_their_prices(catalog: Catalog) -> None:
    assert catalog.snapshot_prices["us-east-1"].fast_restore_usd_hour == 0.75
    backups = catalog.backup_prices["us-east-1"]
    assert backups.usd_per_gib == 0.095
    assert "second hand" in backups.provenance.source


@pytest.mark.parametrize("kind", ["st1", "sc1"])
def test_the_failure_rate_of_hard_disk_volumes_is_documented(catalog: Catalog, kind: str) -> None:
    one = catalog.volume_type(kind)
    assert one.annual_failure_rate == 0.002
    assert one.facts["durability"].origin == "documented"


@pytest.mark.parametrize(
    ("platform", "kind", "region"),
    [
        ("gce", "pd-ssd", "us-central1"),
        ("azure", "premium-ssd-v2", "eastus"),
        ("ec2", "gp3", "us-east-1"),
    ],
)
def test_without_a_region_a_platforms_own_stands(
    catalog: Catalog, platform: str, kind: str, region: str
) -> None:
    host = HostSpec(platform)  # type: ignore[arg-type]
    one = volume(kind)
    named = HostSpec(platform, region)  # type: ignore[arg-type]
    assert catalog.price(one, host) == catalog.price(one, named)
    assert catalog.price(one, host).usd_month is not None
    warned = catalog.check(Layout(host, (one,), Placement("data", "data")))
    assert [w.message for w in warned if w.code == "region-assumed"] == [
        f"the layout names no region: prices are {region}'s"
    ]


# prices -------------------------------------------------------------------------------------


def test_gp3_price_by_lines(catalog: Catalog) -> None:
    price = catalog.price(volume(iops=6000, mibps=250), EC2)
    assert price.usd_month == 60.00
    assert price.lines == (
        ("500 GiB × $0.08", 40.0),
        ("3,000 IOPS over 3,000 × $0.005", 15.0),
        ("125 MiB/s over 125 × $0.04", 5.0),
    )


@pytest.mark.parametrize(
    ("one", "usd"),
    [
        (volume("io2", iops=64000), 3598.50),  # tiers; not $665, $1,280 or untiered $4,222.50
        (volume("io1", 1280, iops=64000), 160 + 64000 * 0.065),  # flat
        (volume("io2", iops=100000), 3598.50 + 36000 * 0.03185),
        (volume("gp3", iops=64000, mibps=1000), 380.00),
        (volume("gp3"), 40.00),
        (volume("gp2"), 50.00),
        (volume("st1"), 22.50),
        (volume("sc1"), 7.50),
        (volume("gp3", 100, stripes=16), 128.00),
        (volume("gp3", iops=6000, mibps=250, stripes=2), 120.00),
    ],
)
def test_prices(catalog: Catalog, one: Volume, usd: float) -> None:
    price = catalog.price(one, EC2)
    assert price.usd_month == pytest.approx(usd, abs=0.005)
    assert sum(line for _, line in price.lines) == pytest.approx(usd, abs=0.005)


def test_tokyo_is_dearer(catalog: Catalog) -> None:
    tokyo = HostSpec("ec2", "ap-northeast-1")
    assert catalog.price(volume(iops=6000, mibps=250), tokyo).usd_month == 48 + 18 + 6
    assert catalog.price(volume("io2", iops=64000), tokyo).usd_month == pytest.approx(
        71 + 32000 * 0.074 + 32000 * 0.0518
    )


def test_unknown_prices_are_not_zero(catalog: Catalog) -> None:
    assert catalog.price(volume(), HostSpec("ec2", "af-south-1")).usd_month is None
    assert catalog.price(volume(), HostSpec("rds", "us-east-1")).usd_month is None
    assert catalog.price(volume("local-nvme"), HostSpec("local")).usd_month is None
    assert catalog.instance_price("r6i.2xlarge", "af-south-1") is None


def test_instance_store_comes_with_the_instance(catalog: Catalog) -> None:
    price = catalog.price(volume("instance-store"), EC2)
    assert price.usd_month == 0
    assert "included" in price.lines[0][0]


def test_layout_price_is_the_sum_or_unknown(catalog: Catalog) -> None:
    data = volume(iops=6000, mibps=250)
    wal = dataclasses.replace(volume("io2", 50, iops=4000), name="wal", mount="/mnt/wal")
    layout = Layout(EC2, (data, wal), Placement("data", "wal"))
    price = catalog.layout_price(layout)
    assert price.usd_month == pytest.approx(60 + 6.25 + 260)
    assert price.lines[0] == ("data: 500 GiB × $0.08", 40.0)
    elsewhere = dataclasses.replace(layout, host=HostSpec("ec2", "af-south-1"))
    assert catalog.layout_price(elsewhere).usd_month is None


@given(
    size=st.integers(64, 16384),
    iops=st.integers(100, 64000),
    more=st.integers(0, 30000),
    stripes=st.integers(1, 16),
)
def test_more_never_costs_less(size: int, iops: int, more: int, stripes: int) -> None:
    catalog = load()

    def usd(one: Volume) -> float:
        price = catalog.price(one, EC2).usd_month
        assert price is not None
        return price

    for kind in ("gp3", "io1", "io2"):
        less = usd(volume(kind, size, iops))
        assert usd(volume(kind, size, iops + more)) >= less > 0
        assert usd(volume(kind, size, iops, stripes=stripes)) == pytest.approx(
            stripes * less, abs=0.001
        )


# limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "iops", "mibps"),
    [
        (volume("gp3"), 3000, 125),
        (volume("gp3", iops=6000, mibps=250), 6000, 250),
        (volume("gp2", 10), 100, 128),
        (volume("gp2", 100), 300, 128),
        (volume("gp2", 170), 510, 128),
        (volume("gp2", 334), 1002, 250),
        (volume("gp2", 500), 1500, 250),
        (volume("gp2", 5334), 16000, 250),
        (volume("gp2", 16384), 16000, 250),
        (volume("io1", 1280, iops=1000), 1000, 250),
        (volume("io1", 1280, iops=32000), 32000, 500),
        (volume("io1", 1280, iops=64000), 64000, 1000),
        (volume("io2", 500, iops=1000), 1000, 256),
        (volume("io2", 500, iops=16000), 16000, 4000),
        (volume("io2", 500, iops=256000), 256000, 4000),
        (volume("st1", 1024), 500, 40),
        (volume("st1", 16384), 500, 500),
        (volume("sc1", 2048), 250, 24),
        (volume("sc1", 16384), 250, 192),
        (volume("local-nvme"), None, 2000e6 / MIB),
        (volume("local-nvme", iops=9000, mibps=77), 9000, 77),
    ],
)
def test_limits_of_a_member(
    catalog: Catalog, one: Volume, iops: float | None, mibps: float
) -> None:
    member = catalog.device(one, EC2).member
    assert member.iops == iops
    assert member.bytes_per_second == pytest.approx(mibps * MIB, rel=1e-6)


def test_gp3_limits_are_those_since_2025(catalog: Catalog) -> None:
    gp3 = catalog.volume_type("gp3")
    assert (gp3.included_iops, gp3.max_iops) == (3000, 80000)
    assert gp3.included_throughput == BytesPerSecond(125 * MIB)
    assert gp3.max_throughput == BytesPerSecond(2000 * MIB)
    assert gp3.max_size_bytes == 64 * TIB
    assert gp3.iops_per_gib_max == 500
    assert gp3.throughput_per_iops_max == 0.25 * MIB
    assert gp3.burst_rule is None  # no throughput burst, whatever some documents say
    assert gp3.provisioned_iops
    assert not catalog.volume_type("gp2").provisioned_iops


@pytest.mark.parametrize(
    ("one", "seconds"),
    [
        (volume("gp2", 100), 2000),
        (volume("gp2", 500), 3600),
        (volume("gp2", 750), 7200),
        (volume("gp2", 1000), None),
        (volume("gp3"), None),
        (volume("st1", 1024), 1024 * 1024 / (250 - 40)),
        (volume("st1", 12.5 * 1024), None),
        (volume("sc1", 1024), 1024 * 1024 / (80 - 12)),
    ],
)
def test_burst_seconds(catalog: Catalog, one: Volume, seconds: float | None) -> None:
    found = catalog.burst_seconds(one)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_durability(catalog: Catalog) -> None:
    rates = {name: catalog.volume_type(name).annual_failure_rate for name in EBS}
    assert rates["gp3"] == rates["gp2"] == rates["io1"] == 0.002
    assert rates["io2"] == 0.00001
    assert catalog.volume_type("instance-store").annual_failure_rate is None


# devices and hosts --------------------------------------------------------------------------


def test_device_of_gp2_has_its_credits(catalog: Catalog) -> None:
    device = catalog.device(volume("gp2", 500, stripes=2), EC2)
    assert (device.size_bytes, device.stripes, device.iops) == (1000 * GIB, 2, 3000)
    burst = device.member.burst
    assert burst is not None
    assert (burst.kind, burst.capacity) == ("iops", 5_400_000)
    assert (burst.refill_per_s, burst.burst_rate) == (1500, 3000)


@pytest.mark.parametrize(
    ("name", "is_serial"), [("st1", False), ("sc1", False), ("local-hdd", True)]
)
def test_device_of_a_disk_has_seeks(catalog: Catalog, name: str, is_serial: bool) -> None:
    kind, member = catalog.volume_type(name), catalog.device(volume(name, 1024), EC2).member
    assert member.mechanics is not None
    assert member.mechanics.is_serial == is_serial
    assert kind.random_read_us > 4 * member.latency.read_us_p50
    assert member.io_unit_bytes == MIB
    assert catalog.device(volume("gp3"), EC2).member.mechanics is None
    assert catalog.device(volume("gp3"), EC2).member.io_unit_bytes == 256 * 1024


def test_what_a_layout_says_of_a_disks_throughput_is_its_platters(catalog: Catalog) -> None:
    disk = dataclasses.replace(volume("local-hdd"), throughput=BytesPerSecond(200e6))
    mechanics = catalog.device(disk, EC2).member.mechanics
    assert mechanics is not None
    assert mechanics.bytes_per_second == 200e6


def test_devices_begin_as_the_layout_says(catalog: Catalog) -> None:
    gp2 = volume("gp2", 100)
    full = catalog.device(gp2, EC2).member
    assert full.burst is not None
    assert (full.burst.initial, full.restored) == (1.0, None)
    low = catalog.device(dataclasses.replace(gp2, burst_credits=0.25), EC2).member.burst
    assert low is not None
    assert low.initial == 0.25
    lazy = dataclasses.replace(gp2, from_snapshot=True)
    restored = catalog.device(lazy, EC2).member.restored
    assert restored is not None
    assert (restored.block_bytes, restored.background_bytes_per_second) == (512 * 1024, None)
    fast = dataclasses.replace(lazy, fast_snapshot_restore=True)
    assert catalog.device(fast, EC2).member.restored is None
    bought = dataclasses.replace(lazy, initialization_rate=BytesPerSecond(200 * MIB))
    restored = catalog.device(bought, EC2).member.restored
    assert restored is not None
    assert restored.bytes_per_second == restored.background_bytes_per_second == 200 * MIB


def test_a_host_bursts_only_where_its_layout_says_so(catalog: Catalog) -> None:
    assert catalog.host_cap(EC2).burst_initial is None
    assert catalog.host_cap(dataclasses.replace(EC2, burst_credits=1.0)).burst_initial == 1.0


def test_the_machines_own_disks_do_not_use_its_network_cap(catalog: Catalog) -> None:
    assert not catalog.device(volume("instance-store"), EC2).uses_host_cap
    assert catalog.device(volume("gp3"), EC2).uses_host_cap


def test_an_instances_own_disk_reads_and_writes_as_documented_for_it(catalog: Catalog) -> None:
    host = HostSpec("ec2", "us-east-1", "i3en.xlarge")
    speed, instance = catalog.disk_speed(host), catalog.host_instance(host)
    assert speed is not None
    assert instance is not None
    member = catalog.device(volume("instance-store"), host).member
    assert member.iops == speed.read_iops / instance.disks
    assert member.write_iops == speed.write_iops / instance.disks
    assert member.iops != member.write_iops
    said = catalog.device(volume("instance-store", iops=5000), host).member
    assert (said.iops, said.write_iops) == (5000, None)
    assert catalog.device(volume("gp3"), host) == catalog.device(volume("gp3"), EC2)


def test_only_disks_of_the_machine_show_a_volatile_cache(catalog: Catalog) -> None:
    types = catalog.volume_types.values()
    shown = {kind.name for kind in types if kind.has_volatile_cache}
    assert shown == {"local-hdd", "local-ssd", "local-nvme"}
    assert catalog.device(volume("local-ssd"), EC2).has_volatile_cache
    assert {kind.facts["volatile_cache"].origin for kind in types} == {"assumed"}


@pytest.mark.parametrize("name", list(load().volume_types))
def test_the_device_model_takes_every_type(catalog: Catalog, name: str) -> None:
    kind = catalog.volume_type(name)
    iops = 1000 if kind.provisioned_iops and kind.included_iops is None else None
    device = json.dumps(dataclasses.asdict(catalog.device(volume(name, 500, iops=iops), EC2)))
    cap = json.dumps(dataclasses.asdict(catalog.host_cap(EC2)))
    (done_ns,) = _native.trace(device, cap, [(0, "read", 100 * GIB, 8192)], 1)
    expected_us = catalog.volume_type(name).random_read_us
    assert expected_us / 4 < done_ns / 1000 < expected_us * 4


@pytest.mark.parametrize(
    ("instance", "iops", "mb_per_s"),
    [
        ("m5.large", (3600, 18750), (81.25, 593.75)),
        ("r6i.large", (3600, 40000), (81.25, 1250)),
        ("r6i.2xlarge", (12000, 40000), (312.5, 1250)),
        ("r6i.8xlarge", (40000, None), (1250, None)),
        ("r6i.32xlarge", (160000, None), (5000, None)),
        ("c6g.xlarge", (6000, 20000), None),
        ("m6idn.xlarge", (12500, 100000), None),
        ("r5b.24xlarge", (260000, None), (7500, None)),
        ("t3.large", (4000, 15700), (86.875, 347.5)),
        ("r8gb.xlarge", (30000, 120000), None),
    ],
)
def test_host_caps(
    catalog: Catalog,
    instance: str,
    iops: tuple[float, float | None],
    mb_per_s: tuple[float, float | None] | None,
) -> None:
    cap = catalog.host_cap(HostSpec("ec2", "us-east-1", instance))
    assert (cap.iops, cap.burst_iops) == iops
    if mb_per_s is not None:
        low, high = mb_per_s
        assert cap.bytes_per_second == pytest.approx(low * 1e6)
        assert cap.burst_bytes_per_second == (None if high is None else high * 1e6)


def test_a_host_without_an_instance_has_no_cap(catalog: Catalog) -> None:
    assert catalog.host_cap(HostSpec("local")).iops is None
    assert catalog.cores(HostSpec("local")) is None
    assert catalog.memory_bytes(HostSpec("local")) is None
    assert (catalog.cores(EC2), catalog.memory_bytes(EC2)) == (8, 64 * GIB)


def test_instance_store_disks(catalog: Catalog) -> None:
    assert catalog.instance("i3en.24xlarge").disks == 8
    assert catalog.instance("i3en.24xlarge").disk_bytes == 7500 * 10**9
    assert catalog.instance("r6i.large").disk_bytes is None


def test_unknown_names_get_close_matches(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="no volume type 'gp4'; did you mean gp"):
        catalog.volume_type("gp4")
    with pytest.raises(UserError, match=r"did you mean r6i\.2xlarge"):
        catalog.instance("r6i.2xlarg")


# the files ----------------------------------------------------------------------------------

_ROW = 'source = "a test"\ndate = "2026-11-20"\n'


def test_load_reads_once() -> None:
    assert load() is load()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[prices.us-east-1.gp9]\nusd_per_gib = 1.0\n" + _ROW, "does not have: gp9"),
        ("[prices.us-east-1.gp3]\nusd_per_gib = 1.0\n", "gp3.source: Field required"),
        ("[prices.us-east-1.gp3]\n" + _ROW.replace("2026-11-20", "lately"), "is not a date"),
        ("[colours]\n", "a.toml: colours: Extra inputs"),
        ("colours", "a.toml: end of document: Expected"),
    ],
)
def test_a_malformed_file_is_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        catalog_of([("a.toml", text)])


@pytest.mark.parametrize(("instance", "seconds"), [("r6i.xlarge", 1800.0), ("r6i.16xlarge", None)])
def test_a_machine_that_sustains_less_than_it_can_do_bursts_for_half_an_hour(
    catalog: Catalog, instance: str, seconds: float | None
) -> None:
    host = HostSpec("ec2", region="us-east-1", instance=instance)
    assert catalog.host_burst_seconds(host) == seconds
