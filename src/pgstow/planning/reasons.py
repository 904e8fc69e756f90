"""Why a plan is as it is: for each choice the next best one and what it would cost."""

from collections.abc import Callable

from pgstow.model import Reason
from pgstow.planning.needs import REST
from pgstow.planning.problem import Problem, Solution, Unit
from pgstow.units import MIB

_MOST = 12  # choices explained one by one: the busiest units

Resolve = Callable[[frozenset[tuple[str, str]]], Solution | None]


def reasons(solution: Solution, resolve: Resolve, problem: Problem) -> tuple[Reason, ...]:
    """Explain where each busy unit lies by solving again with that choice forbidden."""
    labels = {shape.key: shape.label for shape in problem.shapes}
    busiest = sorted(problem.units, key=lambda unit: -_operations(unit, solution))
    found = []
    for unit in busiest[:_MOST]:
        if unit.key.startswith(REST):
            continue
        chosen = solution.shape_of[unit.key]
        same_volume = frozenset(
            (unit.key, shape.key)
            for shape in problem.shapes
            if shape.key == chosen or _is_twin(problem, shape.key, chosen)
        )
        other = resolve(same_volume)
        found.append(_reason(unit, chosen, labels, solution, other))
    return tuple(found)


def _operations(unit: Unit, solution: Solution) -> float:
    return unit.needs[solution.shape_of[unit.key]].iops


def _is_twin(problem: Problem, one: str, other: str) -> bool:
    """Whether two shapes are ways to keep the same volume."""
    kept = {shape.key: shape.existing for shape in problem.shapes}
    first, second = kept[one], kept[other]
    return first is not None and second is not None and first.name == second.name


def _reason(
    unit: Unit, chosen: str, labels: dict[str, str], solution: Solution, other: Solution | None
) -> Reason:
    need = unit.needs[chosen]
    density = need.iops / max(unit.gib, 0.01)
    because = (
        f"asks {need.iops:,.0f} IOPS and {need.bytes_per_s / MIB:,.1f} MiB/s of {unit.gib:,.2f} GiB"
        f" ({density:,.1f} IOPS per GiB)"
    )
    if other is None:
        return Reason(unit.key, labels[chosen], because, "none meets the goal", None)
    elsewhere = labels[other.shape_of[unit.key]]
    more = other.usd_month - solution.usd_month
    return Reason(unit.key, labels[chosen], because, elsewhere, more)
