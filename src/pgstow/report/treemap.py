"""Rectangles whose areas are in proportion to sizes: a squarified treemap."""

from collections.abc import Sequence
from dataclasses import dataclass

import squarify as treemap


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, in the units of the drawing."""

    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], into: Box) -> tuple[Box, ...]:
    """Divide a box among positive sizes, in their order; the cells are as square as can be.

    Largest first looks best.

    >>> squarify([3, 1], Box(0, 0, 4, 1))
    (Box(x=0, y=0, width=3.0, height=1.0), Box(x=3.0, y=0, width=1.0, height=1.0))
    """
    if sum(sizes) <= 0 or into.width <= 0 or into.height <= 0:
        return tuple(Box(into.x, into.y, 0.0, 0.0) for _ in sizes)
    areas = treemap.normalize_sizes(sizes, into.width, into.height)
    cells = treemap.squarify(areas, into.x, into.y, into.width, into.height)
    return tuple(Box(one["x"], one["y"], one["dx"], one["dy"]) for one in cells)
