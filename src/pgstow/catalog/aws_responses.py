"""What AWS answers, as the catalog's values: DescribeInstanceTypes and the Price List.

The shapes are those of the EC2 API (2016-11-15) and of the Price List Query API (GetProducts,
2017-10-15). Pitfalls of the price list that this allows for: gp3's throughput is priced for a
GiB/s, io2's tiers are usage types of their own, usage types carry a region's prefix outside
us-east-1, and the same product is listed for Outposts, Local Zones, reserved terms and other
licences.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pgstow.catalog.types import DiskKind, Instance, InstancePrice
from pgstow.model import Provenance
from pgstow.rules import PriceTier, TypePrice
from pgstow.units import MIB, Bytes, BytesPerSecond

Answer = Mapping[str, Any]

EBS_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")
# What a GetProducts request for instances is narrowed by; rows of other licences are left out.
INSTANCE_FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}

_Part = Literal["gib", "iops", "throughput"]


@dataclass(frozen=True, slots=True)
class _Usage:
    """What a usage type is the price of; IOPS from ``over`` on."""

    type: str
    part: _Part
    over: float = 0.0


_USAGES = {
    "EBS:VolumeUsage.gp2": _Usage("gp2", "gib"),
    "EBS:VolumeUsage.gp3": _Usage("gp3", "gib"),
    "EBS:VolumeP-IOPS.gp3": _Usage("gp3", "iops", 3000),
    "EBS:VolumeP-Throughput.gp3": _Usage("gp3", "throughput"),
    "EBS:VolumeUsage.piops": _Usage("io1", "gib"),
    "EBS:VolumeP-IOPS.piops": _Usage("io1", "iops"),
    "EBS:VolumeUsage.io2": _Usage("io2", "gib"),
    "EBS:VolumeP-IOPS.io2": _Usage("io2", "iops"),
    "EBS:VolumeP-IOPS.io2.tier2": _Usage("io2", "iops", 32000),
    "EBS:VolumeP-IOPS.io2.tier3": _Usage("io2", "iops", 64000),
    "EBS:VolumeUsage.st1": _Usage("st1", "gib"),
    "EBS:VolumeUsage.sc1": _Usage("sc1", "gib"),
}


def instance_of(answer: Answer, provenance: Provenance) -> Instance:
    """One entry of DescribeInstanceTypes' ``InstanceTypes``; what it does not say is None."""
    ebs = answer.get("EbsInfo", {})
    caps = ebs.get("EbsOptimizedInfo", {})
    storage = answer.get("InstanceStorageInfo", {})
    disks = storage.get("Disks", [])
    return Instance(
        name=str(answer["InstanceType"]),
        vcpus=int(answer["VCpuInfo"]["DefaultVCpus"]),
        memory_bytes=Bytes(int(answer["MemoryInfo"]["SizeInMiB"]) * MIB),
        baseline_iops=caps.get("BaselineIops"),
        max_iops=caps.get("MaximumIops"),
        baseline_bytes_per_second=_decimal(caps.get("BaselineThroughputInMBps")),
        max_bytes_per_second=_decimal(caps.get("MaximumThroughputInMBps")),
        max_attachments=ebs.get("MaximumEbsAttachments"),
        disks=sum(int(disk["Count"]) for disk in disks),
        disk_bytes=Bytes(min(int(d["SizeInGB"]) for d in disks) * 10**9) if disks else None,
        disk_kind=_disk_kind(storage) if disks else None,
        provenance=provenance,
        is_nitro=_is_nitro(answer),
    )


def _is_nitro(answer: Answer) -> bool | None:
    """Bare metal has no hypervisor, and all of it that there is has Nitro cards."""
    if answer.get("BareMetal"):
        return True
    hypervisor = answer.get("Hypervisor")
    return None if hypervisor is None else bool(hypervisor == "nitro")


def _decimal(mb_per_s: float | None) -> BytesPerSecond | None:
    return None if mb_per_s is None else BytesPerSecond(round(float(mb_per_s) * 1e6, 3))


def _disk_kind(storage: Answer) -> DiskKind:
    if any(disk.get("Type") == "hdd" for disk in storage["Disks"]):
        return "hdd"
    return "nvme" if storage.get("NvmeSupport") in ("required", "supported") else "ssd"


def volume_prices(products: Iterable[Answer], source: str, read_on: str) -> dict[str, TypePrice]:
    """EBS prices by volume type, from GetProducts' answers for one region.

    A part that no product states stays unknown. The date is the newest publication's, or the day
    on which they were read.
    """
    found: dict[str, TypePrice] = {}
    for product in products:
        attributes = product.get("product", {}).get("attributes", {})
        usage = _USAGES.get(_usage_type(attributes))
        if usage is None or not _is_of_region(attributes):
            continue
        rates = list(_on_demand(product))
        if not rates:
            continue
        unit, usd = rates[-1]
        known = found.get(usage.type, TypePrice(Provenance("documented", source), None))
        date = max(known.provenance.date, _published(product, read_on))
        facts = replace(known.provenance, date=date)
        found[usage.type] = replace(_with_part(known, usage, unit, usd), provenance=facts)
    return {name: price for name, price in found.items() if price.usd_per_gib is not None}


def _with_part(price: TypePrice, usage: _Usage, unit: str, usd: float) -> TypePrice:
    if usage.part == "gib":
        return replace(price, usd_per_gib=usd)
    if usage.part == "throughput":
        per_mib = usd / 1024 if unit.lower().startswith("gib") else usd
        return replace(price, usd_per_mibps=round(per_mib, 9))
    tiers = {tier.over_iops: tier for tier in price.iops_tiers}
    tiers[usage.over] = PriceTier(usage.over, usd)
    return replace(price, iops_tiers=tuple(tiers[over] for over in sorted(tiers)))


def instance_prices(
    products: Iterable[Answer], source: str, read_on: str
) -> dict[str, InstancePrice]:
    """On-demand prices by instance type, from GetProducts' answers for one region."""
    found: dict[str, InstancePrice] = {}
    for product in products:
        attributes = product.get("product", {}).get("attributes", {})
        name = attributes.get("instanceType")
        if name is None or not _usage_type(attributes).startswith("BoxUsage"):
            continue
        if not _is_of_region(attributes):
            continue
        if any(attributes.get(key, value) != value for key, value in INSTANCE_FILTERS.items()):
            continue
        if attributes.get("licenseModel", _NO_LICENCE) != _NO_LICENCE:
            continue
        for unit, usd in _on_demand(product):
            if unit.lower() in ("hrs", "hours"):
                date = _published(product, read_on)
                found[name] = InstancePrice(usd, Provenance("documented", source, date))
    return found


_NO_LICENCE = "No License required"


def _usage_type(attributes: Answer) -> str:
    """The usage type without its region's prefix.

    >>> _usage_type({"usagetype": "APN1-EBS:VolumeP-IOPS.io2"})
    'EBS:VolumeP-IOPS.io2'
    """
    return re.sub(r"^[A-Z0-9]+-", "", str(attributes.get("usagetype", "")))


def _on_demand(product: Answer) -> Iterator[tuple[str, float]]:
    """Unit and dollars of each step that costs something, from the lowest range up."""
    steps = []
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for one in term.get("priceDimensions", {}).values():
            usd = float(one.get("pricePerUnit", {}).get("USD", 0.0))
            if usd > 0:
                begin = float(one.get("beginRange") or 0.0)
                steps.append((begin, str(one.get("unit", "")), usd))
    for _, unit, usd in sorted(steps):
        yield unit, usd


def _is_of_region(attributes: Answer) -> bool:
    """Not of a Local Zone, a Wavelength Zone or an Outpost."""
    return bool(attributes.get("locationType", "AWS Region") == "AWS Region")


def _published(product: Answer, read_on: str) -> str:
    """The day of the price list, as its answers say."""
    return str(product.get("publicationDate") or read_on)[:10]
