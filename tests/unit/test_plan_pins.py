"""Pins: what is pinned is placed there, at whatever price; contradictions are named."""

from dataclasses import replace

import content_platform
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow import catalog, planning
from pgstow.model import Goal, InfeasibleError, Layout, Plan, Relation, RelationId, UserError
from pgstow.planning.pins import Pins, pins_of
from pgstow.prediction import volumes_of_relations
from pgstow.units import Bytes

CATALOG = catalog.load()
PROFILE = content_platform.profile()
TYPES = [volume_type.name for volume_type in CATALOG.types("ec2")]
FREE = Goal(tps=content_platform.TPS * 0.5, max_stripes=1)


def pinned(*pins: tuple[str, str], goal: Goal = FREE) -> Plan:
    return planning.plan(PROFILE, replace(goal, pins=pins), CATALOG)


def read(*pins: tuple[str, str]) -> Pins:
    return pins_of(pins, PROFILE, TYPES)


def where(layout: Layout, name: str) -> str:
    return volumes_of_relations(layout, PROFILE.server.relations)[
        content_platform.relation_id(name)
    ].name


def test_a_pin_to_a_new_name_buys_a_volume_of_that_name() -> None:
    found = pinned(("articles", "fast"))
    assert where(found.layout, "articles") == "fast"
    assert where(found.layout, "articles_pkey") == "data"  # an index is a relation of its own
    usd = found.prediction.performance.usd_month
    free = planning.plan(PROFILE, FREE, CATALOG).prediction.performance.usd_month
    assert usd is not None and free is not None
    assert usd > free


def test_a_pattern_pins_all_that_it_matches() -> None:
    found = pinned(("analytics_*", "cold"))
    for name in ("analytics_events", "analytics_events_ts", "analytics_daily"):
        assert where(found.layout, name) == "cold"


def test_a_pin_to_a_type_leaves_the_volume_open() -> None:
    found = pinned(("articles", "io2"))
    volume = found.layout.volume(where(found.layout, "articles"))
    assert volume.type == "io2"


def test_the_wal_is_pinned_too() -> None:
    found = pinned(("wal", "io2"))
    assert found.layout.volume(found.layout.postgres.wal).type == "io2"


def test_two_pins_of_one_new_name_share_its_volume() -> None:
    found = pinned(("articles", "fast"), ("wal", "fast"))
    assert found.layout.postgres.wal == where(found.layout, "articles") == "fast"


def test_a_pin_to_the_volume_it_is_on_keeps_it_there() -> None:
    goal = Goal(tps=4 * content_platform.TPS, commit_p99_ms=8)
    assert where(planning.plan(PROFILE, goal, CATALOG).layout, "articles") != "data"
    assert where(pinned(("articles", "data"), goal=goal).layout, "articles") == "data"


NAMES = [name for name, *_ in content_platform.RELATIONS]
PLACES = st.sampled_from(("data", "new", "other", "gp2"))


PINS = given(st.dictionaries(st.sampled_from(NAMES), PLACES, max_size=6))


@settings(max_examples=3, deadline=None)
@PINS
def test_whatever_is_pinned_lies_where_it_is_pinned(pins: dict[str, str]) -> None:
    _lie_there(pins)


@pytest.mark.nightly
@settings(max_examples=20, deadline=None)
@PINS
def test_many_pins_are_kept(pins: dict[str, str]) -> None:
    _lie_there(pins)


def _lie_there(pins: dict[str, str]) -> None:
    found = pinned(*pins.items())
    for name, place in pins.items():
        volume = found.layout.volume(where(found.layout, name))
        assert place in (volume.name, volume.type)


def test_a_pin_that_does_nothing_is_said() -> None:
    found = pinned(("temp", "data"))
    assert "pin-unused" in {one.code for one in found.warnings}


def test_toast_goes_with_its_table() -> None:
    table = content_platform.relation_id("articles")
    toast = Relation(RelationId("content", "pg_toast", "t"), "toast", Bytes(1), table=table)
    server = replace(PROFILE.server, relations=(*PROFILE.server.relations, toast))
    found = pins_of([("articles", "fast")], replace(PROFILE, server=server), TYPES)
    assert set(found.relations) == {table}


def test_a_partitioned_table_stands_for_its_partitions() -> None:
    parent = RelationId("content", "public", "events")
    parts = tuple(
        Relation(RelationId("content", "public", f"e{n}"), "table", Bytes(1), partition_of=parent)
        for n in range(3)
    )
    server = replace(PROFILE.server, relations=(*PROFILE.server.relations, *parts))
    found = pins_of([("events", "fast")], replace(PROFILE, server=server), TYPES)
    assert set(found.relations) == {part.id for part in parts}


def test_pins_that_agree_are_no_contradiction() -> None:
    assert len(read(("articles", "fast"), ("art*", "fast")).relations) == 3


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        ((("articles", "fast"), ("articles", "gp2")), "pinned to fast and to gp2; drop one of"),
        ((("articles", "fast"), ("art*", "gp2")), "drop one of --pin articles=fast and"),
        ((("wal", "gp3"), ("wal", "io2")), "wal is pinned to gp3 and to io2"),
        ((("articles", "dat"),), "did you mean data"),
        ((("articles", "gp33"),), "did you mean gp3"),
        ((("articles", "a b"),), "is no volume, no type and no name for a new volume"),
        ((("artcles", "fast"),), "did you mean content.public.articles"),
    ],
)
def test_what_pins_cannot_mean_is_said(pins: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        read(*pins)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("pin", "goal", "said"),
    [
        (("articles", "gp2"), Goal(forbid_types=("gp2",)), "leave no volume of gp2"),
        (("wal", "gp3"), Goal(commit_p99_ms=1), r"gp3 takes 2.70 ms \(p99\), over --commit-p99"),
        (("articles", "st1"), Goal(read_p99_ms=5), r"over --read-p99 5ms; drop the pin, or ask"),
    ],
)
def test_pins_that_contradict_the_goal_are_refused(
    pin: tuple[str, str], goal: Goal, said: str
) -> None:
    with pytest.raises((UserError, InfeasibleError), match=said):
        pinned(pin, goal=goal)
