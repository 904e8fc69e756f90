"""What volume types and instances offer and cost, from dated data files with a source each."""

from pgstow.catalog.catalog import Catalog
from pgstow.catalog.effective import EffectiveLimits, Limit
from pgstow.catalog.loading import load
from pgstow.catalog.types import (
    DEFAULT_REGION,
    BurstRule,
    Instance,
    IopsRule,
    PriceTier,
    ThroughputByIops,
    ThroughputBySize,
    ThroughputRule,
    TypePrice,
    VolumeType,
)

__all__ = [
    "DEFAULT_REGION",
    "BurstRule",
    "Catalog",
    "EffectiveLimits",
    "Instance",
    "IopsRule",
    "Limit",
    "PriceTier",
    "ThroughputByIops",
    "ThroughputBySize",
    "ThroughputRule",
    "TypePrice",
    "VolumeType",
    "load",
]
