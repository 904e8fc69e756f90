"""The placement problem as arrays, and its answer.

With items i (relations; special items: the WAL, temporary files), candidate volumes c (a volume
type with a number of members, size and performance still open), and the four uses of a volume: GiB,
thousands of IOPS, MiB/s, and milliseconds that one transaction waits:

    x[i,c] in {0,1}   item i is placed on candidate c
    y[c]   in {0,1}   candidate c is bought (or kept)
    s[c], p[c], t[c]  its GiB (whole ones of each member), thousands of IOPS, MiB/s

Minimise   sum_c  gib$ s + iops$ (p - free y) + mibps$ (t - included y)
subject to

    assign    sum_c x[i,c] = 1                               every item is placed
    buy       x[i,c] <= y[c]                                 only on what is bought
    size      sum_i gib[i] x[i,c] <= (1 - free) s[c]         it fits
    iops      sum_i iops[i,c] x[i,c] <= (1 - headroom) p[c]
    bytes     sum_i bytes[i,c] x[i,c] <= (1 - headroom) t[c]
    rules     the type's own ratios between s, p and t
    host      sum over all volumes on the network <= the instance's own cap
    response  sum wait[i,c] x[i,c] <= what a transaction may wait
    count     sum_c y[c] <= max_volumes;  of each group of candidates at most one
    moves     sum gib[i] x[i,c] over all c but the current volume <= max_move

The bound is of this price alone. Among solutions of about the same price, ties are broken by
``tied``: it adds a little for each GiB that moves and for each new volume.

An item's uses are linear in its demand, which is what makes a million of them cheap to price.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from pgstow.planning.candidate_volume import CandidateVolume

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
    item_class: Ints  # of each item, a row of ItemClasses

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.item_class)


@dataclass(frozen=True, slots=True, eq=False)
class ItemClasses:
    """What items have in common beside their demand; both are item classes × candidates."""

    allowed: Bools
    is_moved: Bools  # False where the candidate is their current volume

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)


@dataclass(frozen=True, slots=True, eq=False)
class SpecialItems:
    """What is placed by itself, with uses that need not be linear: WAL, temporary files."""

    use: Floats  # special items × candidates × USES
    allowed: Bools
    is_moved: Bools
    exclusive: frozenset[int] = frozenset()  # those that share their volume with nothing

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)

    @classmethod
    def none(cls, candidates: int) -> "SpecialItems":
        """No special items."""
        return cls(
            np.zeros((0, candidates, USES)),
            np.zeros((0, candidates), dtype=bool),
            np.zeros((0, candidates), dtype=bool),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """One placement problem. Limits of None do not bind."""

    candidates: tuple[CandidateVolume, ...]
    use_per_demand: Floats  # candidates × USES × resources
    items: Items
    item_classes: ItemClasses
    special_items: SpecialItems
    free_space: float
    headroom: float
    response_ms: float | None
    host_kiops: float | None
    host_mibps: float | None
    max_volumes: int
    groups: tuple[tuple[int, ...], ...] = ()  # candidates of which at most one is used
    new_volume_usd: float = 0.0  # see ``tied``
    move_usd_per_gib: float = 0.0  # see ``tied`` and placement.moving
    max_move_gib: float | None = None
    is_priced: bool = True  # False: volumes cost nothing, as where only feasibility is asked
    load_factor: float = 1.0  # how many times as many transactions as the uses are for

    @property
    def used(self) -> float:
        """The share of IOPS and throughput that uses may fill: at twice the load, half as much."""
        return (1 - self.headroom) / self.load_factor

    @property
    def class_move_usd(self) -> Floats:
        """Dollars for a GiB of each item class on each candidate: item classes × candidates."""
        usd: Floats = np.where(self.item_classes.is_moved, self.move_usd_per_gib, 0.0)
        return usd

    @property
    def special_move_usd(self) -> Floats:
        """Dollars for each special item on each candidate: special items × candidates."""
        usd: Floats = (
            self.move_usd_per_gib * self.special_items.is_moved * self.special_items.use[:, :, GIB]
        )
        return usd


TIE_USD_PER_GIB = 0.0002  # of what moves: a month of gp3 in 400
TIE_USD_PER_VOLUME = 0.01  # of what is new
TIE_SHARE, TIE_USD = 1e-3, 0.01  # prices this close, as a share or in dollars, are about the same


def tied(problem: PlacementProblem) -> PlacementProblem:
    """The problem in which a move and a new volume cost a little, so that ties are broken."""
    return replace(
        problem,
        new_volume_usd=TIE_USD_PER_VOLUME,
        move_usd_per_gib=problem.move_usd_per_gib + TIE_USD_PER_GIB,
    )


class NoSolution(Enum):
    """Why there is no solution: it is proved that none exists, or the search ended before."""

    INFEASIBLE = "infeasible"
    NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is bought of one candidate: the sums over its members."""

    candidate: int
    gib: float
    kiops: float
    mibps: float


@dataclass(frozen=True, slots=True, eq=False)
class PlacementSolution:
    """An assignment with its sizes; no other of the problem costs less than ``bound_usd``."""

    item_candidate: Ints
    special_candidate: Ints
    volumes: tuple[Sizes, ...]
    usd_month: float
    bound_usd: float
    # of uses, candidates × USES
    dual_prices: Floats = field(default_factory=lambda: np.zeros((0, USES)))

    @property
    def is_proven(self) -> bool:
        """Whether there is a bound at all."""
        return bool(np.isfinite(self.bound_usd))


def moved_gib(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """How many GiB a solution moves from their current volumes."""
    items, special_items = problem.items, problem.special_items
    moves = problem.item_classes.is_moved[items.item_class, placed.item_candidate]
    each = np.arange(special_items.count)
    at = placed.special_candidate[: special_items.count]
    others = special_items.use[each, at, GIB] * special_items.is_moved[each, at]
    return float(items.demand[moves, 0].sum()) + float(others.sum())


def ties_usd(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """How much more a solution costs in ``tied(problem)`` than in ``problem``."""
    new = sum(problem.candidates[one.candidate].existing is None for one in placed.volumes)
    return TIE_USD_PER_GIB * moved_gib(problem, placed) + new * TIE_USD_PER_VOLUME
