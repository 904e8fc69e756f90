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
from pgstow.rules.refusal import Refusal, refusal
from pgstow.rules.volume_rules import Asked, Sold, VolumeRules

__all__ = [
    "Asked",
    "IopsRule",
    "Linear",
    "Piece",
    "PriceTier",
    "Refusal",
    "Sold",
    "StripeRule",
    "ThroughputByIops",
    "ThroughputBySize",
    "ThroughputRule",
    "TypePrice",
    "VolumeRules",
    "pieces",
    "refusal",
]
