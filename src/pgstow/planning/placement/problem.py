"""The placement problem as arrays, and its answer.

With items i (relations), singles j (the WAL, temporary files), shapes c (kinds of volume, with size
and performance still open), and the four uses of a volume: GiB, thousands of IOPS, MiB/s, and
milliseconds that one transaction waits:

    x[i,c] in {0,1}   item or single i lies on shape c
    y[c]   in {0,1}   shape c is bought (or kept)
    s[c], p[c], t[c]  its GiB (whole ones of each member), thousands of IOPS, MiB/s

Minimise   sum_c  gib$ s + iops$ (p - free y) + mibps$ (t - included y) + what moves cost
           + a little for each new volume
subject to

    assign    sum_c x[i,c] = 1                               everything lies somewhere
    buy       x[i,c] <= y[c]                                 only on what is bought
    size      sum_i gib[i] x[i,c] <= (1 - free) s[c]         it fits
    iops      sum_i iops[i,c] x[i,c] <= (1 - headroom) p[c]
    bytes     sum_i bytes[i,c] x[i,c] <= (1 - headroom) t[c]
    rules     the type's own ratios between s, p and t
    host      sum over all volumes on the network <= the instance's own cap
    response  sum wait[i,c] x[i,c] <= what a transaction may wait
    count     sum_c y[c] <= max_volumes;  of each group of shapes at most one
    moves     sum gib[i] x[i,c] over all that lie elsewhere than now <= max_move

An item's uses are linear in its demand, which is what makes a million of them cheap to price.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgstow.planning.shapes import Shape

USES = 4
GIB, IOPS, BYTES, WAIT = range(USES)  # GiB, thousands a second, MiB/s, ms of one transaction

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def product(left: Floats, right: Floats) -> Floats:
    """The matrix product, without BLAS.

    Products here are narrow. A BLAS with threads shares them out, and its threads then wait busily
    on the cores, which makes the solver beside them half as fast where two share one processor.

    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    found: Floats = np.einsum("ik,kj->ij", left, right)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """What is placed in bulk: ``demand`` is items × resources, the first of them GiB."""

    demand: Floats
    kind: Ints  # of each item, a row of Kinds

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """What items have in common beside their demand; both are kinds × shapes."""

    allowed: Bools
    move_usd_per_gib: Floats  # 0 where a shape is the volume they lie on

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)


@dataclass(frozen=True, slots=True, eq=False)
class Singles:
    """What is placed by itself, with uses that need not be linear: singles × shapes."""

    use: Floats  # singles × shapes × USES
    allowed: Bools
    move_usd: Floats
    alone: frozenset[int] = frozenset()  # those that share a volume with nothing

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)

    @classmethod
    def none(cls, shapes: int) -> "Singles":
        """No singles."""
        return cls(
            np.zeros((0, shapes, USES)), np.zeros((0, shapes), dtype=bool), np.zeros((0, shapes))
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """One placement problem. Limits of None do not bind."""

    shapes: tuple[Shape, ...]
    use_per_demand: Floats  # shapes × USES × resources
    items: Items
    kinds: Kinds
    singles: Singles
    free_space: float
    headroom: float
    response_ms: float | None
    host_kiops: float | None
    host_mibps: float | None
    max_volumes: int
    groups: tuple[tuple[int, ...], ...] = ()  # shapes of which at most one is used
    new_volume_usd: float = 0.01  # so that of equal prices fewer volumes win
    max_move_gib: float | None = None  # see placement.moving
    pace: float = 1.0  # how many times as many transactions as the uses are for

    @property
    def used(self) -> float:
        """What uses may fill of IOPS and throughput: at twice the pace, half as much."""
        return (1 - self.headroom) / self.pace


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is bought of one shape: of the whole array."""

    shape: int
    gib: float
    kiops: float
    mibps: float


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An assignment with its sizes; no other of the problem costs less than ``bound_usd``."""

    item_shape: Ints
    single_shape: Ints
    volumes: tuple[Sizes, ...]
    usd_month: float
    bound_usd: float
    prices: Floats = field(default_factory=lambda: np.zeros((0, USES)))  # of uses, shapes × USES
