"""The placement problem as arrays, and its answer.

With items i (relations), singles j (the WAL, temporary files), candidates c (kinds of volume, with
size and performance still open), and the four uses of a volume: GiB, thousands of IOPS, MiB/s, and
milliseconds that one transaction waits:

    x[i,c] in {0,1}   item or single i lies on candidate c
    y[c]   in {0,1}   candidate c is bought (or kept)
    s[c], p[c], t[c]  its GiB (whole ones of each member), thousands of IOPS, MiB/s

Minimise   sum_c  gib$ s + iops$ (p - free y) + mibps$ (t - included y)
subject to

    assign    sum_c x[i,c] = 1                               everything lies somewhere
    buy       x[i,c] <= y[c]                                 only on what is bought
    size      sum_i gib[i] x[i,c] <= (1 - free) s[c]         it fits
    iops      sum_i iops[i,c] x[i,c] <= (1 - headroom) p[c]
    bytes     sum_i bytes[i,c] x[i,c] <= (1 - headroom) t[c]
    rules     the type's own ratios between s, p and t
    host      sum over all volumes on the network <= the instance's own cap
    response  sum wait[i,c] x[i,c] <= what a transaction may wait
    count     sum_c y[c] <= max_volumes;  of each group of candidates at most one
    moves     sum gib[i] x[i,c] over all that lie elsewhere than now <= max_move

The bound is of this price alone. Among arrangements of about the same price, ties are broken by
``tied``: with a little for each GiB that moves and for each new volume.

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
    kind: Ints  # of each item, a row of ItemClasses

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class ItemClasses:
    """What items have in common beside their demand; both are kinds × candidates."""

    allowed: Bools
    away: Bools  # False where a candidate is the volume they lie on now

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)


@dataclass(frozen=True, slots=True, eq=False)
class SpecialItems:
    """What is placed by itself, with uses that need not be linear: singles × candidates."""

    use: Floats  # singles × candidates × USES
    allowed: Bools
    away: Bools
    alone: frozenset[int] = frozenset()  # those that share a volume with nothing

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.allowed)

    @classmethod
    def none(cls, candidates: int) -> "SpecialItems":
        """No singles."""
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
    kinds: ItemClasses
    singles: SpecialItems
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
        """What uses may fill of IOPS and throughput: at twice the load_factor, half as much."""
        return (1 - self.headroom) / self.load_factor

    @property
    def class_move_usd(self) -> Floats:
        """Dollars for a GiB of each kind on each candidate: kinds × candidates."""
        usd: Floats = np.where(self.kinds.away, self.move_usd_per_gib, 0.0)
        return usd

    @property
    def special_move_usd(self) -> Floats:
        """Dollars for each single on each candidate: singles × candidates."""
        usd: Floats = self.move_usd_per_gib * self.singles.away * self.singles.use[:, :, GIB]
        return usd


TIE_USD_PER_GIB = 0.0002  # of what moves: a month of gp3 in 400
TIE_USD_PER_VOLUME = 0.01  # of what is new
TIE_SHARE, TIE_USD = 1e-3, 0.01  # how much dearer, of the price and in dollars, is about the same


def tied(problem: PlacementProblem) -> PlacementProblem:
    """The problem with which ties are broken: nothing moves and nothing is bought for nothing."""
    return replace(
        problem,
        new_volume_usd=TIE_USD_PER_VOLUME,
        move_usd_per_gib=problem.move_usd_per_gib + TIE_USD_PER_GIB,
    )


class Missing(Enum):
    """Why there is no arrangement: it is proved that none is, or the search ended before either."""

    INFEASIBLE = "infeasible"
    NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is bought of one candidate: of the whole array."""

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
    prices: Floats = field(
        default_factory=lambda: np.zeros((0, USES))
    )  # of uses, candidates × USES

    @property
    def is_proven(self) -> bool:
        """Whether there is a bound at all."""
        return bool(np.isfinite(self.bound_usd))


def moved_gib(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """How much of an answer lies elsewhere than now."""
    items, singles = problem.items, problem.singles
    moves = problem.kinds.away[items.kind, placed.item_candidate]
    each = np.arange(singles.count)
    at = placed.special_candidate[: singles.count]
    others = singles.use[each, at, GIB] * singles.away[each, at]
    return float(items.demand[moves, 0].sum()) + float(others.sum())


def ties_usd(problem: PlacementProblem, placed: PlacementSolution) -> float:
    """How much dearer ``tied(problem)`` has an answer than ``problem``."""
    new = sum(problem.candidates[one.candidate].existing is None for one in placed.volumes)
    return TIE_USD_PER_GIB * moved_gib(problem, placed) + new * TIE_USD_PER_VOLUME
