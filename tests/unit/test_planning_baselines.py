"""Rules of thumb: what each puts where, that it bears its load, and none beats the plan."""

from functools import cache

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.cli.plan_compare import compare_table, refused_lines
from pgstow.model import Goal, InfeasibleError, Layout
from pgstow.planning import Compared
from pgstow.units import GIB

CATALOG = catalog.load()
PROFILE = content_platform.profile()
TWICE = Goal(tps=2 * content_platform.TPS)
SIX_DOLLARS = Goal(budget_usd_month=6, allow_types=("gp3", "io2"))
ARTICLES = content_platform.relation_id("articles")


@cache
def layout(name: str) -> Layout:
    return planning.baseline(name, PROFILE, TWICE, CATALOG)


def volume_of(found: Layout, relation: str) -> str:
    """The type of the volume that stores a relation of the platform."""
    target = content_platform.relation_id(relation)
    for space in found.tablespaces:
        if target in space.relations:
            return found.volume(space.volume).type
    return found.volume(found.postgres.data).type


@cache
def rows(goal: Goal) -> tuple[Compared, ...]:
    return planning.compare(PROFILE, goal, CATALOG, planning.plan(PROFILE, goal, CATALOG))


def test_one_volume_holds_everything() -> None:
    found = layout("one volume")
    assert [volume.type for volume in found.volumes] == ["gp3"]
    assert found.tablespaces == ()
    iops = found.volumes[0].iops
    assert iops is not None and iops > 2 * 3000 * 0.9  # the present load fills 3,000


def test_the_fastest_type_for_all_is_io2() -> None:
    assert [volume.type for volume in layout("all on the fastest type").volumes] == ["io2"]


def test_the_wal_apart_is_alone_and_nothing_else_moves() -> None:
    found = layout("WAL apart")
    assert found.postgres.wal != found.postgres.data
    assert found.tablespaces == ()
    assert {volume.type for volume in found.volumes} == {"gp3"}


def test_indexes_alone_are_on_the_fast_type() -> None:
    found = layout("indexes on fast")
    assert volume_of(found, "articles_pkey") == "io2"
    assert volume_of(found, "analytics_events_ts") == "io2"
    assert volume_of(found, "articles") == "gp3"


def test_by_hand_is_the_documents_layout() -> None:
    found = layout("by hand")
    assert volume_of(found, "articles") == "io2"
    assert volume_of(found, "analytics_events") == "io2"
    assert volume_of(found, "old_articles") == "gp3"
    assert volume_of(found, "subscriptions") == "gp3"
    assert found.volume(found.postgres.wal).type == "io2"
    on_wal = [space for space in found.tablespaces if space.volume == found.postgres.wal]
    assert on_wal == []


def test_greedy_takes_the_densest_first() -> None:
    found = layout("greedy by density")
    fast = [
        relation.name
        for space in found.tablespaces
        if found.volume(space.volume).type == "io2"
        for relation in space.relations
    ]
    if fast:
        assert "articles_pkey" in fast
    assert "old_articles" not in fast


def test_right_sizing_moves_nothing() -> None:
    found = layout("right-sizing")
    assert [volume.name for volume in found.volumes] == ["data"]
    assert found.tablespaces == ()
    assert found.postgres == PROFILE.layout.postgres


@pytest.mark.parametrize("name", planning.RULES)
def test_every_rule_can_be_bought(name: str) -> None:
    CATALOG.check(layout(name))


@pytest.mark.parametrize("goal", [TWICE, SIX_DOLLARS])
def test_no_rule_that_meets_the_goal_is_cheaper_or_faster_than_the_plan(goal: Goal) -> None:
    plan, *others = rows(goal)
    assert plan.name == "pgstow"
    assert plan.missed == ()
    assert {row.name for row in others} == set(planning.RULES)
    assert plan.prediction is not None
    mine = plan.prediction.performance
    for row in others:
        if row.missed or row.prediction is None:
            continue
        speed = row.prediction.performance
        if goal.budget_usd_month is None:
            assert (mine.usd_month or 0.0) <= (speed.usd_month or 0.0) + 0.05
        else:
            assert mine.tps >= speed.tps * 0.97


def test_a_rule_whose_least_is_over_the_budget_says_so() -> None:
    by_name = {row.name: row for row in rows(SIX_DOLLARS)}
    assert "budget" in by_name["all on the fastest type"].missed
    assert "budget" not in by_name["one volume"].missed


def test_a_rule_may_use_what_the_goal_forbids() -> None:
    goal = Goal(tps=content_platform.TPS, forbid_types=("io2",))
    found = planning.baseline("all on the fastest type", PROFILE, goal, CATALOG)
    assert found.volumes[0].type == "io2"


def test_a_volume_for_backups_is_in_every_rows_price() -> None:
    goal = Goal(tps=content_platform.TPS, backup_bytes=100 * GIB)
    shown = rows(goal)
    for row in shown:
        assert row.layout is not None
        assert row.prediction is not None
        sizes = [volume.size_bytes for volume in row.layout.volumes]
        assert max(sizes) >= 100 * GIB
        assert (row.prediction.performance.usd_month or 0.0) > 100 * 0.015


def test_the_table_has_a_row_for_each_and_says_what_is_missed() -> None:
    shown = (*rows(TWICE), Compared("none", None, None, (), "the platform sells no such type"))
    table = compare_table(shown)
    assert table.row_count == len(planning.RULES) + 2
    misses = [str(cell) for cell in table.columns[6].cells]
    assert misses[0] == "nothing"
    assert misses[-1] == "cannot be bought"
    assert list(refused_lines(shown)) == ["none: the platform sells no such type"]


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises((KeyError, InfeasibleError)):
        planning.baseline("everything on tape", PROFILE, TWICE, CATALOG)


def test_whole_iops_do_not_take_a_rule_over_the_budget() -> None:
    for row in rows(SIX_DOLLARS):
        if "budget" not in row.missed:
            assert row.prediction is not None
            assert (row.prediction.performance.usd_month or 0.0) <= 6.005
    by_name = {row.name: row for row in rows(SIX_DOLLARS)}
    assert by_name["one volume"].missed == ()
    assert by_name["right-sizing"].missed == ()
