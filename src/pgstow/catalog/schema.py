"""The shape of the packaged data files, and how they become the catalog's values."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from pgstow.catalog.anatomy import PartRule
from pgstow.catalog.types import (
    BurstRule,
    SnapshotPrice,
    SnapshotRule,
    VolumeType,
    WithoutNitroRule,
)
from pgstow.model import Latency, Mechanics, Provenance
from pgstow.rules import (
    IopsRule,
    PriceTier,
    StripeRule,
    ThroughputByIops,
    ThroughputBySize,
    ThroughputRule,
    TypePrice,
)
from pgstow.units import MIB, Bytes, BytesPerSecond, parse_rate, parse_size


def _dated(text: str) -> str:
    if not re.fullmatch(r"20\d\d(-[01]\d(-[0-3]\d)?)?", text):
        raise ValueError(f"{text!r} is not a date; write it like 2026-11-20, 2026-11 or 2026")
    return text


Size = Annotated[Bytes, BeforeValidator(parse_size), Field(gt=0)]
Bandwidth = Annotated[BytesPerSecond, BeforeValidator(parse_rate), Field(gt=0)]
Text = Annotated[str, Field(min_length=3)]
Positive = Annotated[float, Field(gt=0)]
Usd = Annotated[float, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Fact(_Strict):
    """A group of facts that one source states."""

    source: Text
    date: Annotated[str, AfterValidator(_dated)]
    origin: Literal["documented", "assumed", "measured"] = "documented"

    @property
    def provenance(self) -> Provenance:
        return Provenance(self.origin, self.source, self.date)


class SizeRow(_Fact):
    """Range and step of sizes."""

    min: Size | None = None
    max: Size | None = None
    step: Size | None = None


class IopsRow(_Fact):
    """How many operations per second, of what accounting unit."""

    unit: Size
    is_provisioned: bool = False
    is_declared: bool = False
    included: Positive | None = None
    min: Positive | None = None
    max: Positive | None = None
    per_gib: Positive | None = None
    per_gib_min: Positive | None = None
    per_gib_max: Positive | None = None
    base: Annotated[float, Field(ge=0)] = 0.0
    provisioned_from: Size | None = None

    def rule(self) -> IopsRule:
        """The row as a rule."""
        return IopsRule(
            io_unit_bytes=self.unit,
            is_provisioned=self.is_provisioned,
            is_declared=self.is_declared,
            included=self.included,
            min=self.min,
            max=self.max,
            per_gib=self.per_gib,
            per_gib_min=self.per_gib_min,
            per_gib_max=self.per_gib_max,
            base=self.base,
            provisioned_from_bytes=self.provisioned_from,
        )


class ByIopsRow(_Strict):
    """One piece of a throughput that follows from the IOPS."""

    per_iops: Bandwidth
    max: Bandwidth


class BySizeRow(_Strict):
    """One step of a throughput that follows from the size."""

    to: Size
    limit: Bandwidth


class ThroughputRow(_Fact):
    """How many bytes per second."""

    is_provisioned: bool = False
    is_declared: bool = False
    included: Bandwidth | None = None
    min: Bandwidth | None = None
    max: Bandwidth | None = None
    per_iops_min: Bandwidth | None = None
    per_iops_max: Bandwidth | None = None
    per_tib: Bandwidth | None = None
    by_iops: tuple[ByIopsRow, ...] = ()
    by_size: tuple[BySizeRow, ...] = ()
    base: Bandwidth | None = None
    step: Literal["MiB/s", "MB/s"] = "MiB/s"

    def rule(self) -> ThroughputRule:
        """The row as a rule."""
        return ThroughputRule(
            is_provisioned=self.is_provisioned,
            is_declared=self.is_declared,
            included=self.included,
            min=self.min,
            max=self.max,
            per_iops_min=self.per_iops_min,
            per_iops_max=self.per_iops_max,
            per_tib=self.per_tib,
            by_iops=tuple(ThroughputByIops(row.per_iops, row.max) for row in self.by_iops),
            by_size=tuple(ThroughputBySize(row.to, row.limit) for row in self.by_size),
            base=self.base or 0.0,
            step=float(MIB if self.step == "MiB/s" else 1_000_000),
        )


class StripeRow(_Fact):
    """From which size on a provider stripes by itself, and over how many."""

    from_: Annotated[Size, Field(alias="from")]
    members: Annotated[int, Field(gt=1)]
    max_iops: Positive | None = None

    def rule(self) -> StripeRule:
        """The row as a rule."""
        return StripeRule(self.from_, self.members, self.max_iops)


class WithoutNitroRow(_Fact):
    """What instances that are not built on Nitro can do with a type."""

    attached_iops: Positive
    reached_iops: Positive

    def rule(self) -> WithoutNitroRule:
        """The row as a rule."""
        return WithoutNitroRule(self.attached_iops, self.reached_iops)


class BurstRow(_Fact):
    """Credits."""

    kind: Literal["iops", "bytes"]
    capacity: Positive | None = None
    capacity_per_tib: Size | None = None
    rate: Positive | None = None
    rate_per_tib: Bandwidth | None = None
    rate_max: Bandwidth | None = None

    def rule(self) -> BurstRule:
        """The row as a rule."""
        return BurstRule(
            kind=self.kind,
            capacity=self.capacity,
            capacity_per_tib=self.capacity_per_tib,
            rate=self.rate,
            rate_per_tib=self.rate_per_tib,
            rate_max=self.rate_max,
        )


class LatencyRow(_Fact):
    """Base latency in microseconds."""

    read_us_p50: Positive
    read_us_p99: Positive
    write_us_p50: Positive
    write_us_p99: Positive
    base: Size = Bytes(0)
    read_us_per_mib: Annotated[float, Field(ge=0)] = 0.0
    write_us_per_mib: Annotated[float, Field(ge=0)] = 0.0

    def latency(self) -> Latency:
        """The row as the model's value."""
        return Latency(
            self.read_us_p50,
            self.read_us_p99,
            self.write_us_p50,
            self.write_us_p99,
            self.base,
            self.read_us_per_mib,
            self.write_us_per_mib,
        )


class MechanicsRow(_Fact):
    """A hard disk's seek and rotation, in microseconds."""

    track_seek_us: Positive
    mean_seek_us: Positive
    turn_us: Positive
    media: Bandwidth
    is_serial: bool

    def mechanics(self) -> Mechanics:
        """The row as the model's value."""
        return Mechanics(
            self.track_seek_us, self.mean_seek_us, self.turn_us, self.media, self.is_serial
        )


class FirstTouchRow(_Fact):
    """What a block that is still in the snapshot takes, and how many come."""

    us_p50: Positive
    us_p99: Positive
    rate: Bandwidth


class SnapshotRow(_Fact):
    """How the volumes of a file's types are restored from snapshots."""

    block: Size
    rate_min: Bandwidth
    rate_max: Bandwidth
    fast_max: Size
    first_touch: FirstTouchRow

    def rule(self) -> SnapshotRule:
        """The row as a rule."""
        return SnapshotRule(
            block_bytes=self.block,
            us_p50=self.first_touch.us_p50,
            us_p99=self.first_touch.us_p99,
            rate=self.first_touch.rate,
            rate_min=self.rate_min,
            rate_max=self.rate_max,
            fast_max_bytes=self.fast_max,
        )


class VolatileCacheRow(_Fact):
    """Whether devices show the kernel a cache that a power loss empties."""

    is_shown: bool


class DurabilityRow(_Fact):
    """The share of volumes lost in a year; None: not known."""

    annual_failure_rate: Annotated[float, Field(gt=0, lt=1)] | None = None


class TierRow(_Strict):
    """One price tier of IOPS."""

    over: Annotated[float, Field(ge=0)]
    usd: Usd


class PriceRow(_Fact):
    """A type's prices in one region."""

    usd_per_gib: Usd | None = None
    iops_tiers: tuple[TierRow, ...] = ()
    usd_per_mibps: Usd | None = None
    usd_per_mbps: Usd | None = None  # where the provider sells decimal MB/s
    usd_fixed: Usd = 0.0
    is_included: bool = False
    iops_known_to: Positive | None = None

    def price(self) -> TypePrice:
        """The row as a value."""
        per_mibps = self.usd_per_mibps
        if self.usd_per_mbps is not None:
            per_mibps = self.usd_per_mbps * MIB / 1_000_000
        return TypePrice(
            provenance=self.provenance,
            usd_per_gib=self.usd_per_gib,
            iops_tiers=tuple(PriceTier(tier.over, tier.usd) for tier in self.iops_tiers),
            usd_per_mibps=per_mibps,
            usd_fixed=self.usd_fixed,
            is_included=self.is_included,
            iops_known_to=self.iops_known_to,
        )


class SnapshotPriceRow(_Fact):
    """What snapshots cost in one region."""

    usd_per_gib: Usd
    archive_usd_per_gib: Usd | None = None
    fast_restore_usd_hour: Usd | None = None

    def price(self) -> SnapshotPrice:
        """The row as a value."""
        return SnapshotPrice(
            self.provenance,
            self.usd_per_gib,
            self.archive_usd_per_gib,
            self.fast_restore_usd_hour,
        )


class TypeRow(_Strict):
    """A volume type."""

    title: Text
    platforms: tuple[Literal["ec2", "rds", "gce", "azure", "local"], ...]
    is_ephemeral: bool = False
    is_hdd: bool = False
    is_local: bool = False
    volatile_cache: VolatileCacheRow | None = None  # None: as all of its file
    size: SizeRow
    iops: IopsRow
    throughput: ThroughputRow
    latency: LatencyRow
    durability: DurabilityRow
    burst: BurstRow | None = None
    mechanics: MechanicsRow | None = None
    stripe: StripeRow | None = None
    without_nitro: WithoutNitroRow | None = None
    holds: Literal["anything", "wal"] = "anything"
    goes_with: tuple[str, ...] = ()

    def volume_type(
        self, name: str, prices: dict[str, TypePrice], of_file: "CatalogFile"
    ) -> VolumeType:
        """The row as a value, with its prices by region and what holds for all of its file."""
        snapshot, cache = of_file.snapshot, self.volatile_cache or of_file.volatile_cache
        groups: dict[str, _Fact | None] = {
            "size": self.size,
            "stripe": self.stripe,
            "iops": self.iops,
            "throughput": self.throughput,
            "without_nitro": self.without_nitro,
            "burst": self.burst,
            "latency": self.latency,
            "mechanics": self.mechanics,
            "durability": self.durability,
            "volatile_cache": cache,
            "snapshot": snapshot,
            "first_touch": snapshot.first_touch if snapshot else None,
        }
        return VolumeType(
            name=name,
            title=self.title,
            platforms=self.platforms,
            latency=self.latency.latency(),
            iops_rule=self.iops.rule(),
            throughput_rule=self.throughput.rule(),
            burst_rule=self.burst.rule() if self.burst else None,
            min_size_bytes=self.size.min,
            max_size_bytes=self.size.max,
            size_step_bytes=self.size.step,
            annual_failure_rate=self.durability.annual_failure_rate,
            is_ephemeral=self.is_ephemeral,
            is_hdd=self.is_hdd,
            is_local=self.is_local,
            prices=prices,
            mechanics=self.mechanics.mechanics() if self.mechanics else None,
            snapshot_rule=snapshot.rule() if snapshot else None,
            stripe_rule=self.stripe.rule() if self.stripe else None,
            without_nitro=self.without_nitro.rule() if self.without_nitro else None,
            holds=self.holds,
            has_volatile_cache=cache is not None and cache.is_shown,
            goes_with=self.goes_with,
            facts={k: f.provenance for k, f in groups.items() if f},
        )


class PartRow(_Fact):
    """One part of the way of a write: a range, or how it follows from the type."""

    where: Literal["kernel", "host", "network", "device", "provider"]
    what: Text
    us: tuple[Positive, Positive] | None = None
    us_at_most_of: str | None = None
    is_rest: bool = False
    is_seek: bool = False
    is_turn: bool = False

    def rule(self) -> PartRule:
        """The row as a rule."""
        return PartRule(
            where=self.where,
            what=self.what,
            provenance=self.provenance,
            us=self.us,
            at_most_of=self.us_at_most_of,
            is_rest=self.is_rest,
            is_seek=self.is_seek,
            is_turn=self.is_turn,
        )


class CatalogFile(_Strict):
    """One data file: types, or prices by region and type."""

    types: dict[str, TypeRow] = {}
    snapshot: SnapshotRow | None = None
    volatile_cache: VolatileCacheRow | None = None
    prices: dict[str, dict[str, PriceRow]] = {}
    snapshots: dict[str, SnapshotPriceRow] = {}  # of EBS volumes
    backups: dict[str, SnapshotPriceRow] = {}  # of RDS
    anatomy: dict[Literal["ebs", "cloud", "local"], tuple[PartRow, ...]] = {}
