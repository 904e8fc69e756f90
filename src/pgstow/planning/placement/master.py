"""The restricted master problem (RMP): columns of whole groups, kept in HiGHS between solutions.

A column says where each item of one group is placed. Its entries are the sums of its items' uses,
so the RMP has some hundred rows whatever the number of items. Each round solves it, prices all
items at its duals, and adds the columns that would improve it. At any duals

    value of the master + sum over groups of (least cost of the group - dual of its convexity row)

is at most the value of the full relaxation, so every round gives a valid bound.
"""

from dataclasses import dataclass, field

import highspy
import numpy as np

from pgstow.planning.placement.grouping import Groups
from pgstow.planning.placement.pricing import Choices, price_out
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
    COLUMNS_PER_CANDIDATE,
    INFINITY,
    MilpModel,
    P,
    T,
    UseRows,
    sizing,
)

_ARTIFICIAL_FACTOR = 100.0  # a group left out costs so many times the most expensive candidate
_PLACED = 1e-6
_DUAL, _PRIMAL = 1, 4  # HiGHS's numbers of its simplex methods
_ENOUGH = 1e-9
_WHOLE = 1e-5

# by row of convexity and candidate: 1 is placed there, 0 is not
Fixed = dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True, eq=False)
class RelaxationSolution:
    """A solution of the relaxation: its value and the bound proved on it."""

    usd: float
    bound_usd: float
    artificial: float  # the largest share of a group that is placed on no candidate
    y: Floats  # candidates
    dual_prices: Floats  # of uses, candidates × USES
    fractional: tuple[int, int] | None  # the most fractional unit by price, and its candidate

    @property
    def is_placed(self) -> bool:
        """Whether every item is placed."""
        return self.artificial < _PLACED


@dataclass(slots=True)
class Master:
    """The RMP, and where its columns came from."""

    problem: PlacementProblem
    groups: Groups
    highs: highspy.Highs = field(init=False)
    rows: UseRows = field(init=False)
    incidence: Floats = field(init=False)
    convexity: int = field(init=False)  # its first row
    first_column: int = field(init=False)
    # a group, or groups.count + a special item
    column_group: list[int] = field(default_factory=list)
    column_source: list[int] = field(default_factory=list)  # see ``assignment``
    assignments: list[Choices] = field(default_factory=list)
    whole: dict[tuple[int, int], int] = field(default_factory=dict)  # columns of units
    fixed: Fixed = field(default_factory=dict)  # as HiGHS has it now
    passes: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        candidates = len(problem.candidates)
        self.rows = UseRows(candidates, linked=True)
        self.incidence = self.rows.incidence(problem)
        base = np.zeros((candidates, USES))
        model = sizing(problem, self.rows, base, self._totals(), integer=False)
        self.convexity = len(model.row_lower)
        count = self.groups.count + problem.special_items.count
        model.row_lower += [1.0] * count
        model.row_upper += [1.0] * count
        links = self._link_special_items(model)
        self.first_column = len(model.cost)
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("presolve", "off")
        self.highs.passModel(model.highs_lp())
        self._add_whole_groups()
        self._add_special_items()
        self._add_artificial()
        for column, (row, source) in enumerate(
            zip(self.column_group, self.column_source, strict=True)
        ):
            if source < 0 and self.is_unit(row):
                self.whole[row, -1 - source] = column
        for (row, candidate), link in links.items():
            self.highs.changeCoeff(link, self.first_column + self.whole[row, candidate], 1.0)

    def _link_special_items(self, model: MilpModel) -> dict[tuple[int, int], int]:
        """Rows that place a special item only on what is bought, by convexity row and candidate."""
        return {
            (self.groups.count + special, candidate): model.row(
                {COLUMNS_PER_CANDIDATE * candidate: -1.0}, -INFINITY, 0.0
            )
            for special, candidate in np.argwhere(self.problem.special_items.allowed).tolist()
        }

    def change(self, problem: PlacementProblem) -> None:
        """Go on with another load factor, response time or special items: the columns stay."""
        self.problem = problem
        candidates, set_to = len(problem.candidates), self.highs.changeCoeff
        totals = self._totals()
        for c in range(candidates):
            for use, column in ((IOPS, P), (BYTES, T)):
                set_to(use * candidates + c, COLUMNS_PER_CANDIDATE * c + column, -problem.used)
            for number, use in enumerate((GIB, IOPS)):
                row = self.rows.link + number * candidates + c
                set_to(row, COLUMNS_PER_CANDIDATE * c, -float(totals[c, use]))
        for row, limit, factor in (
            (self.rows.host_iops, problem.host_kiops, problem.used),
            (self.rows.host_bytes, problem.host_mibps, problem.used),
            (self.rows.response, problem.response_ms, 1.0),
        ):
            upper = INFINITY if limit is None else factor * limit
            self.highs.changeRowBounds(row, -INFINITY, upper)
        special, candidate, entries = self._special_uses(totals)
        for one, c, dense in zip(special.tolist(), candidate.tolist(), entries, strict=True):
            column = self.first_column + self.whole[self.groups.count + one, c]
            for row in np.nonzero(np.abs(dense) > _ENOUGH)[0].tolist():
                set_to(row, column, float(dense[row]))

    def is_unit(self, row: int) -> bool:
        """Whether a convexity row is one unit's: a special item, or a group of one item."""
        return row >= self.groups.count or bool(self.groups.sizes[row] == 1)

    def _totals(self) -> Floats:
        """The most that could ever be placed on each candidate: candidates × USES."""
        whole = np.einsum("cuk,k->cu", self.problem.use_per_demand, self.groups.total.sum(axis=0))
        special_items = self.problem.special_items
        mine = np.where(special_items.allowed[:, :, None], special_items.use, 0.0)
        totals: Floats = whole + mine.sum(axis=0)
        return totals

    # ---------------------------------------------------------------- columns

    def _add(self, group: Ints, source: list[int], cost: Floats, use: Floats) -> None:
        """Add columns: ``use`` is columns × candidates × USES."""
        if not len(group):
            return
        dense = product(use.reshape(len(group), -1), self.incidence.T)
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
        group, candidate = np.nonzero(problem.item_classes.allowed[groups.item_class])
        use = np.zeros((len(group), len(problem.candidates), USES))
        each = np.einsum("cuk,gk->gcu", problem.use_per_demand, groups.total)
        use[np.arange(len(group)), candidate] = each[group, candidate]
        move = problem.class_move_usd[groups.item_class[group], candidate]
        self._add(group, (-1 - candidate).tolist(), groups.total[group, 0] * move, use)

    def _add_special_items(self) -> None:
        special, candidate, dense = self._special_uses(self._totals())
        cost = self.problem.special_move_usd[special, candidate]
        self._add_rows(self.groups.count + special, (-1 - candidate).tolist(), cost, dense)

    def _special_uses(self, totals: Floats) -> tuple[Ints, Ints, Floats]:
        """Each special item on each candidate allowed, and the entries of that column."""
        problem, special_items = self.problem, self.problem.special_items
        candidates = len(problem.candidates)
        special, candidate = np.nonzero(special_items.allowed)
        use = np.zeros((len(special), candidates, USES))
        use[np.arange(len(special)), candidate] = special_items.use[special, candidate]
        dense = product(use.reshape(len(special), candidates * USES), self.incidence.T)
        for column, (one, c) in enumerate(zip(special.tolist(), candidate.tolist(), strict=True)):
            if one in special_items.exclusive:  # it uses up the link
                dense[column, self.rows.link + c] = totals[c, GIB]
                dense[column, self.rows.link + candidates + c] = totals[c, IOPS]
        return special, candidate, dense

    def _add_artificial(self) -> None:
        """An artificial column of high cost for each group: the RMP always has a solution."""
        problem = self.problem
        highest_costs = np.array(
            [
                max(s.usd_per_gib for s in problem.candidates) / (1 - problem.free_space) + 0.01,
                max(s.usd_per_iops for s in problem.candidates) * 1000 / (1 - problem.headroom)
                + 1.0,
                max(s.usd_per_mibps for s in problem.candidates) / (1 - problem.headroom) + 1.0,
                0.0,
            ]
        )
        each = np.einsum("cuk,gk->gcu", problem.use_per_demand, self.groups.total)
        cost = (each @ highest_costs).max(axis=1, initial=0.0)
        own = (problem.special_items.use @ highest_costs).max(axis=1, initial=0.0)
        every = _ARTIFICIAL_FACTOR * (np.concatenate((cost, own)) + 1.0) + cost.sum() + own.sum()
        group = np.arange(len(every))
        use = np.zeros((len(every), len(problem.candidates), USES))
        self._add(group, [0] * len(every), every, use)

    # ---------------------------------------------------------------- solving

    def bound(self, lower: Floats, upper: Floats, fixed: Fixed) -> None:
        """Set the bounds of y, and which units are fixed where."""
        columns = np.arange(len(lower), dtype=np.int32) * COLUMNS_PER_CANDIDATE
        self.highs.changeColsBounds(len(lower), columns, lower, upper)
        for unit in self.fixed.keys() | fixed.keys():
            value = fixed.get(unit)
            if value != self.fixed.get(unit):
                low, high = (0.0, INFINITY) if value is None else (value, value)
                self.highs.changeColBounds(self.first_column + self.whole[unit], low, high)
        self.fixed = dict(fixed)

    def relax(self, is_open: Bools, *, rounds: int, gap: float) -> RelaxationSolution:
        """Solve under the bounds set, in ``rounds`` of pricing at most, to ``gap`` of the value."""
        best = -np.inf
        simplex = _DUAL  # bounds have changed: the basis stays dual feasible
        while True:
            usd = self._solve(simplex)
            if usd is None:
                return self._unsolved()
            duals = np.array(self.highs.getSolution().row_dual)
            dual_prices = self._dual_prices(duals)
            if rounds == 0:
                break
            rounds -= 1
            self.passes += 1
            priced = price_out(self.problem, self.groups, dual_prices, is_open)
            reduced_cost = priced.cost - duals[self.convexity : self.convexity + self.groups.count]
            # what is one unit has all its columns already
            reduced_cost = np.where(
                np.isfinite(reduced_cost) & (self.groups.sizes > 1), reduced_cost, 0.0
            )
            best = max(best, usd + float(np.minimum(reduced_cost, 0.0).sum()))
            if usd - best <= gap * abs(usd):
                break
            self._add_priced(reduced_cost, priced.load, priced.choice)
            simplex = _PRIMAL  # with more columns it stays primal feasible
        return self._read(usd, best, dual_prices)

    def _unsolved(self) -> RelaxationSolution:
        """The answer where there is no solution: the bound is infinite if that is proved."""
        is_proved = self.highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        candidates = len(self.problem.candidates)
        return RelaxationSolution(
            usd=np.inf,
            bound_usd=np.inf if is_proved else -np.inf,
            artificial=1.0,
            y=np.zeros(candidates),
            dual_prices=np.zeros((candidates, USES)),
            fractional=None,
        )

    def _solve(self, simplex: int) -> float | None:
        """The optimum in dollars; None where there is no solution."""
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

    def _dual_prices(self, duals: Floats) -> Floats:
        """What a use costs on each candidate: candidates × USES."""
        of_use = -product(duals[None, : self.rows.count], self.incidence)[0]
        dual_prices: Floats = np.maximum(of_use.reshape(len(self.problem.candidates), USES), 0.0)
        return dual_prices

    def _add_priced(self, reduced_cost: Floats, load: Floats, choice: Choices) -> None:
        better = np.nonzero(reduced_cost < -1e-7 * max(1.0, -reduced_cost.min()))[0]
        use = np.einsum("cuk,gck->gcu", self.problem.use_per_demand, load[better])
        move = self.problem.class_move_usd[self.groups.item_class[better]]
        cost = np.where(load[better, :, 0] > 0, move * load[better, :, 0], 0.0).sum(axis=1)
        self.assignments.append(choice)
        self._add(better, [len(self.assignments)] * len(better), cost, use)

    def shares(self) -> Floats:
        """How much of each column is in the solution."""
        return np.array(self.highs.getSolution().col_value)[self.first_column :]

    def _read(self, usd: float, bound: float, dual_prices: Floats) -> RelaxationSolution:
        value = np.array(self.highs.getSolution().col_value)
        share = value[self.first_column :]
        sources = np.array(self.column_source)
        return RelaxationSolution(
            usd=usd,
            bound_usd=bound,
            artificial=float(share[sources == 0].max(initial=0.0)),
            y=value[: COLUMNS_PER_CANDIDATE * len(self.problem.candidates) : COLUMNS_PER_CANDIDATE],
            dual_prices=dual_prices,
            fractional=self._most_fractional(share, dual_prices),
        )

    def _most_fractional(self, share: Floats, dual_prices: Floats) -> tuple[int, int] | None:
        most: tuple[float, tuple[int, int]] | None = None
        for unit, column in self.whole.items():
            part = min(share[column], 1 - share[column])
            if part <= _WHOLE:
                continue
            usd = part * float((self._unit_use(*unit) * dual_prices[unit[1]]).sum())
            if most is None or usd > most[0]:
                most = usd, unit
        return None if most is None else most[1]

    def _unit_use(self, row: int, candidate: int) -> Floats:
        if row >= self.groups.count:
            return np.asarray(self.problem.special_items.use[row - self.groups.count, candidate])
        return np.asarray(self.problem.use_per_demand[candidate] @ self.groups.total[row])

    def assignment(self, column: int) -> Choices | int:
        """Where a column puts its group: one candidate for all, or an assignment of all items."""
        source = self.column_source[column]
        return -1 - source if source < 0 else self.assignments[source - 1]
