"""The restricted master programme: columns of whole groups, kept in HiGHS between solutions.

A column says where each item of one group lies. Its entries are the sums of its items' uses, so
the programme has some hundred rows whatever the number of items. Each round solves it, prices all
items at its duals, and adds the columns that would improve it. At any duals

    value of the master + sum over groups of (least cost of the group - dual of its convexity row)

is at most the value of the full relaxation, so every round gives a valid bound.
"""

from dataclasses import dataclass, field

import highspy
import numpy as np

from pgstow.planning.placement.grouping import Groups
from pgstow.planning.placement.pricing import Choices, price
from pgstow.planning.placement.problem import (
    BYTES,
    GIB,
    IOPS,
    USES,
    Bools,
    Floats,
    Ints,
    PlacementProblem,
    product,
)
from pgstow.planning.placement.sizing import (
    COLUMNS_OF_SHAPE,
    INFINITY,
    P,
    Programme,
    T,
    UseRows,
    sizing,
)

_UNPLACED_FACTOR = 100.0  # a group left out costs so many times what the dearest shape would
_PLACED = 1e-6
_DUAL, _PRIMAL = 1, 4  # HiGHS's numbers of its simplex methods
_ENOUGH = 1e-9
_WHOLE = 1e-5

Fixed = dict[tuple[int, int], float]  # by row of convexity and shape: 1 lies there, 0 does not


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """A solution of the relaxation: its value and the bound proved on it."""

    usd: float
    bound_usd: float
    unplaced: float  # the largest share of a group that found no place
    y: Floats  # shapes
    prices: Floats  # of uses, shapes × USES
    undecided: tuple[int, int] | None  # the dearest unit lying in parts, and its shape

    @property
    def is_placed(self) -> bool:
        """Whether everything found a place."""
        return self.unplaced < _PLACED


@dataclass(slots=True)
class Master:
    """The programme, and where its columns came from."""

    problem: PlacementProblem
    groups: Groups
    highs: highspy.Highs = field(init=False)
    rows: UseRows = field(init=False)
    stencil: Floats = field(init=False)
    convexity: int = field(init=False)  # its first row
    first_column: int = field(init=False)
    column_group: list[int] = field(default_factory=list)  # a group, or groups.count + a single
    column_source: list[int] = field(default_factory=list)  # see ``assignment``
    assignments: list[Choices] = field(default_factory=list)
    whole: dict[tuple[int, int], int] = field(default_factory=dict)  # columns of units
    fixed: Fixed = field(default_factory=dict)  # as HiGHS has it now
    passes: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        shapes = len(problem.shapes)
        self.rows = UseRows(shapes, linked=True)
        self.stencil = self.rows.stencil(problem)
        base = np.zeros((shapes, USES))
        programme = sizing(problem, self.rows, base, self._totals(), integer=False)
        self.convexity = len(programme.row_lower)
        count = self.groups.count + problem.singles.count
        programme.row_lower += [1.0] * count
        programme.row_upper += [1.0] * count
        links = self._link_singles(programme)
        self.first_column = len(programme.cost)
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("presolve", "off")
        self.highs.passModel(programme.model())
        self._add_whole_groups()
        self._add_singles()
        self._add_unplaced()
        for column, (row, source) in enumerate(
            zip(self.column_group, self.column_source, strict=True)
        ):
            if source < 0 and self.is_unit(row):
                self.whole[row, -1 - source] = column
        for (row, shape), link in links.items():
            self.highs.changeCoeff(link, self.first_column + self.whole[row, shape], 1.0)

    def _link_singles(self, programme: Programme) -> dict[tuple[int, int], int]:
        """Rows that let a single lie only on what is bought; by its row of convexity and shape."""
        return {
            (self.groups.count + single, shape): programme.row(
                {COLUMNS_OF_SHAPE * shape: -1.0}, -INFINITY, 0.0
            )
            for single, shape in np.argwhere(self.problem.singles.allowed).tolist()
        }

    def change(self, problem: PlacementProblem) -> None:
        """Go on with another pace, response time or singles: the columns at hand stay."""
        self.problem = problem
        shapes, set_to = len(problem.shapes), self.highs.changeCoeff
        totals = self._totals()
        for c in range(shapes):
            for use, column in ((IOPS, P), (BYTES, T)):
                set_to(use * shapes + c, COLUMNS_OF_SHAPE * c + column, -problem.used)
            for place, use in enumerate((GIB, IOPS)):
                row = self.rows.link + place * shapes + c
                set_to(row, COLUMNS_OF_SHAPE * c, -float(totals[c, use]))
        for row, limit, factor in (
            (self.rows.host_iops, problem.host_kiops, problem.used),
            (self.rows.host_bytes, problem.host_mibps, problem.used),
            (self.rows.response, problem.response_ms, 1.0),
        ):
            upper = INFINITY if limit is None else factor * limit
            self.highs.changeRowBounds(row, -INFINITY, upper)
        single, shape, entries = self._single_uses(totals)
        for one, c, dense in zip(single.tolist(), shape.tolist(), entries, strict=True):
            column = self.first_column + self.whole[self.groups.count + one, c]
            for row in np.nonzero(np.abs(dense) > _ENOUGH)[0].tolist():
                set_to(row, column, float(dense[row]))

    def is_unit(self, row: int) -> bool:
        """Whether a row of convexity is one unit's: a single, or an item that is its own group."""
        return row >= self.groups.count or bool(self.groups.sizes[row] == 1)

    def _totals(self) -> Floats:
        """The most that could ever lie on each shape: shapes × USES."""
        whole = np.einsum("cuk,k->cu", self.problem.use_per_demand, self.groups.total.sum(axis=0))
        singles = self.problem.singles
        mine = np.where(singles.allowed[:, :, None], singles.use, 0.0)
        totals: Floats = whole + mine.sum(axis=0)
        return totals

    # ---------------------------------------------------------------- columns

    def _add(self, group: Ints, source: list[int], cost: Floats, use: Floats) -> None:
        """Add columns: ``use`` is columns × shapes × USES."""
        if not len(group):
            return
        dense = product(use.reshape(len(group), -1), self.stencil.T)
        self._add_rows(group, source, cost, dense)

    def _add_rows(self, group: Ints, source: list[int], cost: Floats, dense: Floats) -> None:
        """Add columns by their entries in the rows of uses."""
        if not len(group):
            return
        column, row = np.nonzero(np.abs(dense) > _ENOUGH)
        counts = np.bincount(column, minlength=len(group)) + 1
        start = np.concatenate(([0], np.cumsum(counts)[:-1]))
        index = np.empty(counts.sum(), dtype=np.int32)
        value = np.ones(counts.sum())
        last = start + counts - 1
        within = np.arange(len(column)) + column  # each column before has one entry more
        index[within], value[within] = row, dense[column, row]
        index[last] = self.convexity + group
        self.highs.addCols(
            len(group),
            cost,
            np.zeros(len(group)),
            np.full(len(group), INFINITY),
            len(index),
            start.astype(np.int32),
            index,
            value,
        )
        self.column_group += group.tolist()
        self.column_source += source

    def _add_whole_groups(self) -> None:
        problem, groups = self.problem, self.groups
        group, shape = np.nonzero(problem.kinds.allowed[groups.kind])
        use = np.zeros((len(group), len(problem.shapes), USES))
        each = np.einsum("cuk,gk->gcu", problem.use_per_demand, groups.total)
        use[np.arange(len(group)), shape] = each[group, shape]
        move = problem.kind_move_usd[groups.kind[group], shape]
        self._add(group, (-1 - shape).tolist(), groups.total[group, 0] * move, use)

    def _add_singles(self) -> None:
        single, shape, dense = self._single_uses(self._totals())
        cost = self.problem.single_move_usd[single, shape]
        self._add_rows(self.groups.count + single, (-1 - shape).tolist(), cost, dense)

    def _single_uses(self, totals: Floats) -> tuple[Ints, Ints, Floats]:
        """Each single on each shape it may lie on, and the entries of that column."""
        problem, singles = self.problem, self.problem.singles
        shapes = len(problem.shapes)
        single, shape = np.nonzero(singles.allowed)
        use = np.zeros((len(single), shapes, USES))
        use[np.arange(len(single)), shape] = singles.use[single, shape]
        dense = product(use.reshape(len(single), shapes * USES), self.stencil.T)
        for column, (one, c) in enumerate(zip(single.tolist(), shape.tolist(), strict=True)):
            if one in singles.alone:  # where it lies nothing else does: the link is all used up
                dense[column, self.rows.link + c] = totals[c, GIB]
                dense[column, self.rows.link + shapes + c] = totals[c, IOPS]
        return single, shape, dense

    def _add_unplaced(self) -> None:
        """A dear column for each group, so that the programme always has a solution."""
        problem = self.problem
        dearest = np.array(
            [
                max(s.usd_per_gib for s in problem.shapes) / (1 - problem.free_space) + 0.01,
                max(s.usd_per_iops for s in problem.shapes) * 1000 / (1 - problem.headroom) + 1.0,
                max(s.usd_per_mibps for s in problem.shapes) / (1 - problem.headroom) + 1.0,
                0.0,
            ]
        )
        each = np.einsum("cuk,gk->gcu", problem.use_per_demand, self.groups.total)
        cost = (each @ dearest).max(axis=1, initial=0.0)
        own = (problem.singles.use @ dearest).max(axis=1, initial=0.0)
        every = _UNPLACED_FACTOR * (np.concatenate((cost, own)) + 1.0) + cost.sum() + own.sum()
        group = np.arange(len(every))
        use = np.zeros((len(every), len(problem.shapes), USES))
        self._add(group, [0] * len(every), every, use)

    # ---------------------------------------------------------------- solving

    def bound(self, lower: Floats, upper: Floats, fixed: Fixed) -> None:
        """Set the bounds of y, and which units lie where."""
        columns = np.arange(len(lower), dtype=np.int32) * COLUMNS_OF_SHAPE
        self.highs.changeColsBounds(len(lower), columns, lower, upper)
        for unit in self.fixed.keys() | fixed.keys():
            value = fixed.get(unit)
            if value != self.fixed.get(unit):
                low, high = (0.0, INFINITY) if value is None else (value, value)
                self.highs.changeColBounds(self.first_column + self.whole[unit], low, high)
        self.fixed = dict(fixed)

    def relax(self, is_open: Bools, *, rounds: int, gap: float) -> Relaxed:
        """Solve under the bounds set, in ``rounds`` of pricing at most, to ``gap`` of the value."""
        best = -np.inf
        simplex = _DUAL  # bounds have changed: what was the best stays so, and may be infeasible
        while True:
            usd = self._solve(simplex)
            if usd is None:
                return self._unsolved()
            duals = np.array(self.highs.getSolution().row_dual)
            prices = self._prices(duals)
            if rounds == 0:
                break
            rounds -= 1
            self.passes += 1
            priced = price(self.problem, self.groups, prices, is_open)
            slack = priced.cost - duals[self.convexity : self.convexity + self.groups.count]
            # what is one unit has all its columns already
            slack = np.where(np.isfinite(slack) & (self.groups.sizes > 1), slack, 0.0)
            best = max(best, usd + float(np.minimum(slack, 0.0).sum()))
            if usd - best <= gap * abs(usd):
                break
            self._add_priced(slack, priced.load, priced.choice)
            simplex = _PRIMAL  # with more columns the solution stays feasible
        return self._read(usd, best, prices)

    def _unsolved(self) -> Relaxed:
        """What is said where there is no solution: the bound is infinite if that was proved."""
        is_proved = self.highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        shapes = len(self.problem.shapes)
        return Relaxed(
            usd=np.inf,
            bound_usd=np.inf if is_proved else -np.inf,
            unplaced=1.0,
            y=np.zeros(shapes),
            prices=np.zeros((shapes, USES)),
            undecided=None,
        )

    def _solve(self, simplex: int) -> float | None:
        """The least price; None where there is no solution."""
        self.highs.setOptionValue("simplex_strategy", simplex)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # once more from the beginning: neither a value nor duals can be used of what failed
            self.highs.setOptionValue("simplex_strategy", _DUAL)
            self.highs.clearSolver()
            self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return float(self.highs.getInfo().objective_function_value)

    def _prices(self, duals: Floats) -> Floats:
        """What a use costs on each shape: shapes × USES."""
        of_use = -product(duals[None, : self.rows.count], self.stencil)[0]
        prices: Floats = np.maximum(of_use.reshape(len(self.problem.shapes), USES), 0.0)
        return prices

    def _add_priced(self, slack: Floats, load: Floats, choice: Choices) -> None:
        better = np.nonzero(slack < -1e-7 * max(1.0, -slack.min()))[0]
        use = np.einsum("cuk,gck->gcu", self.problem.use_per_demand, load[better])
        move = self.problem.kind_move_usd[self.groups.kind[better]]
        cost = np.where(load[better, :, 0] > 0, move * load[better, :, 0], 0.0).sum(axis=1)
        self.assignments.append(choice)
        self._add(better, [len(self.assignments)] * len(better), cost, use)

    def shares(self) -> Floats:
        """How much of each column is in the solution."""
        return np.array(self.highs.getSolution().col_value)[self.first_column :]

    def _read(self, usd: float, bound: float, prices: Floats) -> Relaxed:
        value = np.array(self.highs.getSolution().col_value)
        share = value[self.first_column :]
        sources = np.array(self.column_source)
        return Relaxed(
            usd=usd,
            bound_usd=bound,
            unplaced=float(share[sources == 0].max(initial=0.0)),
            y=value[: COLUMNS_OF_SHAPE * len(self.problem.shapes) : COLUMNS_OF_SHAPE],
            prices=prices,
            undecided=self._undecided(share, prices),
        )

    def _undecided(self, share: Floats, prices: Floats) -> tuple[int, int] | None:
        most: tuple[float, tuple[int, int]] | None = None
        for unit, column in self.whole.items():
            part = min(share[column], 1 - share[column])
            if part <= _WHOLE:
                continue
            usd = part * float((self._unit_use(*unit) * prices[unit[1]]).sum())
            if most is None or usd > most[0]:
                most = usd, unit
        return None if most is None else most[1]

    def _unit_use(self, row: int, shape: int) -> Floats:
        if row >= self.groups.count:
            return np.asarray(self.problem.singles.use[row - self.groups.count, shape])
        return np.asarray(self.problem.use_per_demand[shape] @ self.groups.total[row])

    def assignment(self, column: int) -> Choices | int:
        """Where a column puts its group: a shape for all of it, or an assignment of all items."""
        source = self.column_source[column]
        return -1 - source if source < 0 else self.assignments[source - 1]
