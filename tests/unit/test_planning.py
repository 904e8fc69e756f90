"""Plans on the content platform: they meet their goals, and their bounds hold."""

from dataclasses import replace
from functools import cache

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.layout_file import format_layout, parse_layout
from pgstow.model import Goal, HostSpec, InfeasibleError, Plan, Profile, Rate, UserError
from pgstow.planning.needs import flush_rate, response_budget_us
from pgstow.prediction import workload_of

CATALOG = catalog.load()
PROFILE = content_platform.profile()

FOUR_TIMES = Goal(tps=4 * content_platform.TPS, commit_p99_ms=8)


@cache  # several tests look at the same plan
def plan(profile: Profile, goal: Goal) -> Plan:
    return planning.plan(profile, goal, CATALOG)


def test_four_times_the_transactions_for_little_more() -> None:
    found = plan(PROFILE, FOUR_TIMES)
    speed = found.prediction.performance
    assert speed.tps >= 4 * content_platform.TPS * 0.98
    assert speed.commit_ms.p99 is not None
    assert speed.commit_ms.p99 <= 8
    assert speed.usd_month is not None
    assert found.bound is not None and found.bound.value <= speed.usd_month
    present = found.present.performance
    assert speed.usd_per_1000_tps is not None
    assert present.usd_per_1000_tps is not None
    assert speed.usd_per_1000_tps < present.usd_per_1000_tps
    CATALOG.check(found.layout)


def test_a_volume_of_another_type_has_no_credits_left_to_say() -> None:
    (data,) = PROFILE.layout.volumes
    gp2 = replace(data, type="gp2", iops=None, throughput=None, burst_credits=0.5)
    found = plan(replace(PROFILE, layout=replace(PROFILE.layout, volumes=(gp2,))), FOUR_TIMES)
    assert all(v.burst_credits is None for v in found.layout.volumes if v.type != "gp2")
    CATALOG.check(found.layout)


def test_plan_can_be_written_and_read_back() -> None:
    found = plan(PROFILE, FOUR_TIMES)
    assert parse_layout(format_layout(found.layout), "planned.toml") == found.layout


def test_what_is_enough_stays_as_it_is() -> None:
    found = plan(PROFILE, Goal(tps=content_platform.TPS * 0.5))
    assert {v.name for v in found.layout.volumes} == {"data"}
    assert found.layout.tablespaces == ()
    assert found.prediction.performance.usd_month == found.present.performance.usd_month


def test_budget_is_kept_and_used() -> None:
    found = plan(PROFILE, Goal(budget_usd_month=3, allow_types=("gp3",)))
    speed = found.prediction.performance
    assert speed.usd_month is not None
    assert speed.usd_month <= 3
    assert speed.tps > 3 * found.present.performance.tps


def test_a_budget_under_the_present_price_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match=r"\$1\.00"):
        plan(PROFILE, Goal(budget_usd_month=1))


def test_impossible_speed_names_the_cpu() -> None:
    with pytest.raises(InfeasibleError, match="cannot reach it on any disk"):
        plan(PROFILE, Goal(tps=1e6))


def test_the_instance_cap_is_named_when_it_stands_in_the_way() -> None:
    small = replace(PROFILE.layout, host=HostSpec("ec2", "us-east-1", "m5.large"))
    with pytest.raises(InfeasibleError, match="instance's storage cap"):
        plan(replace(PROFILE, layout=small), FOUR_TIMES)


def test_forbidden_types_are_not_used() -> None:
    goal = Goal(tps=2 * content_platform.TPS, forbid_types=("gp3",), headroom=0.1)
    found = plan(PROFILE, goal)
    kept = {v.name for v in PROFILE.layout.volumes}
    assert all(v.type != "gp3" for v in found.layout.volumes if v.name not in kept)


def test_unknown_types_are_the_users_mistake() -> None:
    with pytest.raises(UserError, match="gp33"):
        plan(PROFILE, Goal(allow_types=("gp33",)))


def test_local_volumes_cannot_be_bought() -> None:
    local = replace(PROFILE.layout, host=HostSpec("local"))
    with pytest.raises(UserError, match="--layout"):
        plan(replace(PROFILE, layout=local), Goal())


def test_hostile_names_survive_planning() -> None:
    hostile = content_platform.with_names({"articles": 'a"b\n<script>.$(rm)'})
    found = plan(hostile, FOUR_TIMES)
    placed = [r.name for space in found.layout.tablespaces for r in space.relations]
    assert 'a"b\n<script>.$(rm)' in placed


def test_each_reason_names_its_opposite() -> None:
    found = plan(PROFILE, FOUR_TIMES)
    assert len(found.reasons) >= 3
    articles = next(r for r in found.reasons if r.subject == "content.public.articles")
    assert articles.choice.startswith("a new")
    assert "data" in articles.next_best
    assert articles.next_best_usd_month is None or articles.next_best_usd_month > 10


def test_clients_that_think_are_more_when_more_is_asked() -> None:
    idle = replace(
        PROFILE,
        activity=replace(PROFILE.activity, active_sessions=Rate(2.0), client_backends=Rate(8.0)),
    )
    found = plan(idle, Goal(tps=2 * content_platform.TPS))
    assert found.prediction.performance.tps >= 2 * content_platform.TPS * 0.98
    assert [w.code for w in found.warnings].count("more-clients") == 1


def test_group_commit_never_flushes_faster_than_the_device() -> None:
    for commits in (1.0, 100.0, 10_000.0):
        assert flush_rate(commits, 0.002) <= min(commits, 500) * 1.0001


def test_cpu_bound_goal_has_no_response_left() -> None:
    work = workload_of(PROFILE)
    assert response_budget_us(work, 1.001 * work.cores / work.cpu_us * 1e6) is None
