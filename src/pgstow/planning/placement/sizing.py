"""The part of the programme that is about volumes: their variables, their types' rules, their rows.

Columns 4 c + (0..3) are y, whole GiB of a member, thousands of IOPS and MiB/s of shape c. The rows
of uses come first, in the order that :class:`UseRows` names; the rules follow.
"""

import math
from dataclasses import dataclass, field

import highspy
import numpy as np

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
from pgstow.planning.shapes import Shape
from pgstow.units import MIB

INFINITY = highspy.kHighsInf
_ROUNDING = 1e-9
Y, N, P, T = range(4)
COLUMNS_OF_SHAPE = 4


@dataclass(frozen=True, slots=True)
class UseRows:
    """Where the uses of shape c count: one row each of size, iops, bytes, then those all share."""

    shapes: int
    linked: bool  # whether loads are bound to y: 2 rows a shape more

    @property
    def host_iops(self) -> int:
        """The instance's cap on IOPS."""
        return 3 * self.shapes

    @property
    def host_bytes(self) -> int:
        """The instance's cap on bytes."""
        return 3 * self.shapes + 1

    @property
    def response(self) -> int:
        """What a transaction may wait."""
        return 3 * self.shapes + 2

    @property
    def link(self) -> int:
        """The first row that binds GiB to y; those of IOPS follow."""
        return 3 * self.shapes + 3

    @property
    def count(self) -> int:
        """How many rows of uses there are."""
        return self.link + (2 * self.shapes if self.linked else 0)

    def stencil(self, problem: PlacementProblem) -> Floats:
        """Rows × (shapes × USES): what a use on a shape counts in each row."""
        rows = np.zeros((self.count, self.shapes, USES))
        for c, shape in enumerate(problem.shapes):
            for use in (GIB, IOPS, BYTES):
                rows[use * self.shapes + c, c, use] = 1.0
            if not shape.is_ephemeral:
                rows[self.host_iops, c, IOPS] = 1.0
                rows[self.host_bytes, c, BYTES] = 1.0
            rows[self.response, c, WAIT] = 1.0
            if self.linked:
                rows[self.link + c, c, GIB] = 1.0
                rows[self.link + self.shapes + c, c, IOPS] = 1.0
        return rows.reshape(self.count, -1)


@dataclass(slots=True)
class Programme:
    """A linear programme under construction, by columns' bounds and rows' entries."""

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

    def model(self) -> highspy.HighsLp:
        """The programme as HiGHS takes it."""
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
) -> Programme:
    """The volumes' columns and rows. ``base`` (shapes × USES) is load that is there already.

    ``totals`` (shapes × USES) bound what could ever lie on each shape, for the rows that link.
    """
    programme = Programme()
    for shape in problem.shapes:
        programme.column(_fixed_usd(shape, problem), 0.0, 1.0, integer=integer)
        # a member is bought in whole GiB: as integers, rounding costs nothing afterwards
        programme.column(
            shape.usd_per_gib * shape.stripes, 0.0, shape.max_gib / shape.stripes, integer=integer
        )
        iops_usd = shape.usd_per_iops * 1000 if shape.is_iops_provisioned else 0.0
        programme.column(iops_usd, 0.0, shape.max_iops / 1000)
        programme.column(
            shape.usd_per_mibps if shape.is_throughput_provisioned else 0.0,
            0.0,
            shape.max_bytes_per_s / MIB,
        )
    _use_rows(programme, problem, rows, base, totals)
    for c, shape in enumerate(problem.shapes):
        _rules(programme, shape, COLUMNS_OF_SHAPE * c)
    ys = {COLUMNS_OF_SHAPE * c: 1.0 for c in range(len(problem.shapes))}
    programme.row(ys, 0.0, float(problem.max_volumes))
    for group in problem.groups:
        programme.row({COLUMNS_OF_SHAPE * c: 1.0 for c in group}, 0.0, 1.0)
    return programme


def _fixed_usd(shape: Shape, problem: PlacementProblem) -> float:
    """What y costs: the mark of a new volume, less what is included in the prices of p and t."""
    fixed = problem.new_volume_usd if shape.existing is None else 0.0
    if shape.is_iops_provisioned:
        fixed -= shape.usd_per_iops * shape.paid_iops_from
    if shape.is_throughput_provisioned:
        fixed -= shape.usd_per_mibps * shape.included_bytes_per_s / MIB
    return fixed


def _use_rows(
    programme: Programme, problem: PlacementProblem, rows: UseRows, base: Floats, totals: Floats
) -> None:
    used = problem.used
    lines = (
        (GIB, N, lambda shape: (1 - problem.free_space) * shape.stripes),
        (IOPS, P, lambda _: used),
        (BYTES, T, lambda _: used),
    )
    for use, column, share in lines:
        for c, shape in enumerate(problem.shapes):
            programme.row(
                {COLUMNS_OF_SHAPE * c + column: -share(shape)}, -INFINITY, -float(base[c, use])
            )
    network = np.array([not shape.is_ephemeral for shape in problem.shapes], dtype=bool)
    for limit, factor, use in (
        (problem.host_kiops, used, IOPS),
        (problem.host_mibps, used, BYTES),
    ):
        there = float(base[network, use].sum())
        programme.row({}, -INFINITY, INFINITY if limit is None else factor * limit - there)
    waits = problem.response_ms
    programme.row({}, -INFINITY, INFINITY if waits is None else waits - float(base[:, WAIT].sum()))
    if rows.linked:
        for use in (GIB, IOPS):
            for c in range(len(problem.shapes)):
                programme.row({COLUMNS_OF_SHAPE * c: -float(totals[c, use])}, -INFINITY, 0.0)


def _rules(programme: Programme, shape: Shape, first: int) -> None:
    """The type's own rules between size (GiB), IOPS (thousands) and throughput (MiB/s)."""
    y, n, p, t = (first + column for column in (Y, N, P, T))
    stripes = float(shape.stripes)
    add = programme.row
    add({n: stripes, y: -shape.min_gib}, 0.0, INFINITY)
    add({n: stripes, y: -shape.max_gib}, -INFINITY, 0.0)
    add({p: 1.0, y: -shape.max_iops / 1000}, -INFINITY, 0.0)
    add({t: 1.0, y: -shape.max_bytes_per_s / MIB}, -INFINITY, 0.0)
    included = shape.included_iops / 1000
    if shape.is_iops_provisioned:
        add({p: 1.0, y: -included}, 0.0, INFINITY)
    if shape.iops_per_gib is not None:
        # what is included comes with any size
        free = -included if shape.is_iops_provisioned else 0.0
        add({p: 1.0, n: -shape.iops_per_gib / 1000 * stripes, y: free}, -INFINITY, 0.0)
    if shape.is_throughput_provisioned:
        add({t: 1.0, y: -shape.included_bytes_per_s / MIB}, 0.0, INFINITY)
    if shape.bytes_per_s_per_iops is not None:
        add({t: 1.0, p: -shape.bytes_per_s_per_iops * 1000 / MIB}, -INFINITY, 0.0)
    if shape.bytes_per_s_per_gib is not None:
        add({t: 1.0, n: -shape.bytes_per_s_per_gib / MIB * stripes}, -INFINITY, 0.0)


def sizes(problem: PlacementProblem, c: int, load: Floats) -> tuple[Sizes, float] | None:
    """The least of shape ``c`` that bears a load (USES), and its price; None where none does.

    Throughput bounds IOPS from below, and both the size: nothing is gained by more than that.
    """
    shape, used = problem.shapes[c], problem.used
    mibps, kiops = load[BYTES] / used, load[IOPS] / used
    gib = max(load[GIB] / (1 - problem.free_space), shape.min_gib)
    included = shape.included_iops / 1000 if shape.is_iops_provisioned else 0.0
    if shape.is_throughput_provisioned:
        mibps = max(mibps, shape.included_bytes_per_s / MIB)
    if shape.bytes_per_s_per_iops is not None:
        kiops = max(kiops, mibps * MIB / (shape.bytes_per_s_per_iops * 1000))
    kiops = max(kiops, included)
    if shape.iops_per_gib is not None:
        gib = max(gib, (kiops - included) * 1000 / shape.iops_per_gib)
    if shape.bytes_per_s_per_gib is not None:
        gib = max(gib, mibps * MIB / shape.bytes_per_s_per_gib)
    gib = math.ceil(gib / shape.stripes - _ROUNDING) * shape.stripes
    limits = (shape.max_gib, shape.max_iops / 1000, shape.max_bytes_per_s / MIB)
    if any(
        wanted > limit * (1 + _ROUNDING)
        for wanted, limit in zip((gib, kiops, mibps), limits, strict=True)
    ):
        return None
    usd = _fixed_usd(shape, problem) + shape.usd_per_gib * gib
    usd += shape.usd_per_iops * 1000 * kiops if shape.is_iops_provisioned else 0.0
    usd += shape.usd_per_mibps * mibps if shape.is_throughput_provisioned else 0.0
    return Sizes(c, float(gib), float(kiops), float(mibps)), float(usd)


def keeps_shared(problem: PlacementProblem, load: Floats) -> bool:
    """Whether loads (shapes × USES) keep to what all volumes share."""
    network = np.array([not shape.is_ephemeral for shape in problem.shapes], dtype=bool)
    used = problem.used
    asked = (
        (load[network, IOPS].sum(), problem.host_kiops, used),
        (load[network, BYTES].sum(), problem.host_mibps, used),
        (load[:, WAIT].sum(), problem.response_ms, 1.0),
    )
    return all(
        limit is None or total <= factor * limit * (1 + _ROUNDING) for total, limit, factor in asked
    )
