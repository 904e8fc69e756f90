"""Rectangles whose areas are in proportion to sizes: a squarified treemap. Pure geometry."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, in the units of the drawing."""

    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], into: Box) -> tuple[Box, ...]:
    """Divide a box among positive sizes, in their order; the cells are as square as can be.

    After Bruls, Huizing and van Wijk, Squarified Treemaps (2000). Largest first looks best.

    >>> squarify([3, 1], Box(0, 0, 4, 1))
    (Box(x=0, y=0, width=3.0, height=1.0), Box(x=3.0, y=0, width=1.0, height=1.0))
    """
    total = sum(sizes)
    if total <= 0 or into.width <= 0 or into.height <= 0:
        return tuple(Box(into.x, into.y, 0.0, 0.0) for _ in sizes)
    scale = into.width * into.height / total
    areas = [size * scale for size in sizes]
    cells: list[Box] = []
    left, start = into, 0
    while start < len(areas):
        end = _row_end(areas, start, min(left.width, left.height))
        row, left = _laid(areas[start:end], left)
        cells += row
        start = end
    return tuple(cells)


def _row_end(areas: Sequence[float], start: int, side: float) -> int:
    """Where the row that begins at ``start`` ends: while its worst cell gets squarer."""
    end = start + 1
    total = largest = smallest = areas[start]
    while end < len(areas):
        area = areas[end]
        wider = _worst(total + area, max(largest, area), min(smallest, area), side)
        if wider > _worst(total, largest, smallest, side):
            break
        total, largest, smallest = total + area, max(largest, area), min(smallest, area)
        end += 1
    return end


def _worst(total: float, largest: float, smallest: float, side: float) -> float:
    """The worst aspect ratio of a row's cells along a side."""
    if total <= 0 or smallest <= 0 or side <= 0:
        return float("inf")
    square = side * side
    return max(square * largest / total**2, total**2 / (square * smallest))


def _laid(row: Sequence[float], left: Box) -> tuple[list[Box], Box]:
    """Lay a row along the shorter side; returns its cells and what is left."""
    total = sum(row)
    cells = []
    if left.width >= left.height:
        width = total / left.height if left.height else 0.0
        y = left.y
        for area in row:
            height = area / width if width else 0.0
            cells.append(Box(left.x, y, width, height))
            y += height
        return cells, Box(left.x + width, left.y, max(0.0, left.width - width), left.height)
    height = total / left.width if left.width else 0.0
    x = left.x
    for area in row:
        width = area / height if height else 0.0
        cells.append(Box(x, left.y, width, height))
        x += width
    return cells, Box(left.x, left.y + height, left.width, max(0.0, left.height - height))
