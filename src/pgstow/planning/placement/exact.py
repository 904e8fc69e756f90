"""The whole model over a few units, solved by HiGHS to the end, around loads that are fixed."""

import math
from dataclasses import dataclass

import highspy
import numpy as np

from pgstow.planning.placement.problem import (
    GIB,
    IOPS,
    USES,
    Bools,
    Floats,
    Ints,
    NoSolution,
    PlacementProblem,
    Sizes,
)
from pgstow.planning.placement.sizing import (
    COLUMNS_PER_CANDIDATE,
    INFINITY,
    MilpModel,
    UseRows,
    sizing,
)

SOLVE_SECONDS = 20.0
_ANY_USD = 1e15  # HiGHS takes no infinite target
_DECIMALS = 8  # of GiB, thousands of IOPS, MiB/s, ms: HiGHS errs with coefficients near 1e-9

_INFEASIBLE = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,  # every variable has bounds
)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What is still to be placed one by one: units × candidates."""

    use: Floats  # units × candidates × USES
    allowed: Bools
    is_moved: Bools
    exclusive: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MilpSolution:
    """Where each unit is placed, and what is bought."""

    candidate: Ints
    volumes: tuple[Sizes, ...]
    usd_month: float
    bound_usd: float
    values: Floats  # of the model's columns


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When a search ends early: at so many nodes or seconds, or with a price that is enough."""

    node_limit: int
    seconds_max: float
    objective_target: float


@dataclass(frozen=True, slots=True, eq=False)
class _AssignmentVariables:
    """The variables x: each is one unit's on one candidate."""

    unit: Ints
    candidate: Ints
    x: Ints  # their columns


def solve_milp(
    problem: PlacementProblem,
    units: Units,
    base: Floats,
    *,
    is_open: Bools | None = None,
    usd_max: float | None = None,
    start: MilpSolution | None = None,
    gap_usd: float = 1e-6,
    gap: float = 0.0,
    seconds_max: float = SOLVE_SECONDS,
    search_limits: SearchLimits | None = None,
) -> MilpSolution | NoSolution:
    """The cheapest assignment of ``units`` on top of ``base``, or why there is none.

    With ``is_open`` the volumes bought are given; else they are found. Without what ties cost it
    costs no more than ``usd_max``. The search begins at ``start``, a solution for the same units
    and limits, and ends at ``gap_usd`` or ``gap``, a share of the price, after ``seconds_max``, or
    at one of the ``search_limits``.
    """
    candidates = len(problem.candidates)
    rows = UseRows(candidates, linked=False)
    model = sizing(problem, rows, base, np.zeros((candidates, USES)), integer=True)
    allowed = units.allowed & _not_shared(units, base)
    for c in range(candidates):
        y = COLUMNS_PER_CANDIDATE * c
        if base[c].any() or (is_open is not None and is_open[c]):
            model.column_lower[y] = 1.0
        if is_open is not None and not is_open[c]:
            model.column_upper[y] = 0.0
    if is_open is not None:
        allowed = allowed & is_open
    if not allowed.any(axis=1).all():
        return NoSolution.INFEASIBLE
    unit, candidate = np.nonzero(allowed)
    first = len(model.cost)
    if usd_max is not None and math.isfinite(usd_max):
        _limit_price(model, problem, usd_max)
    gib = units.use[unit, candidate, GIB] * units.is_moved[unit, candidate]
    for usd in (problem.move_usd_per_gib * gib).tolist():
        model.column(usd, 0.0, 1.0, integer=True)
    x_vars = _AssignmentVariables(unit, candidate, np.arange(first, first + len(unit)))
    _count_uses(model, problem, rows, units, x_vars)
    _assign(model, units, x_vars, linked=is_open is None)
    if problem.max_move_gib is not None:
        _limit_moves(model, units, x_vars, problem.max_move_gib)
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("mip_abs_gap", gap_usd)
    highs.setOptionValue("mip_rel_gap", max(gap, 1e-9))
    highs.setOptionValue("time_limit", search_limits.seconds_max if search_limits else seconds_max)
    if search_limits is not None:
        highs.setOptionValue("mip_max_nodes", search_limits.node_limit)
        highs.setOptionValue("objective_target", min(search_limits.objective_target, _ANY_USD))
    return _solved(highs, problem, model, x_vars, start)


def _not_shared(units: Units, base: Floats) -> Bools:
    """Where units may be placed beside the base: exclusive ones only where nothing is yet."""
    allowed: Bools = np.ones(units.allowed.shape, dtype=bool)
    for u in units.exclusive:
        allowed[u] = ~base.any(axis=1)
    return allowed


def _count_uses(
    model: MilpModel,
    problem: PlacementProblem,
    rows: UseRows,
    units: Units,
    x_vars: _AssignmentVariables,
) -> None:
    """Add each x's uses to the rows of its candidate and to those that all share."""
    candidate, x = x_vars.candidate, x_vars.x
    use = np.round(units.use[x_vars.unit, candidate], _DECIMALS)
    network = np.array([not one.is_ephemeral for one in problem.candidates], dtype=bool)[candidate]
    candidates = len(problem.candidates)
    for resource in range(3):
        model.entries(resource * candidates + candidate, x, use[:, resource])
    for row, resource in ((rows.host_iops, IOPS), (rows.host_bytes, IOPS + 1)):
        model.entries(np.full(network.sum(), row), x[network], use[network, resource])
    model.entries(np.full(len(x), rows.response), x, use[:, 3])


def _limit_price(model: MilpModel, problem: PlacementProblem, usd_max: float) -> None:
    """The volumes' own price, which is all of it but for what ties cost."""
    own = list(model.cost)
    for c, one in enumerate(problem.candidates):
        own[COLUMNS_PER_CANDIDATE * c] -= problem.new_volume_usd if one.existing is None else 0.0
    entries = {column: usd for column, usd in enumerate(own) if usd}
    model.row(entries, -INFINITY, usd_max)


def _limit_moves(
    model: MilpModel, units: Units, x_vars: _AssignmentVariables, most_gib: float
) -> None:
    """No more than so many GiB leave their current volume."""
    gib = np.round(units.use[x_vars.unit, x_vars.candidate, GIB], _DECIMALS)
    gib = gib * units.is_moved[x_vars.unit, x_vars.candidate]
    row = model.row({}, -INFINITY, most_gib)
    model.entries(np.full(len(x_vars.x), row), x_vars.x, gib)


def _assign(model: MilpModel, units: Units, x_vars: _AssignmentVariables, *, linked: bool) -> None:
    """Each unit on one candidate, linked to y where the volumes are not given; some exclusively."""
    unit, candidate, x = x_vars.unit, x_vars.candidate, x_vars.x
    first = len(model.row_lower)
    count = int(unit.max()) + 1 if len(unit) else 0
    model.row_lower += [1.0] * count
    model.row_upper += [1.0] * count
    model.entries(first + unit, x, np.ones(len(x)))
    if linked:
        first = len(model.row_lower)
        model.row_lower += [-INFINITY] * len(x)
        model.row_upper += [0.0] * len(x)
        every = first + np.arange(len(x))
        model.entries(every, x, np.ones(len(x)))
        model.entries(every, COLUMNS_PER_CANDIDATE * candidate, -np.ones(len(x)))
    for one in sorted(units.exclusive):
        for mine in np.nonzero(unit == one)[0].tolist():
            for other in np.nonzero((candidate == candidate[mine]) & (unit != one))[0].tolist():
                model.row({int(x[mine]): 1.0, int(x[other]): 1.0}, -INFINITY, 1.0)


def _solved(
    highs: highspy.Highs,
    problem: PlacementProblem,
    model: MilpModel,
    x_vars: _AssignmentVariables,
    start: MilpSolution | None,
) -> MilpSolution | NoSolution:
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    # it took two thirds of the time of small models, and made none cheaper
    highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    highs.passModel(model.highs_lp())
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start.values.tolist()
        highs.setSolution(known)
    highs.run()
    info = highs.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        is_proved = highs.getModelStatus() in _INFEASIBLE
        return NoSolution.INFEASIBLE if is_proved else NoSolution.NOT_FOUND
    value = np.array(highs.getSolution().col_value)
    chosen = value[x_vars.x] > 0.5
    assigned = np.zeros(len(np.unique(x_vars.unit)), dtype=np.int64)
    assigned[x_vars.unit[chosen]] = x_vars.candidate[chosen]
    volumes = tuple(
        Sizes(
            candidate=c,
            gib=one.stripes * float(round(value[COLUMNS_PER_CANDIDATE * c + 1])),
            kiops=float(value[COLUMNS_PER_CANDIDATE * c + 2]),
            mibps=float(value[COLUMNS_PER_CANDIDATE * c + 3]),
        )
        for c, one in enumerate(problem.candidates)
        if value[COLUMNS_PER_CANDIDATE * c] > 0.5
    )
    return MilpSolution(
        assigned, volumes, info.objective_function_value, info.mip_dual_bound, value
    )
