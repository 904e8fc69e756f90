"""Write src/pgstow/data/ec2-instances.toml from AWS's DescribeInstanceTypes answers in moto.

moto (PyPI) carries the real answers. Run it where moto is installed, outside the project's own
environment:

    python -m venv /tmp/moto && /tmp/moto/bin/pip install moto
    /tmp/moto/bin/python scripts/ec2_instances.py --date 2026-11-20
"""

import argparse
import gzip
import importlib.metadata
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

_LISTED = """
m5 m5d m6i m6id m6idn m6in m6g m6gd m6a m7i m7g m7gd m7a m8g m8i
c5 c6i c6g c6gd c7i c7g c8g
r5 r5b r5d r6i r6id r6idn r6in r6g r6gd r6a r7i r7iz r7g r7gd r7a r8g r8gb r8gd r8i
x2iedn x2idn i3 i3en i4i i4g i7i i7ie i8g im4gn t3 t3a t4g
"""
FAMILIES = _LISTED.split()
TARGET = Path(__file__).parent.parent / "src/pgstow/data/ec2-instances.toml"


def answers() -> dict[str, Any]:
    """Every instance type's answer, by name."""
    spec = importlib.util.find_spec("moto")
    if spec is None or spec.origin is None:
        raise SystemExit("moto is not installed here; see this file's first lines")
    path = Path(spec.origin).parent / "ec2/resources/instance_types.json.gz"
    with gzip.open(path) as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


def row(name: str, answer: dict[str, Any]) -> str:
    """One instance type as a line of TOML."""
    ebs = answer["EbsInfo"]
    fields = [
        f"vcpus = {answer['VCpuInfo']['DefaultVCpus']}",
        f"memory_mib = {answer['MemoryInfo']['SizeInMiB']}",
    ]
    if "EbsOptimizedInfo" in ebs:
        caps = ebs["EbsOptimizedInfo"]
        fields += [
            f"iops = [{caps['BaselineIops']}, {caps['MaximumIops']}]",
            "mb_per_s = "
            f"[{caps['BaselineThroughputInMBps']:g}, {caps['MaximumThroughputInMBps']:g}]",
        ]
    if "MaximumEbsAttachments" in ebs:
        fields.append(f"attachments = {ebs['MaximumEbsAttachments']}")
    for disk in answer.get("InstanceStorageInfo", {}).get("Disks", []):
        fields.append(f'disks = {{ count = {disk["Count"]}, size = "{disk["SizeInGB"]}GB" }}')
    return f'"{name}" = {{ {", ".join(fields)} }}'


def order(name: str) -> tuple[int, list[str | int]]:
    """Families as listed, sizes from small to large by their number."""
    family, size = name.split(".")
    base = {"nano": 0, "micro": 1, "small": 2, "medium": 3, "large": 4, "xlarge": 5}.get(size)
    number = int((re.match(r"\d+", size) or ["999"])[0])
    return FAMILIES.index(family), [base if base is not None else 6, number, size]


def main() -> None:
    """Read moto's answers, write the data file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", required=True, help="the day on which moto was fetched")
    arguments = parser.parse_args()
    found = {
        name: answer
        for name, answer in answers().items()
        if name.split(".")[0] in FAMILIES and not answer["BareMetal"]
    }
    lines = [
        "# EC2 instance types: cores, memory, own cap on EBS traffic, instance store.",
        "#",
        "# Written by scripts/ec2_instances.py; change that, not this.",
        "# iops, mb_per_s: [sustained, at most]; MB are decimal. The maximum, where it is higher,",
        "# holds for 30 minutes a day.",
        "",
        "[instances]",
        'source = "AWS DescribeInstanceTypes, as recorded in moto '
        f'{importlib.metadata.version("moto")}"',
        f'date = "{arguments.date}"',
        "",
        "[instances.types]",
    ]
    lines += [row(name, found[name]) for name in sorted(found, key=order)]
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {len(found)} instance types")


if __name__ == "__main__":
    main()
