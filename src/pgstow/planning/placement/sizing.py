"""The part of the model that is about volumes: their variables, their types' rules, their rows.

Columns 4 c + (0..3) are y, whole GiB of a member, thousands of IOPS and MiB/s of candidate c. Where
what is sold is no convex set, it is in pieces of which one is bought: each has four such columns
of its own further on, and the candidate's are their sums. The rows of uses come first, in the order
that :class:`UseRows` names; the rules follow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import highspy
import numpy as np

from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.placement.problem import (
    BYTES,
    GIB,
    IOPS,
    USES,
    WAIT,
    Floats,
    Ints,
    PlacementProblem,
    Sizes,
)
from pgstow.rules import Linear, Piece, ProvisionedVolume, Requirement, pieces
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB

INFINITY = highspy.kHighsInf
_ROUNDING = 1e-9
Y, N, P, T = range(4)
COLUMNS_PER_CANDIDATE = 4


@dataclass(frozen=True, slots=True)
class UseRows:
    """The rows of uses: size, IOPS, bytes of each candidate, then what all candidates share."""

    candidates: int
    linked: bool  # whether loads are bound to y: 2 rows a candidate more

    @property
    def host_iops(self) -> int:
        """The instance's cap on IOPS."""
        return 3 * self.candidates

    @property
    def host_bytes(self) -> int:
        """The instance's cap on bytes."""
        return 3 * self.candidates + 1

    @property
    def response(self) -> int:
        """What a transaction may wait."""
        return 3 * self.candidates + 2

    @property
    def link(self) -> int:
        """The first row that binds GiB to y; those of IOPS follow."""
        return 3 * self.candidates + 3

    @property
    def count(self) -> int:
        """How many rows of uses there are."""
        return self.link + (2 * self.candidates if self.linked else 0)

    def incidence(self, problem: PlacementProblem) -> Floats:
        """Rows × (candidates × USES): what a use on a candidate counts in each row."""
        rows = np.zeros((self.count, self.candidates, USES))
        for c, candidate in enumerate(problem.candidates):
            for use in (GIB, IOPS, BYTES):
                rows[use * self.candidates + c, c, use] = 1.0
            if not candidate.is_ephemeral:
                rows[self.host_iops, c, IOPS] = 1.0
                rows[self.host_bytes, c, BYTES] = 1.0
            rows[self.response, c, WAIT] = 1.0
            if self.linked:
                rows[self.link + c, c, GIB] = 1.0
                rows[self.link + self.candidates + c, c, IOPS] = 1.0
        return rows.reshape(self.count, -1)


@dataclass(slots=True)
class MilpModel:
    """A linear model under construction, by columns' bounds and rows' entries."""

    cost: list[float] = field(default_factory=list)
    column_lower: list[float] = field(default_factory=list)
    column_upper: list[float] = field(default_factory=list)
    is_integer: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    rows: list[Ints] = field(default_factory=list)
    columns: list[Ints] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def column(self, cost: float, lower: float, upper: float, *, integer: bool = False) -> int:
        """Add a variable; its number."""
        self.cost.append(cost)
        self.column_lower.append(lower)
        self.column_upper.append(upper)
        self.is_integer.append(integer)
        return len(self.cost) - 1

    def row(self, entries: dict[int, float], lower: float, upper: float) -> int:
        """Add a constraint; its number."""
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        index = len(self.row_lower) - 1
        if entries:
            self.entries(
                np.full(len(entries), index),
                np.fromiter(entries, dtype=np.int64),
                [*entries.values()],
            )
        return index

    def entries(self, rows: Ints, columns: Ints, values: Floats | list[float]) -> None:
        """Add coefficients."""
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.asarray(values, dtype=np.float64))

    def highs_lp(self) -> highspy.HighsLp:
        """The model as HiGHS takes it."""
        rows, columns = np.concatenate(self.rows), np.concatenate(self.columns)
        values = np.concatenate(self.values)
        order = np.lexsort((rows, columns))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.row_lower)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_, lp.col_upper_ = np.array(self.column_lower), np.array(self.column_upper)
        lp.row_lower_, lp.row_upper_ = np.array(self.row_lower), np.array(self.row_upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate(
            ([0], np.cumsum(np.bincount(columns, minlength=len(self.cost))))
        )
        lp.a_matrix_.index_, lp.a_matrix_.value_ = rows[order], values[order]
        if any(self.is_integer):
            lp.integrality_ = [
                highspy.HighsVarType.kInteger if one else highspy.HighsVarType.kContinuous
                for one in self.is_integer
            ]
        return lp


def sizing(
    problem: PlacementProblem, rows: UseRows, base: Floats, totals: Floats, *, integer: bool
) -> MilpModel:
    """The volumes' columns and rows. ``base`` (candidates × USES) is load that is there already.

    ``totals`` (candidates × USES) bound what could ever be placed on each candidate, for the rows
    that link.
    """
    model = MilpModel()
    every = [
        _fitting(list(_offers(candidate, problem)), candidate, base[c], problem)
        for c, candidate in enumerate(problem.candidates)
    ]
    for candidate, offers in zip(problem.candidates, every, strict=True):
        is_one = len(offers) == 1
        is_priced = is_one and problem.is_priced
        usd = _usd(candidate, offers[0].piece.usd_month) if is_priced else Linear()
        _columns(model, candidate, usd, _new_usd(candidate, problem), integer=integer and is_one)
    _use_rows(model, problem, rows, base, totals)
    for c, (candidate, offers) in enumerate(zip(problem.candidates, every, strict=True)):
        _rules(model, candidate, offers, c, integer=integer, is_priced=problem.is_priced)
    ys = {COLUMNS_PER_CANDIDATE * c: 1.0 for c in range(len(problem.candidates))}
    model.row(ys, 0.0, float(problem.max_volumes))
    for group in problem.groups:
        model.row({COLUMNS_PER_CANDIDATE * c: 1.0 for c in group}, 0.0, 1.0)
    return model


@dataclass(frozen=True, slots=True)
class _Offer:
    """One piece of what is sold; ``room_gib``: how much more it may hold than a new volume."""

    piece: Piece
    room_gib: float = 0.0


def _offers(candidate: CandidateVolume, problem: PlacementProblem) -> Iterator[_Offer]:
    """What is sold of a candidate; an existing volume that is fuller may also stay as it is."""
    kept = candidate.kept_gib(problem.free_space)
    for piece in pieces(candidate.rules):
        yield _Offer(piece)
        if kept:
            same = replace(piece, max_gib=piece.min_gib)
            if same.min_gib * candidate.stripes * (1 - problem.free_space) < kept:
                room = kept - same.min_gib * candidate.stripes * (1 - problem.free_space)
                yield _Offer(same, room)


def _fitting(
    offers: list[_Offer], candidate: CandidateVolume, there: Floats, problem: PlacementProblem
) -> list[_Offer]:
    """Those that can bear what is there already, less those that others include; all if none."""
    if len(offers) < 2 or not there.any():
        return offers
    members = candidate.stripes
    used = there / problem.used
    asked = Requirement(0.0, used[IOPS] * 1000 / members, used[BYTES] * MIB / members)
    least = candidate.rules.least(asked, is_whole=False)
    if least is None:
        return offers
    able = [one for one in offers if one.piece.max_iops >= least.iops * (1 - _ROUNDING)]
    gib = there[GIB] / (1 - problem.free_space) / members
    left = [
        one for one in able if not any(_holds(other, one, gib) for other in able if other != one)
    ]
    return left or able or offers


def _holds(larger: _Offer, other: _Offer, gib: float) -> bool:
    """Whether the larger one includes all of the other from so many GiB on."""
    a, b = larger.piece, other.piece
    low, high = max(gib, b.min_gib), b.max_gib
    ranges = (
        (a.min_gib, low, high, a.max_gib),
        (a.min_iops, b.min_iops, b.max_iops, a.max_iops),
        (a.min_mibps, b.min_mibps, b.max_mibps, a.max_mibps),
    )
    corners = list(product((low, high), (b.min_iops, b.max_iops), (b.min_mibps, b.max_mibps)))
    return (
        not larger.room_gib
        and not other.room_gib
        and a.usd_month == b.usd_month
        and all(w <= x and y <= z for w, x, y, z in ranges)
        and all(
            bound in b.bounds or all(bound.at(*corner) >= 0 for corner in corners)
            for bound in a.bounds
        )
    )


def _new_usd(candidate: CandidateVolume, problem: PlacementProblem) -> float:
    """What a new volume costs beside its price, to break ties."""
    return problem.new_volume_usd if candidate.existing is None else 0.0


def _usd(candidate: CandidateVolume, one: Linear) -> Linear:
    """A price of one member as the whole array's, for GiB of a member, thousands of IOPS, MiB/s."""
    return Linear(
        one.constant * candidate.stripes, one.gib * candidate.stripes, one.iops * 1000, one.mibps
    )


def _columns(
    model: MilpModel, candidate: CandidateVolume, usd: Linear, new_usd: float, *, integer: bool
) -> int:
    """Add the four variables of a candidate or of one of its pieces; the first one's number."""
    first = model.column(usd.constant + new_usd, 0.0, 1.0, integer=integer)
    # a member is bought in whole GiB: as integers, rounding costs nothing afterwards
    model.column(usd.gib, 0.0, candidate.max_gib / candidate.stripes, integer=integer)
    model.column(usd.iops, 0.0, INFINITY)
    model.column(usd.mibps, 0.0, INFINITY)
    return first


def _use_rows(
    model: MilpModel, problem: PlacementProblem, rows: UseRows, base: Floats, totals: Floats
) -> None:
    used = problem.used
    lines = (
        (GIB, N, lambda candidate: (1 - problem.free_space) * candidate.stripes),
        (IOPS, P, lambda _: used),
        (BYTES, T, lambda _: used),
    )
    for use, column, share in lines:
        for c, candidate in enumerate(problem.candidates):
            model.row(
                {COLUMNS_PER_CANDIDATE * c + column: -share(candidate)},
                -INFINITY,
                -float(base[c, use]),
            )
    network = np.array([not candidate.is_ephemeral for candidate in problem.candidates], dtype=bool)
    for limit, factor, use in (
        (problem.host_kiops, used, IOPS),
        (problem.host_mibps, used, BYTES),
    ):
        there = float(base[network, use].sum())
        model.row({}, -INFINITY, INFINITY if limit is None else factor * limit - there)
    waits = problem.response_ms
    model.row({}, -INFINITY, INFINITY if waits is None else waits - float(base[:, WAIT].sum()))
    if rows.linked:
        for use in (GIB, IOPS):
            for c in range(len(problem.candidates)):
                model.row({COLUMNS_PER_CANDIDATE * c: -float(totals[c, use])}, -INFINITY, 0.0)


def _rules(
    model: MilpModel,
    candidate: CandidateVolume,
    offers: list[_Offer],
    c: int,
    *,
    integer: bool,
    is_priced: bool,
) -> None:
    """The type's own rules between size (GiB), IOPS (thousands) and throughput (MiB/s)."""
    mine = COLUMNS_PER_CANDIDATE * c
    if len(offers) == 1:
        _bounds(model, candidate, offers[0].piece, mine)
        return
    firsts = []
    for offer in offers:
        usd = _usd(candidate, offer.piece.usd_month) if is_priced else Linear()
        first = _columns(model, candidate, usd, 0.0, integer=integer)
        _bounds(model, candidate, offer.piece, first)
        if offer.room_gib:  # in the row of the candidate's GiB
            model.entries(np.array([c]), np.array([first + Y]), [-offer.room_gib])
        firsts.append(first)
    for column in range(COLUMNS_PER_CANDIDATE):
        parts = {first + column: -1.0 for first in firsts}
        model.row({mine + column: 1.0, **parts}, 0.0, 0.0)


def _bounds(model: MilpModel, candidate: CandidateVolume, piece: Piece, first: int) -> None:
    """A piece's ranges and bounds, all times y."""
    y, n, p, t = (first + column for column in (Y, N, P, T))
    stripes, add = float(candidate.stripes), model.row
    for column, low, high in (
        (n, piece.min_gib, min(piece.max_gib, candidate.max_gib / stripes)),
        (p, piece.min_iops / 1000 * stripes, piece.max_iops / 1000 * stripes),
        (t, piece.min_mibps * stripes, piece.max_mibps * stripes),
    ):
        if low > 0:
            add({column: 1.0, y: -low}, 0.0, INFINITY)
        add({column: 1.0, y: -high}, -INFINITY, 0.0)
    for bound in piece.bounds:
        entries = {
            y: bound.constant * stripes,
            n: bound.gib * stripes,
            p: bound.iops * 1000,
            t: bound.mibps,
        }
        add({key: value for key, value in entries.items() if value}, 0.0, INFINITY)


def sizes(problem: PlacementProblem, c: int, load: Floats) -> tuple[Sizes, float] | None:
    """The cheapest size of candidate ``c`` for a load (USES), and its price; None: there is none.

    Sizes are whole GiB of each member; IOPS and throughput any, as in the model.
    """
    candidate, members = problem.candidates[c], problem.candidates[c].stripes
    iops, rate = load[IOPS] / problem.used * 1000, load[BYTES] / problem.used * MIB
    gib = load[GIB] / (1 - problem.free_space)
    tries = [gib]
    if load[GIB] <= candidate.kept_gib(problem.free_space):
        tries.append(0.0)  # as large as it is
    best: tuple[Sizes, float] | None = None
    for asked_gib in tries:
        asked = Requirement(asked_gib / members * BYTES_OF_GIB, iops / members, rate / members)
        one = candidate.rules.least(asked, is_whole=False)
        usd = None if one is None else candidate.rules.usd_month(one)
        if one is None or usd is None or (asked_gib < gib and not _is_kept(candidate, one)):
            continue
        total = _new_usd(candidate, problem) + (usd * members if problem.is_priced else 0.0)
        if best is None or total < best[1]:
            has = (one.size_bytes / BYTES_OF_GIB, one.iops / 1000, one.bytes_per_s / MIB)
            best = Sizes(c, *(float(each * members) for each in has)), total
    return best


def steps_usd(problem: PlacementProblem, volumes: tuple[Sizes, ...]) -> float:
    """What steps between a type's pieces may cost beyond what the relaxation counts."""
    if not problem.is_priced:
        return 0.0
    return sum(_step_usd(problem.candidates[one.candidate], one) for one in volumes)


def _step_usd(candidate: CandidateVolume, one: Sizes) -> float:
    """The step to the piece whose IOPS grow with the size: its least size is bought at once."""
    every = pieces(candidate.rules)
    if len(every) < 2 or one.kiops * 1000 <= every[0].max_iops * candidate.stripes:
        return 0.0
    step = every[-1].min_gib - every[0].min_gib
    return step * every[-1].usd_month.gib * candidate.stripes


def _is_kept(candidate: CandidateVolume, one: ProvisionedVolume) -> bool:
    """Whether an existing volume stays as large as it is."""
    step = candidate.rules.step_bytes or 1
    return one.size_bytes < (candidate.rules.min_bytes or 0) + step


def keeps_shared(problem: PlacementProblem, load: Floats) -> bool:
    """Whether loads (candidates × USES) keep the limits that all volumes share."""
    network = np.array([not candidate.is_ephemeral for candidate in problem.candidates], dtype=bool)
    used = problem.used
    asked = (
        (load[network, IOPS].sum(), problem.host_kiops, used),
        (load[network, BYTES].sum(), problem.host_mibps, used),
        (load[:, WAIT].sum(), problem.response_ms, 1.0),
    )
    return all(
        limit is None or total <= factor * limit * (1 + _ROUNDING) for total, limit, factor in asked
    )
