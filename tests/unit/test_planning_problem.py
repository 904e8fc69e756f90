"""The planning programme against exhaustive search on small problems."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow.planning.problem import Need, Problem, Unit, solve
from pgstow.planning.shapes import Shape
from pgstow.units import MIB


def _shape(key: str, usd_per_gib: float, max_iops: float, read_us: float = 1000.0) -> Shape:
    return Shape(
        key=key,
        type="gp3",
        stripes=1,
        min_gib=1,
        max_gib=1000,
        included_iops=max_iops,
        paid_iops_from=0,
        max_iops=max_iops,
        iops_per_gib=None,
        is_iops_provisioned=False,
        included_bytes_per_s=125 * MIB,
        max_bytes_per_s=125 * MIB,
        bytes_per_s_per_gib=None,
        bytes_per_s_per_iops=None,
        is_throughput_provisioned=False,
        usd_per_gib=usd_per_gib,
        usd_per_iops=0,
        usd_per_mibps=0,
        read_us=read_us,
        write_us=1800,
        read_us_p99=1500,
        write_us_p99=2700,
    )


def _unit(key: str, gib: float, iops: float, shapes: tuple[Shape, ...]) -> Unit:
    return Unit(key, gib, {s.key: Need(iops, iops * 8192, 0.0) for s in shapes}, None)


def _problem(units: tuple[Unit, ...], shapes: tuple[Shape, ...]) -> Problem:
    return Problem(units, shapes, 0.0, 0.0, None, None, None, len(shapes))


def _cost(units: tuple[Unit, ...], shapes: tuple[Shape, ...], choice: tuple[int, ...]) -> float:
    """Price of one assignment by arithmetic; infinite where a volume is asked too much."""
    total = 0.0
    for index, shape in enumerate(shapes):
        on = [u for u, c in zip(units, choice, strict=True) if c == index]
        if not on:
            continue
        if sum(u.needs[shape.key].iops for u in on) > shape.max_iops:
            return float("inf")
        if sum(u.needs[shape.key].bytes_per_s for u in on) > shape.max_bytes_per_s:
            return float("inf")
        total += shape.usd_per_gib * max(shape.min_gib, math.ceil(sum(u.gib for u in on)))
        total += 0.01  # every volume is a new one here
        total += sum(0.0002 * max(u.gib, 0.001) for u in on)
    return total


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 2500)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 50), st.integers(300, 5000)), min_size=1, max_size=3),
)
def test_solution_is_the_cheapest_of_all_assignments(
    wants: list[tuple[int, int]], offers: list[tuple[int, int]]
) -> None:
    shapes = tuple(_shape(f"c{i}", cents / 100, iops) for i, (cents, iops) in enumerate(offers))
    units = tuple(_unit(f"u{i}", half / 2, iops, shapes) for i, (half, iops) in enumerate(wants))
    best = min(
        _cost(units, shapes, choice)
        for choice in itertools.product(range(len(shapes)), repeat=len(units))
    )
    solution = solve(_problem(units, shapes))
    if best == float("inf"):
        assert solution is None
        return
    assert solution is not None
    assert solution.usd_month == pytest.approx(best, rel=1e-3, abs=1e-3)
    assert solution.bound_usd <= solution.usd_month * (1 + 1e-6) + 1e-6


def test_provisioned_iops_are_paid_over_what_is_included() -> None:
    from dataclasses import replace

    shape = replace(
        _shape("gp3", 0.08, 80_000),
        included_iops=3000,
        paid_iops_from=3000,
        is_iops_provisioned=True,
        usd_per_iops=0.005,
        iops_per_gib=500,
        max_bytes_per_s=1000 * MIB,
    )
    units = (_unit("orders", 500, 6000, (shape,)),)
    solution = solve(_problem(units, (shape,)))
    assert solution is not None
    assert solution.usd_month == pytest.approx(500 * 0.08 + 3000 * 0.005, abs=0.2)


def test_a_wal_alone_shares_with_nothing() -> None:
    from dataclasses import replace

    shapes = (_shape("a", 0.08, 3000), _shape("b", 0.10, 3000))
    units = (_unit("orders", 10, 100, shapes), _unit("wal", 2, 100, shapes))
    together = solve(_problem(units, shapes))
    assert together is not None and len(together.volumes) == 1
    apart = solve(replace(_problem(units, shapes), alone=frozenset({"wal"})))
    assert apart is not None
    assert apart.shape_of["wal"] != apart.shape_of["orders"]


def test_waits_bound_the_choice() -> None:
    from dataclasses import replace

    shapes = (_shape("slow", 0.01, 3000, 8000), _shape("fast", 0.10, 3000, 500))
    unit = Unit("orders", 10, {s.key: Need(100, 819200, s.read_us * 2) for s in shapes}, None)
    cheap = solve(_problem((unit,), shapes))
    assert cheap is not None and cheap.shape_of["orders"] == "slow"
    quick = solve(replace(_problem((unit,), shapes), response_us=2000))
    assert quick is not None and quick.shape_of["orders"] == "fast"
    assert solve(replace(_problem((unit,), shapes), response_us=500)) is None


def test_the_instance_cap_binds_all_volumes_together() -> None:
    from dataclasses import replace

    shapes = (_shape("a", 0.08, 3000), _shape("b", 0.08, 3000))
    units = tuple(_unit(f"u{i}", 10, 2000, shapes) for i in range(2))
    assert solve(_problem(units, shapes)) is not None
    assert solve(replace(_problem(units, shapes), host_iops=3500)) is None
