"""Heat: I/O per second per GiB, in classes on a logarithmic scale that a whole page shares."""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from pgstow.units import BLOCK_BYTES, GIB

CLASSES = 6  # beside the class of what is never asked
_WIDEST = 5  # decades; what is colder than the hottest by more is all alike
_FLOOR_GIB = BLOCK_BYTES / GIB  # a relation of one block: its density is no more than that


@dataclass(frozen=True, slots=True)
class Scale:
    """Lower bounds of classes 2, 3, …; class 0 is nothing at all."""

    bounds: tuple[float, ...]

    def heat(self, density: float | None) -> int | None:
        """The class of a density; None: not known."""
        if density is None:
            return None
        return 0 if density <= 0 else 1 + bisect_right(self.bounds, density)

    @classmethod
    def of(cls, densities: Iterable[float]) -> "Scale":
        """A scale for what there is to show, with bounds that are easy to read.

        >>> Scale.of([0.2, 5, 4000]).bounds
        (1.0, 5.0, 20.0, 200.0, 1000.0)
        """
        found = [density for density in densities if density > 0]
        if not found:
            return cls(())
        high = math.log10(max(found))
        low = max(math.log10(min(found)), high - _WIDEST)
        step = max((high - low) / CLASSES, 0.2)
        rounded = (_readable(10 ** (low + step * index)) for index in range(1, CLASSES))
        return cls(tuple(sorted(set(rounded))))


def _readable(value: float) -> float:
    """The nearest 1, 2 or 5 times a power of ten, by ratio."""
    power = 10.0 ** math.floor(math.log10(value))
    options = (1.0, 2.0, 5.0, 10.0)
    nearest = min(options, key=lambda option: abs(math.log(value / power / option)))
    return float(f"{nearest * power:.3g}")


def density(per_second: float, size_bytes: float) -> float:
    """I/O per second per GiB."""
    return per_second / max(size_bytes / GIB, _FLOOR_GIB)
