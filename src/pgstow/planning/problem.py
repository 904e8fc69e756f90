"""The planning problem as a mixed-integer linear programme, solved by HiGHS.

Variables, for units u (a relation, a bundle of cold ones, the WAL, temporary files) and shapes c:

    x[u,c] in {0,1}   unit u lies on a volume of shape c
    y[c]   in {0,1}   shape c is bought (or kept)
    s[c], p[c], t[c]  its GiB (whole ones of each member), provisioned IOPS and MiB/s

Minimise   sum_c  gib$ s + iops$ (p - free y) + mibps$ (t - included y)  + a little for moves
           and for each new volume
subject to

    assign    sum_c x[u,c] = 1                               every unit lies somewhere
    buy       x[u,c] <= y[c]                                 only on what is bought
    size      sum_u size[u] x[u,c] <= (1 - free) s[c]        it fits
    iops      sum_u iops[u,c] x[u,c] <= (1 - headroom) p[c]
    bytes     sum_u bytes[u,c] x[u,c] <= (1 - headroom) t[c]
    rules     the type's ratios between s, p and t
    host      sum over all volumes <= the instance's own cap
    response  cpu + sum waits[u,c] x[u,c] <= N / X - Z       the clients can reach X
    count     sum_c y[c] <= max_volumes

Few rows couple the units, so it solves in milliseconds for dozens of units.
"""

from dataclasses import dataclass, field

import highspy

from pgstow.planning.shapes import Shape
from pgstow.units import MIB

_MOVE_USD_PER_GIB = 0.0002  # so that nothing moves without a gain; about one move's gp3 month / 400
_NEW_VOLUME_USD = 0.01  # so that of equal prices the one with fewer volumes to look after wins
_SOLVE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Need:
    """What one unit asks of a volume of one shape, at the wanted throughput."""

    iops: float
    bytes_per_s: float
    wait_us: float  # its part of one transaction's response time


@dataclass(frozen=True, slots=True)
class Unit:
    """What is placed as one: ``needs`` by shape; a shape that is missing there is not allowed."""

    key: str
    gib: float
    needs: dict[str, Need]
    current: str | None  # the volume it lies on now


@dataclass(frozen=True, slots=True)
class Problem:
    """One planning problem at one wanted throughput."""

    units: tuple[Unit, ...]
    shapes: tuple[Shape, ...]
    free_space: float
    headroom: float
    response_us: float | None  # what is left for I/O in one transaction's response time
    host_iops: float | None
    host_bytes_per_s: float | None
    max_volumes: int
    alone: frozenset[str] = frozenset()  # units that share a volume with no other
    forbidden: frozenset[tuple[str, str]] = frozenset()  # (unit, shape) not to use
    groups: tuple[tuple[str, ...], ...] = ()  # ways to keep one volume: at most one is used


@dataclass(frozen=True, slots=True)
class Bought:
    """A shape with its sizes: of the whole array."""

    shape: Shape
    gib: float
    iops: float
    bytes_per_s: float
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """The cheapest arrangement found; no other of this problem costs less than ``bound_usd``."""

    volumes: tuple[Bought, ...]
    usd_month: float
    bound_usd: float
    shape_of: dict[str, str] = field(default_factory=dict)


class _Model:
    """The programme under construction: HiGHS and the variables by name."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.silent()
        self.highs.setOptionValue("time_limit", _SOLVE_SECONDS)
        self.highs.setOptionValue("mip_rel_gap", 1e-5)
        self.highs.setOptionValue("threads", 1)
        self.y = {c.key: self.highs.addBinary() for c in problem.shapes}
        # a member is bought in whole GiB: as integers, rounding costs nothing afterwards
        self.gib = {c.key: self.highs.addIntegral(lb=0) for c in problem.shapes}
        self.s = {c.key: c.stripes * self.gib[c.key] for c in problem.shapes}
        self.p = {c.key: self.highs.addVariable(lb=0) for c in problem.shapes}
        self.t = {c.key: self.highs.addVariable(lb=0) for c in problem.shapes}
        self.x = {
            (u.key, c.key): self.highs.addBinary()
            for u in problem.units
            for c in problem.shapes
            if c.key in u.needs and (u.key, c.key) not in problem.forbidden
        }

    def units_on(self, shape: str) -> list[Unit]:
        return [unit for unit in self.problem.units if (unit.key, shape) in self.x]


def solve(problem: Problem) -> Solution | None:
    """The cheapest arrangement, or None where there is none."""
    if any(
        all(
            (unit.key, c.key) in problem.forbidden or c.key not in unit.needs
            for c in problem.shapes
        )
        for unit in problem.units
    ):
        return None
    model = _Model(problem)
    _add_assignment(model)
    for shape in problem.shapes:
        _add_capacity(model, shape)
        _add_rules(model, shape)
    _add_shared(model)
    model.highs.minimize(_cost(model))
    status = model.highs.getModelStatus()
    has_solution = model.highs.getInfo().primal_solution_status == 2
    if status == highspy.HighsModelStatus.kInfeasible or not has_solution:
        return None
    return _read(model)


def _add_assignment(model: _Model) -> None:
    problem, highs = model.problem, model.highs
    for unit in problem.units:
        choices = [model.x[unit.key, c.key] for c in problem.shapes if (unit.key, c.key) in model.x]
        highs.addConstr(highs.qsum(choices) == 1)
    for (_, shape), x in model.x.items():
        highs.addConstr(x <= model.y[shape])
    for key in problem.alone:
        for c in problem.shapes:
            if (key, c.key) not in model.x:
                continue
            for unit in model.units_on(c.key):
                if unit.key != key:
                    highs.addConstr(model.x[key, c.key] + model.x[unit.key, c.key] <= 1)
    for group in problem.groups:
        highs.addConstr(highs.qsum([model.y[key] for key in group]) <= 1)
    highs.addConstr(highs.qsum(list(model.y.values())) <= problem.max_volumes)


def _add_capacity(model: _Model, shape: Shape) -> None:
    """Rows size, iops and bytes of one shape."""
    problem, highs, key = model.problem, model.highs, shape.key
    units = model.units_on(key)
    if not units:
        highs.addConstr(model.s[key] >= shape.min_gib * model.y[key])
        return
    x = [model.x[unit.key, key] for unit in units]
    used = 1 - problem.headroom
    sizes = highs.qsum([_tidy(unit.gib) * v for unit, v in zip(units, x, strict=True)])
    highs.addConstr(sizes <= (1 - problem.free_space) * model.s[key])
    iops = highs.qsum([_tidy(u.needs[key].iops / 1000) * v for u, v in zip(units, x, strict=True)])
    highs.addConstr(iops <= used * model.p[key])
    rate = highs.qsum(
        [_tidy(u.needs[key].bytes_per_s / MIB) * v for u, v in zip(units, x, strict=True)]
    )
    highs.addConstr(rate <= used * model.t[key])


def _add_rules(model: _Model, shape: Shape) -> None:
    """The type's own rules between size (GiB), IOPS (thousands) and throughput (MiB/s)."""
    highs, key = model.highs, shape.key
    y, s, p, t = model.y[key], model.s[key], model.p[key], model.t[key]
    highs.addConstr(s >= shape.min_gib * y)
    highs.addConstr(s <= shape.max_gib * y)
    highs.addConstr(p <= shape.max_iops / 1000 * y)
    highs.addConstr(t <= shape.max_bytes_per_s / MIB * y)
    if shape.is_iops_provisioned:
        highs.addConstr(p >= shape.included_iops / 1000 * y)
        if shape.iops_per_gib is not None:
            # what is included comes with any size
            highs.addConstr(p <= shape.iops_per_gib / 1000 * s + shape.included_iops / 1000 * y)
    elif shape.iops_per_gib is not None:
        highs.addConstr(p <= shape.iops_per_gib / 1000 * s)
    if shape.is_throughput_provisioned:
        highs.addConstr(t >= shape.included_bytes_per_s / MIB * y)
    if shape.bytes_per_s_per_iops is not None:
        highs.addConstr(t <= shape.bytes_per_s_per_iops * 1000 / MIB * p)
    if shape.bytes_per_s_per_gib is not None:
        highs.addConstr(t <= shape.bytes_per_s_per_gib / MIB * s)


def _add_shared(model: _Model) -> None:
    """Rows host and response, which all volumes share."""
    problem, highs = model.problem, model.highs
    needs = {unit.key: unit.needs for unit in problem.units}
    network = [
        (needs[u][c], x)
        for (u, c), x in model.x.items()
        if not next(shape for shape in problem.shapes if shape.key == c).is_ephemeral
    ]
    used = 1 - problem.headroom
    if problem.host_iops is not None:
        total = highs.qsum([_tidy(need.iops / 1000) * x for need, x in network])
        highs.addConstr(total <= used * problem.host_iops / 1000)
    if problem.host_bytes_per_s is not None:
        total = highs.qsum([_tidy(need.bytes_per_s / MIB) * x for need, x in network])
        highs.addConstr(total <= used * problem.host_bytes_per_s / MIB)
    if problem.response_us is not None:
        waits = highs.qsum([_tidy(needs[u][c].wait_us / 1000) * x for (u, c), x in model.x.items()])
        highs.addConstr(waits <= problem.response_us / 1000)


def _tidy(coefficient: float) -> float:
    """A coefficient to six decimals (0.001 IOPS, 1 byte/s).

    HiGHS refuses those under 1e-9, and its presolve goes astray over those near that.
    """
    return round(coefficient, 6)


def _cost(model: _Model) -> highspy.highs.highs_linear_expression:
    """Dollars a month, and a little for every GiB that moves and every new volume."""
    terms = []
    for c in model.problem.shapes:
        y, s, p, t = model.y[c.key], model.s[c.key], model.p[c.key], model.t[c.key]
        terms.append(c.usd_per_gib * s)
        if c.existing is None:
            terms.append(_NEW_VOLUME_USD * y)
        if c.is_iops_provisioned:
            terms.append(c.usd_per_iops * 1000 * p - c.usd_per_iops * c.paid_iops_from * y)
        if c.is_throughput_provisioned:
            terms.append(c.usd_per_mibps * t - c.usd_per_mibps * c.included_bytes_per_s / MIB * y)
    moves = [
        _MOVE_USD_PER_GIB * max(unit.gib, 0.001) * model.x[unit.key, c.key]
        for unit in model.problem.units
        for c in model.problem.shapes
        if (unit.key, c.key) in model.x and (c.existing is None or c.existing.name != unit.current)
    ]
    return model.highs.qsum(terms + moves)


def _read(model: _Model) -> Solution:
    value = model.highs.variableValue
    shape_of = {u: c for (u, c), x in model.x.items() if value(x) > 0.5}
    bought = []
    for shape in model.problem.shapes:
        if value(model.y[shape.key]) < 0.5:
            continue
        bought.append(
            Bought(
                shape=shape,
                gib=shape.stripes * round(value(model.gib[shape.key])),
                iops=value(model.p[shape.key]) * 1000,
                bytes_per_s=value(model.t[shape.key]) * MIB,
                units=tuple(u for u, c in shape_of.items() if c == shape.key),
            )
        )
    info = model.highs.getInfo()
    return Solution(
        volumes=tuple(bought),
        usd_month=info.objective_function_value,
        bound_usd=info.mip_dual_bound,
        shape_of=shape_of,
    )
