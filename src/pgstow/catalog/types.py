"""What the catalog knows, as values: volume types, prices, instances. Sizes and rates of a member.

Every group of facts carries its provenance, by the group's name in ``VolumeType.facts``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pgstow.model import Latency, Mechanics, Provenance, Volume
from pgstow.model.storage import Platform
from pgstow.rules import (
    IopsRule,
    PriceTier,
    StripeRule,
    ThroughputRule,
    TypePrice,
    VolumeRules,
)
from pgstow.units import GIB, Bytes, BytesPerSecond

# whose prices stand where a layout names no region
DEFAULT_REGIONS: Mapping[str, str] = {
    "ec2": "us-east-1",
    "rds": "us-east-1",
    "gce": "us-central1",
    "azure": "eastus",
}
DEFAULT_REGION = DEFAULT_REGIONS["ec2"]
HOURS_A_MONTH = 730  # by which AWS computes its monthly prices


@dataclass(frozen=True, slots=True)
class SnapshotPrice:
    """What a GiB of EBS snapshots costs a month in one region; None: not known."""

    provenance: Provenance
    usd_per_gib: float
    archive_usd_per_gib: float | None = None
    fast_restore_usd_hour: float | None = None  # of one snapshot in one zone


@dataclass(frozen=True, slots=True)
class BurstRule:
    """Credits: I/Os for ``iops``, bytes for ``bytes``; refilled at the baseline."""

    kind: Literal["iops", "bytes"]
    capacity: float | None = None
    capacity_per_tib: float | None = None
    rate: float | None = None
    rate_per_tib: float | None = None
    rate_max: float | None = None


@dataclass(frozen=True, slots=True)
class WithoutNitroRule:
    """On instances that are not built on Nitro: the volumes they take, and what those reach."""

    attached_iops: float
    reached_iops: float


@dataclass(frozen=True, slots=True)
class SnapshotRule:
    """How volumes are restored from snapshots; rates in bytes per second.

    ``rate`` is the most that comes unless one is bought, within ``rate_min`` to ``rate_max``.
    """

    block_bytes: int
    us_p50: float
    us_p99: float
    rate: BytesPerSecond
    rate_min: BytesPerSecond
    rate_max: BytesPerSecond
    fast_max_bytes: Bytes  # the largest snapshot of which a fast restore can be made


@dataclass(frozen=True, slots=True)
class VolumeType:
    """A row of the catalog. A limit of None is no limit; a price of None is unknown."""

    name: str
    title: str
    platforms: tuple[Platform, ...]
    latency: Latency
    iops_rule: IopsRule
    throughput_rule: ThroughputRule
    burst_rule: BurstRule | None
    min_size_bytes: Bytes | None
    max_size_bytes: Bytes | None
    size_step_bytes: Bytes | None
    annual_failure_rate: float | None
    is_ephemeral: bool
    is_hdd: bool
    is_local: bool  # a disk of the machine itself: no network, not under the instance's EBS cap
    prices: Mapping[str, TypePrice]  # by region
    facts: Mapping[str, Provenance]
    mechanics: Mechanics | None = None  # of a hard disk
    snapshot_rule: SnapshotRule | None = None
    stripe_rule: StripeRule | None = None  # where the provider stripes by itself (RDS)
    without_nitro: WithoutNitroRule | None = None
    holds: Literal["anything", "wal"] = "anything"
    has_volatile_cache: bool = False  # the device says so, and the kernel sends it flushes
    goes_with: tuple[str, ...] = ()  # the types that the data must be on; empty: any

    def latency_of(self, volume: Volume) -> Latency:
        """The type's latency, or what was measured of the volume; larger requests as the type's."""
        if volume.latency is None:
            return self.latency
        given = {name: us for name, us in asdict(volume.latency).items() if us is not None}
        return replace(self.latency, **given)

    def mechanics_of(self, volume: Volume) -> Mechanics | None:
        """Seek and rotation of a hard disk, as fast as the layout gives.

        What was measured of its latency has their time in it.
        """
        if volume.latency is not None:
            return None
        if self.mechanics is None or volume.throughput is None:
            return self.mechanics
        return replace(self.mechanics, bytes_per_second=volume.throughput)

    @property
    def random_read_us(self) -> float:
        """What a small read anywhere takes: the median, and a hard disk's mean way."""
        return self.latency.read_us_p50 + (self.mechanics.mean_us if self.mechanics else 0.0)

    @property
    def random_write_us(self) -> float:
        """What a small write anywhere on the volume takes."""
        return self.latency.write_us_p50 + (self.mechanics.mean_us if self.mechanics else 0.0)

    @property
    def provisioned_iops(self) -> bool:
        """Whether IOPS are bought apart from the size."""
        return self.iops_rule.is_provisioned

    @property
    def io_unit_bytes(self) -> int:
        """What one operation may carry; a larger one counts as several."""
        return self.iops_rule.io_unit_bytes

    @property
    def included_iops(self) -> float | None:
        """IOPS that come with every volume, whatever its size."""
        return self.iops_rule.included

    @property
    def min_iops(self) -> float | None:
        """The least that may be provisioned, or that the smallest volume gets."""
        return self.iops_rule.min

    @property
    def max_iops(self) -> float | None:
        """The most a volume can have."""
        rule = self.iops_rule
        return rule.max if rule.max is not None else rule.included

    @property
    def iops_per_gib(self) -> float | None:
        """Baseline IOPS that come with each GiB (gp2)."""
        return self.iops_rule.per_gib

    @property
    def iops_per_gib_max(self) -> float | None:
        """IOPS that may be provisioned for each GiB, beyond those included."""
        return self.iops_rule.per_gib_max

    @property
    def included_throughput(self) -> BytesPerSecond | None:
        """Bytes per second that come with every volume."""
        return self.throughput_rule.included

    @property
    def max_throughput(self) -> BytesPerSecond | None:
        """The most bytes per second a volume can have, without burst."""
        rule = self.throughput_rule
        every = [rule.max, *(p.max for p in rule.by_iops), *(s.limit for s in rule.by_size)]
        return max((one for one in every if one is not None), default=rule.included)

    @property
    def throughput_per_iops_max(self) -> BytesPerSecond | None:
        """Bytes per second that may be provisioned for each IOPS."""
        return self.throughput_rule.per_iops_max

    @property
    def throughput_per_gib(self) -> BytesPerSecond | None:
        """Baseline bytes per second that come with each GiB (st1, sc1)."""
        per_tib = self.throughput_rule.per_tib
        return None if per_tib is None else BytesPerSecond(per_tib / 1024)

    def price_in(self, region: str | None) -> TypePrice | None:
        """The prices of a region; None where they are not known."""
        return self.prices.get(region or default_region(self.platforms[0]))

    def rules(self, region: str | None = None) -> VolumeRules:
        """What one volume may be, does and costs in a region."""
        return VolumeRules(
            self.name,
            self.min_size_bytes,
            self.max_size_bytes,
            self.size_step_bytes,
            self.iops_rule,
            self.throughput_rule,
            self.price_in(region),
        )

    @property
    def usd_per_gib(self) -> float | None:
        """Price of a GiB in the default region."""
        price = self.price_in(None)
        return price.usd_per_gib if price else None

    @property
    def usd_per_iops(self) -> tuple[PriceTier, ...]:
        """Price tiers of provisioned IOPS in the default region."""
        price = self.price_in(None)
        return price.iops_tiers if price else ()

    @property
    def usd_per_mibps(self) -> float | None:
        """Price of a MiB/s over those included, in the default region."""
        price = self.price_in(None)
        return price.usd_per_mibps if price else None


def default_region(platform: str) -> str:
    """The region whose prices stand where none is named; of local disks none has any."""
    return DEFAULT_REGIONS.get(platform, DEFAULT_REGION)


DiskKind = Literal["nvme", "ssd", "hdd"]


@dataclass(frozen=True, slots=True)
class Instance:
    """An EC2 instance type. Its caps are of all EBS volumes together, in decimal bytes."""

    name: str
    vcpus: int
    memory_bytes: Bytes
    baseline_iops: float | None
    max_iops: float | None
    baseline_bytes_per_second: BytesPerSecond | None
    max_bytes_per_second: BytesPerSecond | None
    max_attachments: int | None
    disks: int
    disk_bytes: Bytes | None  # of one of its own disks
    disk_kind: DiskKind | None
    provenance: Provenance
    is_nitro: bool | None = None  # built on the Nitro System; None: not known


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """Random operations of 4 KiB that all of an instance's own disks do together, in a second."""

    read_iops: float
    write_iops: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class InstancePrice:
    """What an instance costs on demand: US dollars an hour, and a month of 730 hours."""

    usd_hour: float
    provenance: Provenance

    @property
    def usd_month(self) -> float:
        """The price of a month."""
        return self.usd_hour * HOURS_A_MONTH


def gib(size_bytes: float) -> float:
    """A size in GiB."""
    return size_bytes / GIB
