"""The frontier of prices: it rises, its bounds hold, and a plan at one of its speeds agrees."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.cli.plan_frontier import frontier_table, knee_lines
from pgstow.model import Goal, HostSpec, InfeasibleError
from pgstow.planning import Frontier, FrontierPoint
from pgstow.planning.frontier import _Curve, _Met, _monotone, knee_of
from pgstow.planning.planner import case_of
from pgstow.prediction import predict

CATALOG = catalog.load()
PROFILE = content_platform.profile()
POINTS = 12


@cache
def curve() -> Frontier:
    return planning.frontier(PROFILE, Goal(), CATALOG, points=POINTS)


def test_more_speed_never_costs_less() -> None:
    points = curve().points
    assert len(points) == POINTS
    for slow, fast in pairwise(points):
        assert slow.tps < fast.tps
        assert slow.usd_month <= fast.usd_month
    assert points[0].usd_month < points[-1].usd_month


def test_every_bound_holds_and_is_close() -> None:
    for point in curve().points:
        assert point.bound_usd_month <= point.usd_month + 1e-6
        assert point.usd_month <= point.bound_usd_month * 1.01 + 0.2


def test_a_plan_for_a_speed_of_the_curve_is_bounded_by_it() -> None:
    point = curve().points[POINTS // 2]
    found = planning.plan(PROFILE, Goal(tps=point.tps), CATALOG)
    assert found.bound is not None
    assert found.bound.value == pytest.approx(point.bound_usd_month, rel=0.01, abs=0.1)
    assert found.prediction.performance.usd_month == pytest.approx(point.usd_month, rel=3e-3)


def test_a_point_on_a_faster_ones_layout_has_the_latency_of_that_layout() -> None:
    case = case_of(PROFILE, Goal(), CATALOG)
    own = _Curve(case.planner(), case.present, 0.0)
    slow, fast = own.at(0.5 * content_platform.TPS), own.at(3 * content_platform.TPS)
    assert isinstance(slow, _Met) and isinstance(fast, _Met)
    dear = replace(slow, point=replace(slow.point, usd_month=fast.point.usd_month + 1))
    found, same = _monotone(own, [dear, fast])
    assert same == fast
    assert found.point.usd_month == fast.point.usd_month
    assert found.layout == fast.layout != slow.layout
    shown = predict(PROFILE, fast.layout, CATALOG, clients=slow.point.clients)
    assert found.point.latency_ms == pytest.approx(shown.performance.latency_ms.mean, rel=0.03)
    assert found.point.latency_ms < 0.8 * slow.point.latency_ms


def test_what_a_goal_forbids_is_on_no_point() -> None:
    points = planning.frontier(PROFILE, Goal(forbid_types=("gp3", "io2")), CATALOG, points=4).points
    assert all("io2" not in name for point in points for name in point.volumes)
    fastest = points[-1].usd_month / points[-1].tps
    assert fastest > curve().points[-1].usd_month / curve().points[-1].tps


def test_an_instance_that_is_too_small_has_no_frontier() -> None:
    slow = replace(PROFILE.layout, host=HostSpec("ec2", "us-east-1", "t3.nano"))
    with pytest.raises(InfeasibleError, match="half of what was observed"):
        planning.frontier(replace(PROFILE, layout=slow), Goal(headroom=0.9), CATALOG)


def _bent() -> Frontier:
    def point(tps: float, usd: float) -> FrontierPoint:
        return FrontierPoint(tps, 1.0, 8, usd, usd, ("a new gp3",))

    return Frontier((point(100, 10), point(200, 11), point(300, 12), point(400, 100)), 2)


def test_the_table_marks_the_knee_and_says_what_more_costs() -> None:
    table = frontier_table(_bent())
    bars, marks = (list(table.columns[number].cells) for number in (4, 5))
    assert marks == ["", "", "knee", ""]
    assert str(bars[3]).count("█") > 5 * str(bars[0]).count("█")
    words = "\n".join(knee_lines(_bent()))
    assert "300 TPS for $12.00" in words
    assert "$10.00/month, beyond it $880.00" in words
    assert "No price is more than" in words
    some = tuple(replace(one, bound_usd_month=0.0) for one in _bent().points[:1])
    partly = Frontier((*some, *_bent().points[1:]), 2)
    assert "Of 1 rows nothing is proved; no other price" in "\n".join(knee_lines(partly))


def test_the_knee_is_where_the_curve_bends() -> None:
    bent = list(_bent().points)
    assert knee_of(bent) == 2
    assert knee_of(bent[:2]) == 1
    assert knee_of(bent[:1]) == 0
