"""Placement: put a million relations on a handful of volumes, size them, and bound the price."""

from pgstow.planning.placement.problem import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    ItemClasses,
    Items,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    Sizes,
    SpecialItems,
    moved_gib,
)
from pgstow.planning.placement.solver import Series, is_small, place

__all__ = [
    "BYTES",
    "GIB",
    "IOPS",
    "USES",
    "WAIT",
    "ItemClasses",
    "Items",
    "NoSolution",
    "PlacementProblem",
    "PlacementSolution",
    "Series",
    "Sizes",
    "SpecialItems",
    "is_small",
    "moved_gib",
    "place",
]
