"""Growth: from two profiles or from inserts; a plan for later holds what there will be."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import content_platform
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pgstow import catalog, planning
from pgstow.cli.main import app
from pgstow.model import Goal, Profile, Rate, Relation, RelationId, UserError
from pgstow.planning.growth import full_warnings, grown, growth
from pgstow.units import GIB, MIB, Bytes
from pgstow.workspace import Workspace

CATALOG = catalog.load()
PROFILE = content_platform.profile()
DAY_S = 86400.0
EVENTS = content_platform.relation_id("analytics_events")


def earlier(days: float, sizes: dict[str, int]) -> Profile:
    """The profile so many days before, with other sizes."""
    begin = datetime.fromisoformat(PROFILE.started_at) - timedelta(days=days)
    relations = tuple(
        replace(one, size_bytes=Bytes(sizes.get(one.id.name, one.size_bytes)))
        for one in PROFILE.server.relations
    )
    server = replace(PROFILE.server, relations=relations)
    return replace(PROFILE, started_at=begin.isoformat(), server=server)


def inserting(bytes_per_s: float) -> Profile:
    """Rows that come to the events, and nothing else that grows."""
    demands = tuple(
        replace(one, growth_bytes=Rate(bytes_per_s if one.relation == EVENTS else 0.0))
        for one in PROFILE.demands
    )
    return replace(PROFILE, demands=demands)


def test_two_profiles_say_how_fast_each_relation_grows() -> None:
    found = growth(PROFILE, (earlier(10, {"analytics_events": 1072 * MIB, "articles": GIB}),))
    assert found is not None
    assert found.bytes_per_second == {EVENTS: pytest.approx(2000 * MIB / (10 * DAY_S))}
    assert "two profiles 10 days apart" in found.source


def test_the_oldest_profile_of_the_same_server_counts() -> None:
    stranger = earlier(100, {"analytics_events": 0})
    stranger = replace(stranger, server=replace(stranger.server, system_identifier="2"))
    minute = earlier(1 / 1440, {"analytics_events": 0})
    old = earlier(20, {"analytics_events": 1072 * MIB})
    found = growth(PROFILE, (stranger, old, earlier(10, {}), minute))
    assert found is not None
    assert found.seen_s == 20 * DAY_S


def test_without_another_profile_inserts_say_it() -> None:
    found = growth(inserting(1000.0))
    assert found is not None
    assert found.bytes_per_second == {EVENTS: 1000.0}
    assert "inserts of 1 min" in found.source
    assert growth(PROFILE) is None


def test_a_partition_that_came_is_growth_and_another_new_table_is_not() -> None:
    parent = RelationId("content", "public", "events")
    part = Relation(RelationId("content", "public", "p2"), "table", Bytes(GIB), partition_of=parent)
    load = Relation(RelationId("content", "public", "loaded"), "table", Bytes(GIB))
    server = replace(PROFILE.server, relations=(*PROFILE.server.relations, part, load))
    found = growth(replace(PROFILE, server=server), (earlier(1, {}),))
    assert found is not None
    assert set(found.bytes_per_second) == {part.id}


@given(st.floats(min_value=0, max_value=1e5), st.floats(min_value=1, max_value=1e8))
def test_nothing_shrinks_and_growth_is_linear(rate: float, horizon_s: float) -> None:
    found = growth(inserting(rate))
    assert found is not None
    later = grown(PROFILE, found, horizon_s)
    before = {one.id: one.size_bytes for one in PROFILE.server.relations}
    after = {one.id: one.size_bytes for one in later.server.relations}
    assert after[EVENTS] - before[EVENTS] == pytest.approx(rate * horizon_s, abs=1)
    assert {**after, EVENTS: 0} == {**before, EVENTS: 0}


def test_a_plan_for_later_has_room_for_what_comes() -> None:
    seen = inserting(4000.0)
    found = growth(seen)
    goal = Goal(tps=content_platform.TPS * 0.5, horizon_s=365 * DAY_S, max_stripes=1)
    later = planning.plan(seen, goal, CATALOG, found)
    stored = sum(one.size_bytes for one in seen.server.relations) + 4000 * 365 * DAY_S
    assert sum(v.total_bytes for v in later.layout.volumes) * 0.7 >= stored
    now = planning.plan(seen, replace(goal, horizon_s=None), CATALOG)
    usd, usd_now = (one.prediction.performance.usd_month for one in (later, now))
    assert usd is not None and usd_now is not None
    assert usd > usd_now
    (warning,) = [one for one in later.warnings if one.code == "far-horizon"]
    assert "365 days" in warning.message


def test_a_volume_that_fills_up_is_said_with_its_day() -> None:
    stored = sum(one.size_bytes for one in PROFILE.server.relations) + 2 * GIB  # with the WAL
    rate = (20 * GIB - stored) / (100 * DAY_S)
    found = growth(inserting(rate))
    assert found is not None
    assert full_warnings(PROFILE.layout, PROFILE, found, 99 * DAY_S) == ()
    (warning,) = full_warnings(PROFILE.layout, PROFILE, found, 101 * DAY_S)
    assert warning.code == "volume-full"
    assert "volume data is full in 100 days" in warning.message
    plenty = growth(inserting(rate * 1e-6))
    assert plenty is not None
    assert full_warnings(PROFILE.layout, PROFILE, plenty, 10_000 * DAY_S) == ()


def test_explain_shows_the_sizes_of_a_later_day(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with Workspace.open(path) as store:
        store.add("profile", inserting(4000.0))
    command = ["explain", "--workspace", str(path)]
    now = CliRunner().invoke(app, command)
    later = CliRunner().invoke(app, [*command, "--horizon", "12mo"])
    assert later.exit_code == 0, later.exception
    assert "size=3 GiB" in now.output
    assert f"size={(3 * GIB + 4000 * 365 * DAY_S) / GIB:,.1f} GiB" in later.output
    assert "volume data is full in" in later.stderr
    with Workspace.open(path) as store:
        assert len(store.list("prediction")) == 1


def test_growth_that_nobody_saw_is_not_invented() -> None:
    with pytest.raises(UserError, match=r"says nothing of growth; observe again"):
        planning.plan(PROFILE, Goal(horizon_s=DAY_S), CATALOG, growth(PROFILE))
