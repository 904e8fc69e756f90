"""Plans of one profile agree with one another, whichever way they are asked for."""

import re
from dataclasses import replace
from functools import cache

import content_platform
import pytest
from synthetic_profile import profile as synthetic

from pgstow import catalog, planning
from pgstow.model import (
    Bound,
    Considered,
    Goal,
    InfeasibleError,
    NotFoundError,
    Plan,
    Profile,
    Rate,
)
from pgstow.planning import search
from pgstow.planning.placement import NoSolution, PlacementProblem, PlacementSolution
from pgstow.planning.planner import case_of
from pgstow.planning.search import Found, Planner, cheapest
from pgstow.units import MIB, Bytes

CATALOG = catalog.load()
FEW = Goal(allow_types=("gp3", "io2"), max_stripes=2)
SHARE, USD = 0.003, 0.02  # what plans that are found in other ways may differ by


def _scanning() -> Profile:
    """The content platform with large writes: what the kernel merged."""
    base = content_platform.profile(tps=400, clients=16)
    assert base.host is not None
    (device,) = base.host.devices
    large = replace(
        device,
        read_ms=1.2,
        write_bytes=Rate(device.writes.mean * 100 * 1024),
    )
    return replace(base, host=replace(base.host, devices=(large,)))


PROFILES = {
    "reads": content_platform.profile(),
    "large writes": _scanning(),
    "twelve relations": synthetic(12, 3),
    "twenty relations": synthetic(20, 3),
}
TIMES = {"reads": 3.0, "large writes": 4.0, "twelve relations": 4.0, "twenty relations": 4.0}
NAMES = pytest.mark.parametrize(
    "name",
    [
        "reads",
        "large writes",
        pytest.param("twelve relations", marks=pytest.mark.nightly),
        pytest.param("twenty relations", marks=pytest.mark.nightly),
    ],
)


@cache
def plan(name: str, goal: Goal) -> Plan:
    return planning.plan(PROFILES[name], goal, CATALOG)


def goal_of(name: str) -> Goal:
    return replace(FEW, tps=TIMES[name] * PROFILES[name].activity.transactions.mean)


def usd(found: Plan) -> float:
    assert found.prediction.performance.usd_month is not None
    return found.prediction.performance.usd_month


def about(price: float) -> float:
    return price * (1 + SHARE) + USD


@NAMES
def test_no_limit_and_one_that_never_binds_are_the_same(name: str) -> None:
    free = plan(name, goal_of(name))
    endless = plan(name, replace(goal_of(name), max_move_bytes=1 << 60))
    assert usd(endless) == usd(free)
    assert endless.layout == free.layout


@NAMES
def test_more_freedom_costs_no_more(name: str) -> None:
    goal = goal_of(name)
    asked = [
        goal,
        replace(goal, max_move_bytes=512 * MIB),
        replace(goal, max_move_bytes=0),
    ]
    asked += [replace(goal, max_volumes=2), replace(goal, headroom=0.3)]
    free, *limited = [_or_none(name, one) for one in asked]
    assert free is not None and free.bound is not None
    for one in limited:
        if one is not None:
            assert usd(free) <= about(usd(one))
            assert free.bound.value <= usd(one) + 1e-6  # what meets more meets the goal
    half, none = limited[:2]
    if half is not None and none is not None:
        assert usd(half) <= about(usd(none))


def _or_none(name: str, goal: Goal) -> Plan | None:
    try:
        return plan(name, goal)
    except (InfeasibleError, NotFoundError):
        return None


@NAMES
def test_what_moving_saves_is_the_difference_to_a_plan_in_place(name: str) -> None:
    free, kept = plan(name, goal_of(name)), _or_none(name, replace(goal_of(name), max_move_bytes=0))
    moves = [one for one in free.reasons if one.subject == "moves"]
    if not planning.changes(PROFILES[name], free.layout, CATALOG).moves:
        assert moves == []
        assert kept is not None and usd(kept) <= about(usd(free))
        return
    (reason,) = moves
    if kept is None:
        assert reason.next_best_usd_month is None
    else:
        assert reason.next_best_usd_month == pytest.approx(usd(kept) - usd(free), abs=USD)


@NAMES
def test_a_plan_for_a_speed_of_the_frontier_is_its_point(name: str) -> None:
    curve = planning.frontier(PROFILES[name], FEW, CATALOG, points=5)
    for point in (curve.points[1], curve.points[-2]):
        found = plan(name, replace(FEW, tps=point.tps))
        assert usd(found) <= about(point.usd_month)
        assert point.usd_month <= about(usd(found)) or point.usd_month <= about(
            curve.points[-1].usd_month
        )
        assert point.bound_usd_month <= usd(found) + 1e-6
        assert found.bound is not None and found.bound.value <= point.usd_month + 1e-6


@NAMES
def test_the_nearest_goals_of_a_refusal_can_be_met_for_what_they_say(name: str) -> None:
    goal = replace(goal_of(name), tps=6 * goal_of(name).tps, max_move_bytes=0)  # type: ignore[operator]
    with pytest.raises((InfeasibleError, NotFoundError)) as refused:
        plan(name, goal)
    said = str(refused.value)
    near = re.findall(r"--(tps|max-move) ([\d.]+)(?:MiB)? for \$([\d,.]+\d)", said)
    assert near, said
    for option, value, price in near:
        change = (
            {"tps": float(value)}
            if option == "tps"
            else {"max_move_bytes": Bytes(int(value) * MIB)}
        )
        found = planning.plan(PROFILES[name], replace(goal, **change), CATALOG)  # type: ignore[arg-type]
        assert usd(found) == pytest.approx(float(price.replace(",", "")), abs=0.006)


@NAMES
def test_headroom_is_kept_at_the_goals_speed(name: str) -> None:
    found = plan(name, goal_of(name))
    full = planning.bottleneck(found)
    assert full is not None and full.tps == goal_of(name).tps
    assert full.used <= 0.8 + 0.021


@NAMES
def test_reasons_say_what_stands_under_the_volume(name: str) -> None:
    found = plan(name, goal_of(name))
    shown = planning.contents(found.prediction, PROFILES[name], shown=1000)
    shares = {share.name: share for held in shown for share in held.shares}
    told = [one for one in found.reasons if one.subject in shares]
    assert told
    for one in told:
        share = shares[one.subject]
        rate = f"{share.iops:,.0f} IOPS and {share.bytes_per_second / MIB:,.1f} MiB/s"
        assert rate in one.because


@NAMES
def test_what_lies_on_a_volume_adds_up_to_its_load(name: str) -> None:
    found = plan(name, goal_of(name)).prediction
    loads = {load.volume: load for load in found.volumes}
    for held in planning.contents(found, PROFILES[name], shown=1000):
        load = loads[held.volume]
        total = sum(share.bytes_per_second for share in held.shares)
        assert total == pytest.approx(load.bytes_per_second, rel=0.1, abs=0.2 * MIB)


class Slow:
    """A solver that always runs out of time."""

    def __call__(self, problem: PlacementProblem, **_: object) -> PlacementSolution | NoSolution:
        return NoSolution.NOT_FOUND


def test_a_solver_out_of_time_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from pgstow.planning import planner

    def slow(case: planner.Case) -> Planner:
        return replace(build(case), place=Slow())

    build = planner.Case.planner
    monkeypatch.setattr(planner.Case, "planner", slow)
    with pytest.raises(NotFoundError, match="found in time") as refused:
        planning.plan(PROFILES["reads"], goal_of("reads"), CATALOG)
    assert refused.value.exit_code == 1
    assert "no layout meets" not in str(refused.value)


def test_a_simulation_that_always_misses_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Planner.check

    def never(self: Planner, layout: object) -> object:
        seen = honest(self, layout)  # type: ignore[arg-type]
        return replace(seen, performance=replace(seen.performance, tps=1.0), volumes=seen.volumes)

    monkeypatch.setattr(Planner, "check", never)
    monkeypatch.setattr(search, "_ATTEMPTS", 2)
    planner = case_of(PROFILES["reads"], goal_of("reads"), CATALOG).planner()
    assert cheapest(planner, goal_of("reads").tps or 0.0) is NoSolution.NOT_FOUND


def test_more_than_the_processors_do_is_proved_impossible() -> None:
    with pytest.raises(InfeasibleError, match="no layout meets"):
        plan("reads", replace(FEW, tps=1e6))


def test_a_bound_says_of_what_and_for_which_layouts() -> None:
    found = plan("reads", replace(goal_of("reads"), max_move_bytes=512 * MIB))
    bound = found.bound
    assert bound is not None and bound.of == "price" and bound.is_proven
    assert bound.layouts.max_move_bytes == 512 * MIB
    assert bound.acceptance is not None and bound.acceptance.tps == goal_of("reads").tps
    assert found.proof is not None and "moving at most 512 MiB" in found.proof
    assert "with the data directory on data, of up to" in found.proof
    words = "2,100 TPS with 20% of every limit and 30% of every new volume free costs less than"
    assert words in found.proof
    assert "pins" not in found.proof
    pinned = plan("reads", replace(goal_of("reads"), pins=(("wal", "gp3"),)))
    assert pinned.proof is not None and "with all pins kept" in pinned.proof
    lasting = plan("reads", replace(goal_of("reads"), max_failure_rate=0.005))
    assert lasting.proof is not None and "none failing over 0.5 % a year" in lasting.proof


def test_of_a_speed_that_is_not_proved_nothing_is_claimed() -> None:
    bound = Bound("tps", 900.0, Considered(("gp3",), 3, 2), None, is_proven=False)
    assert bound.sentence(10.0) == "How much faster another layout could be is not proved"


def test_what_was_found_with_nothing_moved_is_kept_where_the_rest_was_out_of_time() -> None:
    goal = replace(goal_of("reads"), tps=PROFILES["reads"].activity.transactions.mean)
    planner = case_of(PROFILES["reads"], goal, CATALOG).planner()
    real = planner.place

    def in_time(problem: PlacementProblem, **asked: bool) -> PlacementSolution | NoSolution:
        return real(problem, **asked) if problem.max_move_gib == 0 else NoSolution.NOT_FOUND

    found = cheapest(replace(planner, place=in_time), goal.tps or 0.0)
    assert isinstance(found, Found)
    assert found.bound_usd == 0.0  # nothing is proved


def test_with_a_budget_nothing_is_said_of_a_price() -> None:
    found = plan("reads", replace(FEW, budget_usd_month=2.0))
    assert found.bound is not None and found.bound.of == "tps"
    assert found.gap_pct is None
    assert found.prediction.performance.tps <= found.bound.value
    assert found.proof is not None and "costs less" not in found.proof
    assert "is not proved" in found.proof
