"""What one volume of a type may be, does and costs: the only place where this is derived."""

from pgstow.rules.facts import (
    IopsRule,
    PriceTier,
    StripeRule,
    ThroughputByIops,
    ThroughputBySize,
    ThroughputRule,
    TypePrice,
)
from pgstow.rules.pieces import Linear, Piece, pieces
from pgstow.rules.violation import Violation, violation
from pgstow.rules.volume_rules import ProvisionedVolume, Requirement, VolumeRules

__all__ = [
    "IopsRule",
    "Linear",
    "Piece",
    "PriceTier",
    "ProvisionedVolume",
    "Requirement",
    "StripeRule",
    "ThroughputByIops",
    "ThroughputBySize",
    "ThroughputRule",
    "TypePrice",
    "Violation",
    "VolumeRules",
    "pieces",
    "violation",
]
