"""What the catalog knows, as values: volume types, prices, instances. Sizes and rates of a member.

Every group of facts carries its provenance, by the group's name in ``VolumeType.facts``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgstow.model import Latency, Mechanics, Provenance
from pgstow.model.storage import Platform
from pgstow.units import GIB, Bytes, BytesPerSecond

DEFAULT_REGION = "us-east-1"  # whose prices stand where a layout names no region
HOURS_A_MONTH = 730  # by which AWS reckons its monthly prices


@dataclass(frozen=True, slots=True)
class PriceTier:
    """What each IOPS over ``over_iops`` costs a month, up to where the next tier begins."""

    over_iops: float
    usd: float


@dataclass(frozen=True, slots=True)
class TypePrice:
    """A type's prices in one region. ``is_included``: it comes with the instance, at no charge."""

    provenance: Provenance
    usd_per_gib: float | None
    iops_tiers: tuple[PriceTier, ...] = ()
    usd_per_mibps: float | None = None
    is_included: bool = False
    iops_known_to: float | None = None  # beyond it the price of IOPS is not known; None: all are


@dataclass(frozen=True, slots=True)
class SnapshotPrice:
    """What a GiB of EBS snapshots costs a month in one region; None: not known."""

    provenance: Provenance
    usd_per_gib: float
    archive_usd_per_gib: float | None = None


@dataclass(frozen=True, slots=True)
class IopsRule:
    """The operations per second a type allows.

    ``included`` come without asking; ``per_gib`` is a baseline that grows with the size;
    ``per_gib_max`` bounds what may be provisioned. ``is_declared``: no provider, so a layout may
    say what the disk can do.
    """

    io_unit_bytes: int
    is_provisioned: bool = False
    is_declared: bool = False
    included: float | None = None
    min: float | None = None
    max: float | None = None
    per_gib: float | None = None
    per_gib_max: float | None = None
    base: float = 0.0  # what comes beside ``per_gib``
    provisioned_from_bytes: Bytes | None = None  # below it nothing may be set; None: always


@dataclass(frozen=True, slots=True)
class ThroughputByIops:
    """Throughput that follows from the IOPS: ``per_iops`` each, to ``max``."""

    per_iops: BytesPerSecond
    max: BytesPerSecond


@dataclass(frozen=True, slots=True)
class ThroughputBySize:
    """The limit of volumes of at most ``to_bytes``."""

    to_bytes: Bytes
    limit: BytesPerSecond


@dataclass(frozen=True, slots=True)
class ThroughputRule:
    """The bytes per second a type allows; at most one of the ways to say so is used."""

    is_provisioned: bool = False
    is_declared: bool = False
    included: BytesPerSecond | None = None
    min: BytesPerSecond | None = None
    max: BytesPerSecond | None = None
    per_iops_max: BytesPerSecond | None = None
    per_tib: BytesPerSecond | None = None
    by_iops: tuple[ThroughputByIops, ...] = ()
    by_size: tuple[ThroughputBySize, ...] = ()
    base: float = 0.0  # what comes beside ``per_tib``


@dataclass(frozen=True, slots=True)
class StripeRule:
    """A provider's own stripe: volumes from ``from_bytes`` on are made of ``members``.

    The type's other rules are then those of one member.
    """

    from_bytes: Bytes
    members: int


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
    holds: Literal["anything", "wal"] = "anything"
    has_volatile_cache: bool = False  # the device says so, and the kernel sends it flushes
    goes_with: tuple[str, ...] = ()  # the types that the data must be on; empty: any

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
    def provisioned_throughput(self) -> bool:
        """Whether throughput is bought apart from the size."""
        return self.throughput_rule.is_provisioned

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
        return self.prices.get(region or DEFAULT_REGION)

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
