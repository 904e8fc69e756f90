"""What volume types and instances offer and cost, from dated data files with a source each."""

from typing import TYPE_CHECKING

from pgstow.catalog.anatomy import Anatomy, Part
from pgstow.catalog.catalog import Catalog
from pgstow.catalog.effective import EffectiveLimits, Limit
from pgstow.catalog.types import (
    DEFAULT_REGION,
    BurstRule,
    DiskSpeed,
    Instance,
    InstancePrice,
    SnapshotPrice,
    VolumeType,
    default_region,
)
from pgstow.lazy_import import reader
from pgstow.rules import (
    IopsRule,
    PriceTier,
    StripeRule,
    ThroughputByIops,
    ThroughputBySize,
    ThroughputRule,
    TypePrice,
)

if TYPE_CHECKING:
    from pgstow.catalog.loading import load, load_shipped
else:
    __getattr__ = reader(__name__, {"loading": ("load", "load_shipped")})

__all__ = [
    "DEFAULT_REGION",
    "Anatomy",
    "BurstRule",
    "Catalog",
    "DiskSpeed",
    "EffectiveLimits",
    "Instance",
    "InstancePrice",
    "IopsRule",
    "Limit",
    "Part",
    "PriceTier",
    "SnapshotPrice",
    "StripeRule",
    "ThroughputByIops",
    "ThroughputBySize",
    "ThroughputRule",
    "TypePrice",
    "VolumeType",
    "default_region",
    "load",
    "load_shipped",
]
