"""A provider's rules of one volume type as values: as the data files state them.

Rates are in bytes per second. All are of one volume; where the provider makes one of several
(RDS), of one of those, and :mod:`pgstow.catalog.managed` makes them the whole's.
"""

from dataclasses import dataclass

from pgstow.model import Provenance
from pgstow.units import MIB, Bytes, BytesPerSecond


@dataclass(frozen=True, slots=True)
class PriceTier:
    """What each IOPS over ``over_iops`` costs a month, up to where the next tier begins."""

    over_iops: float
    usd: float


@dataclass(frozen=True, slots=True)
class TypePrice:
    """A type's prices in one region. ``is_included``: it comes with the instance, at no charge.

    Throughput is priced for each MiB/s over what is included, also where the provider says MB/s.
    """

    provenance: Provenance
    usd_per_gib: float | None
    iops_tiers: tuple[PriceTier, ...] = ()
    usd_per_mibps: float | None = None
    is_included: bool = False
    usd_fixed: float = 0.0  # whatever the size
    iops_known_to: float | None = None  # beyond it the price of IOPS is not known; None: all are


@dataclass(frozen=True, slots=True)
class IopsRule:
    """The operations per second a type allows.

    ``included`` come without asking; ``per_gib`` is a baseline that grows with the size;
    ``per_gib_min`` and ``per_gib_max`` bound what may be provisioned: where ``included`` or
    ``min`` is above the latter, that much may be had at any size. ``is_declared``: no provider,
    so a layout may say what the disk can do.
    """

    io_unit_bytes: int
    is_provisioned: bool = False
    is_declared: bool = False
    included: float | None = None
    min: float | None = None
    max: float | None = None
    per_gib: float | None = None
    per_gib_min: float | None = None
    per_gib_max: float | None = None
    base: float = 0.0  # what comes beside ``per_gib``
    provisioned_from_bytes: Bytes | None = None  # below it nothing may be set; None: always

    @property
    def floor(self) -> float:
        """What may be had at any size."""
        return max(self.included or 0.0, self.min or 0.0)


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
    """The bytes per second a type allows; at most one of the ways to say so is used.

    What is provisioned is sold by ``step``: a MiB/s, or an MB/s.
    """

    is_provisioned: bool = False
    is_declared: bool = False
    included: BytesPerSecond | None = None
    min: BytesPerSecond | None = None
    max: BytesPerSecond | None = None
    per_iops_min: BytesPerSecond | None = None
    per_iops_max: BytesPerSecond | None = None
    per_tib: BytesPerSecond | None = None
    by_iops: tuple[ThroughputByIops, ...] = ()
    by_size: tuple[ThroughputBySize, ...] = ()
    base: float = 0.0  # what comes beside ``per_tib``
    step: float = float(MIB)

    @property
    def floor(self) -> float:
        """What may be had with any IOPS."""
        return max(self.included or 0.0, self.min or 0.0)

    @property
    def unit(self) -> str:
        """How the provider writes it."""
        return "MiB/s" if self.step == MIB else "MB/s"


@dataclass(frozen=True, slots=True)
class StripeRule:
    """A provider's own stripe: volumes from ``from_bytes`` on are made of ``members``.

    The type's other rules are then those of one member, but for ``max_iops``, of all together.
    """

    from_bytes: Bytes
    members: int
    max_iops: float | None = None
