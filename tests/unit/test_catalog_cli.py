"""``pgstow catalog`` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str, code: int = 0) -> str:
    done = started(*arguments)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def started(*arguments: str, data: str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pgstow.cli import main; main()", "catalog", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            "COLUMNS": "120",
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "XDG_DATA_HOME": data,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )


def test_the_list_shows_every_type() -> None:
    text = run()
    for name in ("gp2", "gp3", "io1", "io2", "st1", "sc1", "instance-store", "local-nvme"):
        assert f"\n{name} " in text
    assert "gp3 1 GiB–64 TiB 3,000–80,000 125–2,000" in " ".join(text.split())


def test_the_list_is_data_too() -> None:
    rows = json.loads(run("--platform", "ec2", "--json"))
    gp3 = next(row for row in rows if row["name"] == "gp3")
    assert gp3["prices"]["us-east-1"]["usd_per_gib"] == 0.08
    assert gp3["facts"]["iops"]["date"] == "2026-11-20"


def test_show_names_the_sources() -> None:
    text = run("show", "io2")
    assert "AWS EC2 API model, botocore" in text
    assert "assumed" in text
    assert json.loads(run("show", "io2", "--json"))["name"] == "io2"


def test_instances_by_part_of_the_name() -> None:
    text = run("instances", "--match", "r6i.2x")
    assert "12,000 / 40,000" in text
    assert "312.5 / 1,250" in text
    assert "$367.92" in text
    (row,) = json.loads(run("instances", "--match", "r6i.2x", "--json"))
    assert row["usd_hour"] == 0.504
    assert row["price_provenance"]["date"] == "2026-07-20"
    (row,) = json.loads(run("instances", "--match", "r6i.2x", "--region", "xx-1", "--json"))
    assert row["usd_month"] is None  # unknown, not 0
    assert "unknown" in run("instances", "--match", "r6i.2x", "--region", "xx-1")


def test_price_by_lines() -> None:
    given = ("price", "gp3", "--size", "500GiB", "--iops", "6000", "--throughput", "250MiB/s")
    text = run(*given)
    assert "3,000 IOPS over 3,000 × $0.005" in text
    assert "$60.00" in text
    answer = json.loads(run(*given, "--json"))
    assert answer["usd_month"] == 60
    assert len(answer["lines"]) == 3
    tokyo = json.loads(run(*given, "--region", "ap-northeast-1", "--json"))
    assert tokyo["usd_month"] == 72


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "gp[b]3"), "no volume type 'gp[b]3'; did you mean gp3"),
        (("--platform", "vms"), "no volume types of platform 'vms'"),
        (("instances", "--match", "zz9"), "no instance type with 'zz9'"),
        (("price", "gp3", "--size", "500"), "--size: '500' is not a size"),
        (("price", "gp3", "--size", "500GiB", "--iops", "90000"), "--iops: 90,000 is over gp3's"),
        (("price", "gp3", "--size", "1GiB", "--throughput", "9"), "--throughput: '9' is not a"),
        (("price", "io2", "--size", "500GiB"), "io2 is bought by IOPS; add --iops 100 or more"),
        (("price", "gp3", "--size", "1GiB", "--stripes", "0"), "stripes must be 1 to 128"),
        (
            ("price", "gp3", "--size", "1GiB", "--region", "eu-nowhere-1"),
            "the catalog has no prices of ec2 in region 'eu-nowhere-1'; use one of: ap-northeast-1",
        ),
        (
            ("price", "gp3", "--size", "1GiB", "--region", "af-south-1", "--json"),
            "pgstow catalog update --region af-south-1 reads its prices",
        ),
        (
            ("price", "instance-store", "--size", "500GB", "--instance", "m6id.large"),
            "use at most 118GB",
        ),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], says: str) -> None:
    text = run(*arguments, code=2)
    assert says in text
    assert text.count("\n") == 1


def test_a_platform_has_a_region_of_its_own() -> None:
    assert "$17.00" in run("price", "pd-ssd", "--size", "100GiB")
    answer = json.loads(run("price", "premium-ssd-v2", "--size", "100GiB", "--json"))
    assert (answer["region"], answer["usd_month"]) == ("eastus", pytest.approx(8.03))
    assert "price a month in eastus" in run("--platform", "azure")
    assert "an MB/s over those included" in run("--platform", "azure")
    text = run("price", "ultra-disk", "--size", "9GiB", "--iops", "400", "--throughput", "10MB/s")
    assert "10 MB/s × $0.34967" in text


def test_what_an_instances_own_disks_do_is_shown() -> None:
    assert "1 × 937 GB, 100,000 / 55,000" in run("instances", "--match", "i4i.xlarge")
    (row,) = json.loads(run("instances", "--match", "i4i.xlarge", "--json"))
    assert row["disks_speed"]["write_iops"] == 55000
    assert row["disks_speed"]["provenance"]["date"] == "2026"
    assert row["is_nitro"] is True
    old = json.loads(run("instances", "--match", "x1.16xlarge", "--json"))
    assert old[0]["disks_speed"] is None


def test_price_on_an_instance_says_what_binds() -> None:
    given = ("price", "gp3", "--size", "500GiB", "--iops", "16000", "--throughput", "1000MiB/s")
    text = run(*given, "--instance", "r6i.2xlarge")
    assert "12,000 (instance baseline)" in text
    assert "for 30 min" in text
    assert "IOPS for operations of 16 KiB, and its MB/s of 10⁶ bytes for" in text
    answer = json.loads(run(*given, "--instance", "r6i.2xlarge", "--json"))
    limits = answer["effective_limits"]
    assert limits["sustained_iops"] == {"value": 12000, "binds": "instance baseline"}
    assert limits["burst_seconds"] == 1800
    assert "did you mean r6i" in run(*given, "--instance", "r6i.2xlarg", code=2)


def test_anatomy_says_what_is_known_and_what_is_assumed() -> None:
    text = run("anatomy", "gp3")
    assert "0–399" in text
    assert "1,350–1,749" in text
    assert "no source divides" in text
    answer = json.loads(run("anatomy", "gp3", "--json"))
    assert answer["write_us_p50"] == 1800
    assert {part["provenance"]["origin"] for part in answer["parts"]} == {"assumed"}


def test_platforms_are_told_apart() -> None:
    text = run("--platform", "rds")
    assert "\nrds-gp3 " in text
    assert "\ngp3 " not in text
    assert "$117.50" in run("price", "rds-gp3", "--size", "500GiB", "--iops", "15000")
    assert "$428.00" in run("price", "rds-dlv", "--size", "1TiB")
    assert "from 400 GiB 12,000–64,000 in all" in " ".join(text.split())
    assert "64,000 of all four volumes together" in " ".join(run("show", "rds-gp3").split())
    assert "under rds-dlv's least, 1TiB" in run("price", "rds-dlv", "--size", "10GiB", code=2)


def test_an_old_catalog_is_a_warning_with_the_command_that_refreshes_it(tmp_path: Path) -> None:
    directory = tmp_path / "pgstow/catalog"
    directory.mkdir(parents=True)
    row = 'usd_per_gib = 0.07\nsource = "a test"\ndate = "2019-03-01"\n'
    (directory / "prices.toml").write_text(f"[prices.us-east-1.gp3]\n{row}")
    for arguments in ((), ("sources",), ("price", "gp3", "--size", "100GiB")):
        done = started(*arguments, data=str(tmp_path))
        assert done.returncode == 0
        assert (
            "warning: the catalog is older than 6 months: volume prices in us-east-1 of 2019"
            in (done.stderr)
        )
        assert "pgstow catalog update --region us-east-1" in done.stderr
        assert f"Over the shipped catalog: {directory}/prices.toml" in done.stdout
    broken = directory / "prices.toml"
    broken.write_text("[prices")
    done = started("price", "gp3", "--size", "100GiB", data=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"pgstow: {broken}: ")
    assert done.stderr.count("\n") == 1
