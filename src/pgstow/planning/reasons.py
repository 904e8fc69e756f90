"""Why a plan is as it is: for each choice the next best one and what it would cost."""

from dataclasses import replace

from pgstow.model import Reason
from pgstow.planning.needs import REST
from pgstow.planning.problem import Problem, Solution, Unit, solve
from pgstow.planning.shapes import Shape
from pgstow.units import MIB

_MOST = 10  # choices explained one by one: the busiest units


def reasons(solution: Solution, problem: Problem) -> tuple[Reason, ...]:
    """Explain where each busy unit lies.

    What was moved is planned again with that unit kept where it is now; what stayed, with that
    unit moved away. The difference in price is the reason.
    """
    shapes = {shape.key: shape for shape in problem.shapes}
    busiest = sorted(problem.units, key=lambda unit: -unit.needs[solution.shape_of[unit.key]].iops)
    return tuple(
        _reason(unit, solution, problem, shapes)
        for unit in busiest[:_MOST]
        if not unit.key.startswith(REST)
    )


def _reason(unit: Unit, solution: Solution, problem: Problem, shapes: dict[str, Shape]) -> Reason:
    chosen = shapes[solution.shape_of[unit.key]]
    need = unit.needs[chosen.key]
    stays = _keeps(chosen, unit.current)
    because = (
        f"asks {need.iops:,.0f} IOPS and {need.bytes_per_s / MIB:,.1f} MiB/s of {unit.gib:,.2f} GiB"
        f" ({need.iops / max(unit.gib, 0.01):,.0f} IOPS per GiB)"
    )
    here = frozenset(
        (unit.key, shape.key) for shape in problem.shapes if _keeps(shape, unit.current) == stays
    )
    other = solve(replace(problem, forbidden=problem.forbidden | here))
    if other is None:
        what = "elsewhere" if stays else f"on {unit.current}"
        return Reason(unit.key, chosen.label, because, f"none: {what} misses the goal", None)
    elsewhere = shapes[other.shape_of[unit.key]].label
    more = max(0.0, other.usd_month - solution.usd_month)
    return Reason(unit.key, chosen.label, because, elsewhere, more)


def _keeps(shape: Shape, volume: str | None) -> bool:
    """Whether a shape is a way to keep that volume."""
    return shape.existing is not None and shape.existing.name == volume
