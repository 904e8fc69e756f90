"""``pgstow catalog update`` against servers that speak AWS's protocols, and what is read of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from price_list_server import PriceListServer, product, serving

from pgstow.catalog import Catalog
from pgstow.catalog.loading import load_with
from pgstow.catalog.tables import read_instances
from pgstow.model import HostSpec, UserError, Volume
from pgstow.units import GIB, MIB, Bytes, BytesPerSecond, Iops

ROOT = Path(__file__).parent.parent.parent
SHIPPED = ROOT / "src/pgstow/data/ec2-instances.csv"
SOURCE = 'source = "a test"\ndate = "2026-11-20"\n'


def ebs(family: str, usage: str, *dimensions: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    return product("AmazonEC2", family, usage, *dimensions, **more)


def box(name: str, usd: str, usage: str = "BoxUsage", **more: str) -> dict[str, Any]:
    attributes = {
        "instanceType": name,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "licenseModel": "No License required",
        **more,
    }
    rate = ("0", "Hrs", usd)
    return product("AmazonEC2", "Compute Instance", f"{usage}:{name}", rate, **attributes)


LIST = [
    ebs("Storage", "EBS:VolumeUsage.gp3", ("0", "GB-Mo", "0.0810")),
    ebs(
        "System Operation",
        "EBS:VolumeP-IOPS.gp3",
        ("0", "IOPS-Mo", "0.0000000000"),
        ("3000", "IOPS-Mo", "0.0051"),
    ),
    ebs(
        "Provisioned Throughput",
        "EBS:VolumeP-Throughput.gp3",
        ("0", "GiBps-mo", "0.0000000000"),
        ("0.1220703125", "GiBps-mo", "41.9840000000"),
    ),
    ebs("Storage", "EBS:VolumeUsage.piops", ("0", "GB-Mo", "0.126")),
    ebs("System Operation", "EBS:VolumeP-IOPS.piops", ("0", "IOPS-Mo", "0.066")),
    ebs("Storage", "EBS:VolumeUsage.io2", ("0", "GB-month", "0.127")),
    ebs("System Operation", "EBS:VolumeP-IOPS.io2.tier3", ("0", "IOPS-Mo", "0.03")),
    ebs("System Operation", "EBS:VolumeP-IOPS.io2", ("0", "IOPS-Mo", "0.07")),
    ebs("System Operation", "EBS:VolumeP-IOPS.io2.tier2", ("0", "IOPS-Mo", "0.05")),
    ebs("Storage", "EBS:VolumeUsage.gp2", ("0", "GB-Mo", "0.101")),
    # What must be left out: another place, another kind of storage.
    ebs("Storage", "EBS:VolumeUsage.gp3", ("0", "GB-Mo", "9"), locationType="AWS Outposts"),
    ebs("Storage", "BOS1-EBS:VolumeUsage.gp3", ("0", "GB-Mo", "9"), locationType="AWS Local Zone"),
    ebs("Storage", "EBS:VolumeUsage", ("0", "GB-Mo", "0.05")),
    box("r6i.2xlarge", "0.5100000000"),
    box("m5.large", "0.0970000000"),
    box("m5.large", "9", usage="UnusedBox"),
    box("m5.large", "9", licenseModel="Bring your own license"),
    box("m5.large", "9", operatingSystem="Windows"),
    box("m5.xlarge", "9", locationType="AWS Local Zone"),
    ebs("Storage", "EU-EBS:VolumeUsage.gp3", ("0", "GB-Mo", "0.0890"), region="eu-west-1"),
]


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def prices() -> Iterator[PriceListServer]:
    with serving(LIST) as server:
        yield server


def update(
    *arguments: str, data: Path, ec2: str = "", prices: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run the command with nothing of the caller's AWS settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from pgstow.cli import main; main()"),
            *("catalog", "update", *arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **kept,
            "XDG_DATA_HOME": str(data),
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_ENDPOINT_URL_EC2": ec2 or "http://127.0.0.1:9",
            "AWS_ENDPOINT_URL_PRICING": prices or "http://127.0.0.1:9",
        },
    )
    assert done.returncode == code, done.stderr
    return done


def gp3(iops: float = 6000, mibps: float = 250, kind: str = "gp3") -> Volume:
    return Volume(
        name="data",
        type=kind,
        size_bytes=Bytes(500 * GIB),
        mount="/data",
        iops=Iops(iops),
        throughput=BytesPerSecond(mibps * MIB) if kind == "gp3" else None,
    )


def usd(catalog: Catalog, volume: Volume, region: str = "us-east-1") -> float | None:
    return catalog.price(volume, HostSpec("ec2", region)).usd_month


def test_the_shipped_instances_are_what_the_command_reads(ec2: str, tmp_path: Path) -> None:
    done = update("--instances", "--region", "us-east-1", data=tmp_path, ec2=ec2)
    path = tmp_path / "pgstow/catalog/ec2-instances.csv"
    assert f"{path}: 1,395 instance types, us-east-1" in done.stdout
    rows = [
        [line for line in file.read_text().splitlines() if not line.startswith("#")]
        for file in (path, SHIPPED)
    ]
    assert rows[0] == rows[1]
    assert "# source: AWS DescribeInstanceTypes in us-east-1\n" in path.read_text()


def test_prices_are_read_page_by_page(prices: PriceListServer, tmp_path: Path) -> None:
    done = update("--prices", "--region", "us-east-1", data=tmp_path, prices=prices.url)
    assert "4 volume prices, us-east-1, 2026-10-30" in done.stdout
    assert "2 instance prices" in done.stdout
    assert any("NextToken" in request for request in prices.requests)
    catalog = load_with(tmp_path / "pgstow/catalog")
    assert usd(catalog, gp3()) == pytest.approx(500 * 0.081 + 3000 * 0.0051 + 125 * 0.041)
    io2 = usd(catalog, gp3(100000, kind="io2"))
    assert io2 == pytest.approx(500 * 0.127 + 32000 * 0.07 + 32000 * 0.05 + 36000 * 0.03)
    assert usd(catalog, gp3(20000, kind="io1")) == pytest.approx(500 * 0.126 + 20000 * 0.066)
    price = catalog.instance_price("m5.large", "us-east-1")
    assert price is not None
    assert (price.usd_hour, price.provenance.date) == (0.097, "2026-10-30")
    assert catalog.instance_price("r6i.2xlarge", "us-east-1").usd_month == pytest.approx(372.3)  # type: ignore[union-attr]
    kept = catalog.instance_price("m5.xlarge", "us-east-1")  # the shipped row, not the Local Zone's
    assert kept is not None
    assert kept.usd_hour == 0.192


def test_what_the_list_does_not_say_stays_unknown(prices: PriceListServer, tmp_path: Path) -> None:
    update("--prices", "--region", "eu-west-1", data=tmp_path, prices=prices.url)
    catalog = load_with(tmp_path / "pgstow/catalog")
    assert usd(catalog, gp3(3000, 125), "eu-west-1") == pytest.approx(44.5)
    assert usd(catalog, gp3(3001, 125), "eu-west-1") is None  # IOPS without a price are not free
    assert usd(catalog, gp3(3000, 126), "eu-west-1") is None


def test_regions_read_before_are_kept(prices: PriceListServer, tmp_path: Path) -> None:
    for region in ("us-east-1", "eu-west-1"):
        update("--prices", "--region", region, data=tmp_path, prices=prices.url)
    catalog = load_with(tmp_path / "pgstow/catalog")
    assert usd(catalog, gp3(3000, 125), "us-east-1") == pytest.approx(40.5)
    assert usd(catalog, gp3(3000, 125), "eu-west-1") == pytest.approx(44.5)
    assert usd(catalog, gp3(3000, 125), "ap-northeast-1") == pytest.approx(48)  # the shipped


def test_a_users_catalog_is_never_used_silently(prices: PriceListServer, tmp_path: Path) -> None:
    update("--prices", "--region", "us-east-1", data=tmp_path, prices=prices.url)
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "COLUMNS": "200"}
    given = ("price", "gp3", "--size", "500GiB")
    shown = {
        arguments: subprocess.run(
            [
                *(sys.executable, "-c", "from pgstow.cli import main; main()"),
                *("catalog", *arguments),
            ],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout
        for arguments in ((), ("sources",), given, (*given, "--json"))
    }
    path = str(tmp_path / "pgstow/catalog/prices.toml")
    for arguments in ((), ("sources",), given):
        assert f"Over the shipped catalog: {path}" in shown[arguments]
    answer = json.loads(shown[(*given, "--json")])
    assert path in answer["user_files"]
    assert answer["usd_month"] == pytest.approx(40.5)
    assert "AWS Price List (GetProducts) of us-east-1" in shown[("sources",)]


def test_a_region_that_aws_does_not_have(prices: PriceListServer, tmp_path: Path) -> None:
    done = update("--prices", "--region", "mars-1", data=tmp_path, prices=prices.url, code=2)
    assert "no volume prices in mars-1; check --region" in done.stderr
    assert not list(tmp_path.rglob("*.toml"))


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        ("AccessDeniedException", "allow pricing:GetProducts to this identity"),
        ("UnrecognizedClientException", "check the credentials"),
        ("Whatever", "is refused: Whatever; see the policy"),
    ],
)
def test_a_refusal_says_what_to_allow(
    prices: PriceListServer, tmp_path: Path, refusal: str, says: str
) -> None:
    prices.refusal = refusal
    done = update("--prices", data=tmp_path, prices=prices.url, code=2)
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_where_nothing_answers(tmp_path: Path) -> None:
    done = update("--instances", data=tmp_path, code=2)
    assert "ec2:DescribeInstanceTypes in us-east-1 failed: Could not connect" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_directory_that_cannot_be_written(prices: PriceListServer, tmp_path: Path) -> None:
    (tmp_path / "pgstow").write_text("a file is in the way")
    wanted = ("--prices", "--region", "us-east-1")
    done = update(*wanted, data=tmp_path, prices=prices.url, code=2)
    assert "cannot be written: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("prices.toml", "[prices.us-east-1.gp3]\nusd_per_gib = -1\n" + SOURCE, "gib: Input should"),
        ("prices.toml", "prices", "prices.toml: end of document: Expected"),
        ("ec2-prices.csv", "m5.large,0.1\n", "has prices of no region"),
        ("ec2-prices.csv", "# region: x\nm5.large,0.1\n", "names no source and date"),
        ("ec2-instances.csv", "instance,colour\nm5.large,red\n", "has the columns"),
        ("ec2-instances.csv", "", "has 0 tables"),
    ],
)
def test_a_users_file_that_is_malformed(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=says) as refusal:
        load_with(tmp_path)
    assert str(tmp_path / name) in str(refusal.value)


def test_a_malformed_line_is_found_when_it_is_used() -> None:
    head = "# source: a test\n# date: 2026-11-20\n"
    table = read_instances(head + "m5.large,2,8192\nm5.xlarge,4,8,,,,,,,,floppy\n", "a.csv")
    for name in ("m5.large", "m5.xlarge"):
        with pytest.raises(UserError, match=rf"a\.csv: the line of {name} is malformed"):
            table[name]
