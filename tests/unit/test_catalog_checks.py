"""What the catalog refuses in a layout, and what it warns of."""

import dataclasses
from typing import Any

import pytest

from pgstow.catalog import load
from pgstow.model import HostSpec, Layout, LayoutError, Placement, Tablespace, Volume
from pgstow.units import GIB, MIB, TIB, Bytes

EC2 = HostSpec("ec2", "us-east-1", "r6i.32xlarge")
BASE = Volume(name="data", type="gp3", size_bytes=Bytes(500 * GIB), mount="/mnt/data")


def layout(*volumes: dict[str, Any], host: HostSpec = EC2, **placement: Any) -> Layout:
    made = tuple(dataclasses.replace(BASE, **one) for one in volumes)
    where = Placement(**{"data": made[0].name, "wal": made[0].name, **placement})
    return Layout(host, made, where)


def refusal(one: Layout) -> str:
    with pytest.raises(LayoutError) as raised:
        load().check(one)
    assert raised.value.exit_code == 2
    assert raised.value.remedy
    assert "\n" not in str(raised.value)
    return str(raised.value)


def codes(one: Layout) -> list[str]:
    return [warning.code for warning in load().check(one)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size_bytes": 512 * MIB}, "volumes.data.size: 512MiB is under gp3's least, 1GiB"),
        ({"size_bytes": 65 * TIB}, "volumes.data.size: 65TiB is over gp3's most, 64TiB"),
        ({"size_bytes": GIB + 1}, "is no multiple of 1GiB"),
        ({"type": "st1", "size_bytes": 100 * GIB}, "is under st1's least, 125GiB"),
        ({"iops": 90000}, "volumes.data.iops: 90,000 is over gp3's most, 80,000"),
        ({"iops": 2000}, "2,000 is under gp3's least, 3,000"),
        ({"iops": 3000.5}, "3,000.5 is no whole number, in which gp3's are sold"),
        ({"throughput": 200e6}, "190.7348633MiB/s is no whole number of MiB/s"),
        (
            {"iops": 6000, "size_bytes": 5 * GIB},
            "6,000 is over gp3's 500 IOPS per GiB × 5 GiB = 2,500",
        ),
        ({"type": "io1", "iops": 30000}, "over io1's 50 IOPS per GiB × 500 GiB = 25,000"),
        ({"type": "io2", "iops": 5000, "size_bytes": 4 * GIB}, "at least 5GiB"),
        ({"type": "io2"}, "volumes.data.iops: none are given, and io2 is bought by IOPS"),
        ({"type": "gp2", "iops": 3000}, "3,000 cannot be set for gp2"),
        ({"type": "st1", "iops": 500}, "500 cannot be set for st1"),
        ({"type": "sc1", "iops": 250}, "250 cannot be set for sc1"),
        ({"throughput": 2001 * MIB, "iops": 80000}, "2001MiB/s is over gp3's most, 2000MiB/s"),
        ({"throughput": 100 * MIB}, "100MiB/s is under gp3's least, 125MiB/s"),
        (
            {"throughput": 1000 * MIB},
            "1000MiB/s is over gp3's 0.25 MiB/s per IOPS × 3,000 IOPS = 750MiB/s",
        ),
        ({"throughput": 250 * MIB, "type": "gp2"}, "250MiB/s cannot be set for gp2"),
        ({"throughput": 500 * MIB, "type": "io2", "iops": 3000}, "cannot be set for io2"),
        ({"type": "gp4"}, "volumes.data.type: the catalog has no volume type 'gp4'"),
        ({"type": "local-ssd"}, "local-ssd is no volume type of platform ec2; use one of: gp2"),
        ({"type": "instance-store"}, "r6i.32xlarge has no instance store"),
        ({"stripes": 100}, "r6i.32xlarge takes"),
    ],
)
def test_impossible_volumes_are_refused(changes: dict[str, Any], says: str) -> None:
    assert says in refusal(layout(changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"size_bytes": GIB},  # 3,000 IOPS are included, whatever the ratio
        {"size_bytes": 160 * GIB, "iops": 80000, "throughput": 2000 * MIB},
        {"size_bytes": 64 * TIB},
        {"iops": 8000, "throughput": 2000 * MIB},
        {"throughput": 750 * MIB},
        {"type": "io2", "iops": 256000},
        {"type": "io1", "iops": 25000},
        {"type": "gp2"},
    ],
)
def test_volumes_at_the_limits_are_sold(changes: dict[str, Any]) -> None:
    assert [code for code in codes(layout(changes)) if not code.startswith("host-cap")] == []


def test_the_rule_names_its_source_and_date() -> None:
    assert (
        "(AWS EC2 API model, botocore 1.44.5, for the range; 50 IOPS per GiB: EBS user guide"
        in refusal(layout({"type": "io1", "iops": 65000}))
    )


def test_the_instance_must_be_known() -> None:
    host = HostSpec("ec2", "us-east-1", "r6i.3xlarge")
    assert "host.instance: the catalog has no instance type 'r6i.3xlarge'" in refusal(
        layout({}, host=host)
    )


def test_another_platforms_type_is_refused_with_those_it_has() -> None:
    text = refusal(layout({}, host=HostSpec("gce")))
    assert "gp3 is no volume type of platform gce; use one of: pd-standard, pd-balanced" in text


@pytest.mark.parametrize("kind", ["io1", "io2", "gp3"])
def test_what_needs_nitro_is_not_had_without(kind: str) -> None:
    old = HostSpec("ec2", "us-east-1", "m4.16xlarge")
    one = {"type": kind, "size_bytes": 1280 * GIB, "iops": 40_000}
    assert "not-nitro" in codes(layout(one, host=old))
    assert "not-nitro" not in codes(layout({**one, "iops": 32_000}, host=old))
    assert "not-nitro" not in codes(layout(one))
    if kind != "io1":
        text = refusal(layout({**one, "iops": 65_000}, host=old))
        assert "65,000 need an instance of the Nitro System, and m4.16xlarge is none" in text
    most = load().rules(kind, old)[0].iops.max
    assert most == 32_000
    assert (load().rules(kind, EC2)[0].iops.max or 0) > 60_000


def test_instance_store_is_as_many_disks_as_the_instance_has() -> None:
    host = HostSpec("ec2", "us-east-1", "i3en.xlarge")
    store = {"type": "instance-store", "size_bytes": 100 * GIB}
    assert "ephemeral" in codes(layout(store, host=host))
    assert "has 1 disks, the layout uses 2" in refusal(layout(store | {"stripes": 2}, host=host))
    assert "is over the" in refusal(layout(store | {"size_bytes": 3 * TIB}, host=host))


def test_only_temporary_files_belong_on_ephemeral_storage() -> None:
    host = HostSpec("ec2", "us-east-1", "i3en.xlarge")
    store = {"name": "scratch", "mount": "/mnt/s", "type": "instance-store"}
    assert codes(layout({}, store, host=host, temp=("scratch",))) == []
    holding = layout({}, store, host=host)
    holding = dataclasses.replace(holding, tablespaces=(Tablespace("fast", "scratch"),))
    (warning,) = load().check(holding)
    assert warning.code == "ephemeral"
    assert "tablespace fast" in warning.message


def test_a_hard_disk_under_the_wal_is_warned_of() -> None:
    wal = {"name": "wal", "mount": "/mnt/wal", "type": "st1"}
    (warning,) = load().check(layout({}, wal, wal="wal"))
    assert warning.code == "hdd"
    assert "the WAL" in warning.message
    assert codes(layout({}, wal)) == []  # it holds nothing


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"burst_credits": 0.5}, "volumes.data.burst_credits: gp3 of this size has no burst"),
        ({"type": "gp2", "size_bytes": TIB, "burst_credits": 1.0}, "has no burst credits; drop"),
        (
            {"from_snapshot": True, "initialization_rate": 50 * MIB},
            "volumes.data.initialization_rate: 50 MiB/s is not sold (EBS user guide",
        ),
        (
            {"size_bytes": 17 * TIB, "from_snapshot": True, "fast_snapshot_restore": True},
            "volumes.data.fast_snapshot_restore: 17TiB is over the 16TiB",
        ),
    ],
)
def test_impossible_beginnings_are_refused(changes: dict[str, Any], says: str) -> None:
    assert says in refusal(layout(changes))


def test_a_disk_of_the_machine_comes_from_no_snapshot() -> None:
    disk = {"type": "local-ssd", "from_snapshot": True}
    assert "local-ssd cannot be restored" in refusal(layout(disk, host=HostSpec("local")))


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (HostSpec("ec2", "us-east-1", None, 1.0), "the layout names no instance"),
        (HostSpec("ec2", "us-east-1", "r6i.32xlarge", 0.0), "r6i.32xlarge sustains what it can"),
    ],
)
def test_credits_of_hosts_without_are_refused(host: HostSpec, says: str) -> None:
    assert says in refusal(layout({}, host=host))


def test_beginnings_that_can_be_had_are_taken() -> None:
    gp2 = {"type": "gp2", "burst_credits": 0.0, "from_snapshot": True}
    host = HostSpec("ec2", "us-east-1", "r6i.2xlarge", 0.5)
    assert codes(layout({**gp2, "initialization_rate": 300 * MIB}, host=host)) == []


def test_stripes_multiply_the_risk() -> None:
    (warning,) = load().check(layout({"stripes": 4}))
    assert warning.code == "stripe"
    assert "losing one of its 4 members loses all, 0.8 % a year instead of 0.2 %" in warning.message
    assert "many-stripes" in codes(layout({"stripes": 9}))


def test_an_instance_below_its_volumes_is_warned_of() -> None:
    host = HostSpec("ec2", "us-east-1", "c6g.xlarge")
    iops, rate = load().check(layout({"stripes": 16}, host=host))[:2]
    assert (iops.code, rate.code) == ("host-cap-iops", "host-cap-throughput")
    assert "sustains 6,000 IOPS over all volumes, which together have 48,000" in iops.message
    assert "20,000 IOPS for 30 minutes a day" in iops.message


def test_prices_that_are_assumed_or_unknown_are_warned_of() -> None:
    assert codes(layout({}, host=HostSpec("ec2"))) == ["region-assumed"]
    assert codes(layout({}, host=HostSpec("ec2", "af-south-1"))) == ["price-unknown"]
    assert codes(layout({"type": "rds-gp3"}, host=HostSpec("rds", "us-east-1"))) == ["rds"]
    assert codes(layout({"type": "pd-ssd"}, host=HostSpec("gce", "us-central1"))) == []
    assert codes(layout({"type": "pd-ssd"}, host=HostSpec("gce", "mars"))) == ["price-unknown"]
    assert codes(layout({"type": "local-ssd"}, host=HostSpec("local"))) == []
