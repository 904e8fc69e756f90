"""Steps from a state to a layout: which, in what order, and the laws they keep."""

from dataclasses import replace

import pytest
from migration_samples import MIB, index, layout, server_state, table

from pgstow.migration import (
    Pressure,
    VolumeLimits,
    after,
    drop_is_safe,
    inverse,
    remarks,
    steps,
)
from pgstow.model import (
    DeviceTraffic,
    Layout,
    LayoutError,
    PartitionedRelation,
    Rate,
    RelationId,
    ServerState,
    Step,
    TablespaceState,
)

ORDERS = RelationId("shop", "public", "orders")
EVENTS = RelationId("shop", "public", "events")
ORDERS_INDEX = RelationId("shop", "public", "orders_pkey")


def plan(state: ServerState, target_layout: Layout, **options: object) -> tuple[Step, ...]:
    return steps(state, layout(), target_layout, **options)  # type: ignore[arg-type]


def kinds(taken: tuple[Step, ...]) -> list[str]:
    return [step.kind for step in taken]


def test_nothing_to_do() -> None:
    assert plan(server_state(table(ORDERS)), layout()) == ()


def test_tablespaces_come_before_indexes_and_indexes_before_tables() -> None:
    state = server_state(table(ORDERS), index(ORDERS_INDEX, ORDERS))
    target_layout = layout(
        tablespaces={"fast": ("fast", (ORDERS, ORDERS_INDEX))},
        settings={"random_page_cost": "1.1"},
        temp=("fast",),
        wal="wal",
    )
    assert kinds(plan(state, target_layout)) == [
        "create tablespace",
        "move index",
        "move table",
        "set temp tablespaces",
        "set setting",
        "move wal",
    ]


def test_an_index_is_rebuilt_concurrently_and_its_undo_goes_back() -> None:
    state = server_state(table(ORDERS), index(ORDERS_INDEX, ORDERS))
    step = plan(state, layout(tablespaces={"fast": ("fast", (ORDERS_INDEX,))}))[1]
    assert step.action == "REINDEX (TABLESPACE fast) INDEX CONCURRENTLY public.orders_pkey"
    assert step.undo == "REINDEX (TABLESPACE pg_default) INDEX CONCURRENTLY public.orders_pkey"
    assert step.lock.startswith("SHARE UPDATE EXCLUSIVE on shop.public.orders")
    assert inverse(step).argument("to") == "pg_default"


def test_an_exclusion_index_is_copied() -> None:
    state = server_state(table(ORDERS), index(ORDERS_INDEX, ORDERS, is_exclusion=True))
    step = plan(state, layout(tablespaces={"fast": ("fast", (ORDERS_INDEX,))}))[1]
    assert step.action == "ALTER INDEX public.orders_pkey SET TABLESPACE fast"
    assert "ACCESS EXCLUSIVE" in step.lock


def test_estimates_follow_the_slower_volume() -> None:
    state = server_state(table(ORDERS, size_bytes=100 * MIB))
    target_layout = layout(tablespaces={"fast": ("fast", (ORDERS,))})
    rates = {"data": 10.0 * MIB, "fast": 1000.0 * MIB}
    step = plan(state, target_layout, rates=rates)[1]
    assert step.bytes == step.wal_bytes == 100 * MIB
    assert 20 <= step.seconds < 21  # data is read and takes the WAL as well


@pytest.mark.parametrize(
    ("wal_level", "persistence", "wal_mib"),
    [("replica", "permanent", 100), ("minimal", "permanent", 0), ("replica", "unlogged", 0)],
)
def test_wal_of_a_copy(wal_level: str, persistence: str, wal_mib: int) -> None:
    relation = table(ORDERS, size_bytes=100 * MIB, persistence=persistence)
    state = server_state(relation, settings={"wal_level": wal_level})
    step = plan(state, layout(tablespaces={"fast": ("fast", (ORDERS,))}))[1]
    assert step.wal_bytes == wal_mib * MIB


def test_toast_goes_with_its_table_and_counts() -> None:
    toast = RelationId("shop", "pg_toast", "pg_toast_1")
    state = server_state(
        table(ORDERS, size_bytes=10 * MIB),
        table(toast, kind="toast", size_bytes=30 * MIB, table=ORDERS),
        table(
            RelationId("shop", "pg_toast", "pg_toast_1_index"),
            kind="toast index",
            size_bytes=2 * MIB,
            table=toast,
        ),
    )
    target_layout = layout(tablespaces={"fast": ("fast", (ORDERS,))})
    _, move = plan(state, target_layout)
    assert move.bytes == 42 * MIB
    reached = state
    for step in plan(state, target_layout):
        reached = after(reached, step)
    assert {relation.tablespace for relation in reached.relations} == {"fast"}
    with pytest.raises(LayoutError, match="is stored with its table"):
        plan(state, layout(tablespaces={"fast": ("fast", (toast,))}))


def test_a_relation_that_does_not_exist_is_named_with_close_matches() -> None:
    missing = RelationId("shop", "public", "order")
    with pytest.raises(LayoutError, match=r"did you mean shop\.public\.orders"):
        plan(server_state(table(ORDERS)), layout(tablespaces={"fast": ("fast", (missing,))}))


def test_unnamed_relations_go_home_only_from_listed_tablespaces() -> None:
    other = RelationId("shop", "public", "other")
    spaces = (TablespaceState("fast", "/mnt/fast/fast"), TablespaceState("theirs", "/srv/theirs"))
    state = server_state(
        table(ORDERS, tablespace="fast"), table(other, tablespace="theirs"), tablespaces=spaces
    )
    (step,) = plan(state, layout(tablespaces={"fast": ("fast", ())}))
    assert (step.relation, step.argument("to")) == (ORDERS, "pg_default")


def test_prune_empties_and_drops_only_what_was_made() -> None:
    spaces = (TablespaceState("old", "/mnt/fast/old"), TablespaceState("theirs", "/srv/theirs"))
    state = server_state(table(ORDERS, tablespace="old"), tablespaces=spaces)
    assert plan(state, layout()) == ()
    taken = plan(state, layout(), prune=True, made=frozenset({"old"}))
    assert [(step.kind, step.subject) for step in taken] == [
        ("move table", "shop.public.orders"),
        ("drop tablespace", "old"),
    ]
    assert inverse(taken[1]).argument("location") == "/mnt/fast/old"


def test_a_partitioned_name_stands_for_its_partitions() -> None:
    parent = RelationId("shop", "public", "events")
    parts = [RelationId("shop", "public", f"events_{n}") for n in range(3)]
    state = server_state(*(table(part, partition_of=parent) for part in parts))
    target_layout = layout(tablespaces={"fast": ("fast", (parent,)), "slow": ("bulk", (parts[0],))})
    moves = {
        s.subject: s.argument("to") for s in plan(state, target_layout) if s.kind == "move table"
    }
    assert moves == {
        "shop.public.events_0": "slow",
        "shop.public.events_1": "fast",
        "shop.public.events_2": "fast",
    }


def hierarchy() -> ServerState:
    """events, by year and then by month, with an index that has the same parts."""
    events, year = EVENTS, RelationId("shop", "public", "events_2026")
    months = [RelationId("shop", "public", f"events_2026_{n:02}") for n in (1, 2)]
    leaves = [table(m, partition_of=year, ancestors=(events,)) for m in months]
    parents = (
        PartitionedRelation(events, "table"),
        PartitionedRelation(year, "table", lineage=(events,)),
    )
    return replace(server_state(*leaves), partitioned=parents)


def test_a_root_stands_for_every_level_and_new_partitions_go_there() -> None:
    taken = plan(hierarchy(), layout(tablespaces={"fast": ("fast", (EVENTS,))}))
    moves = [(s.subject, dict(s.arguments)["method"]) for s in taken if s.kind == "move table"]
    assert moves == [
        ("shop.public.events", "catalog"),
        ("shop.public.events_2026", "catalog"),
        ("shop.public.events_2026_01", "copy"),
        ("shop.public.events_2026_02", "copy"),
    ]
    reached = hierarchy()
    for step in taken:
        reached = after(reached, step)
    assert {parent.tablespace for parent in reached.partitioned} == {"fast"}
    assert plan(reached, layout(tablespaces={"fast": ("fast", (EVENTS,))})) == ()
    for step in reversed(taken):
        reached = after(reached, inverse(step))
    assert reached.partitioned == hierarchy().partitioned


def test_the_nearest_name_wins_in_a_hierarchy() -> None:
    year = RelationId("shop", "public", "events_2026")
    first = RelationId("shop", "public", "events_2026_01")
    target_layout = layout(
        tablespaces={"fast": ("fast", (EVENTS, first)), "slow": ("bulk", (year,))},
    )
    moves = {s.subject: s.argument("to") for s in plan(hierarchy(), target_layout) if s.relation}
    assert moves == {
        "shop.public.events": "fast",
        "shop.public.events_2026": "slow",
        "shop.public.events_2026_01": "fast",
        "shop.public.events_2026_02": "slow",
    }


def test_a_tablespace_that_a_parent_names_is_in_use() -> None:
    old = TablespaceState("old", "/mnt/fast/old")
    parent = PartitionedRelation(EVENTS, "table", "old")
    state = replace(server_state(tablespaces=(old,)), partitioned=(parent,))
    taken = plan(state, layout(), prune=True, made=frozenset({"old"}))
    assert kinds(taken) == ["move table", "drop tablespace"]
    assert taken[0].argument("to") == "pg_default"
    assert not drop_is_safe(state, "old")


@pytest.mark.parametrize("position", [0, 1])
def test_an_order_that_is_not_legal_is_an_error_whatever_python_optimises(position: int) -> None:
    taken = plan(server_state(table(ORDERS)), layout(tablespaces={"fast": ("fast", (ORDERS,))}))
    with pytest.raises(LayoutError, match="not legal in this order"):
        after(after(server_state(table(ORDERS)), taken[position]), taken[position])


def test_a_tablespace_elsewhere_is_refused() -> None:
    state = server_state(tablespaces=(TablespaceState("fast", "/srv/fast"),))
    with pytest.raises(LayoutError, match="cannot change its directory"):
        plan(state, layout(tablespaces={"fast": ("fast", ())}))


def test_a_mount_written_otherwise_is_the_same_place() -> None:
    target_layout = layout(tablespaces={"hot": ("fast", ())}, wal="wal")
    otherwise = tuple(replace(one, mount=f"/{one.mount}/./") for one in target_layout.volumes)
    target_layout = replace(target_layout, volumes=otherwise)
    create, move = plan(server_state(), target_layout)
    assert create.argument("location") == "/mnt/fast/hot"
    assert (move.argument("to"), move.argument("mount")) == ("/mnt/wal/pg_wal", "/mnt/wal")
    reached = server_state(tablespaces=(TablespaceState("hot", "/mnt/fast/hot"),))
    assert plan(replace(reached, wal_directory="/mnt/wal/pg_wal"), target_layout) == ()
    assert remarks(reached, target_layout, ()) == ()


def test_options_are_set_and_reset() -> None:
    present = TablespaceState(
        "fast", "/mnt/fast/fast", (("random_page_cost", "4"), ("seq_page_cost", "2"))
    )
    state = server_state(tablespaces=(present,))
    target_layout = layout(
        tablespaces={"fast": ("fast", ())}, options={"fast": {"random_page_cost": "1.1"}}
    )
    (step,) = plan(state, target_layout)
    assert step.action == (
        "ALTER TABLESPACE fast SET (random_page_cost = 1.1); "
        "ALTER TABLESPACE fast RESET (seq_page_cost)"
    )
    assert after(after(state, step), inverse(step)) == state


@pytest.mark.parametrize("name", ["fsync", "shared_preload_libraries", "temp_tablespaces"])
def test_settings_that_are_not_pgstows(name: str) -> None:
    with pytest.raises(LayoutError, match=name):
        plan(server_state(), layout(settings={name: "off"}))


def test_equal_settings_written_otherwise_need_no_step() -> None:
    state = server_state(settings={"max_wal_size": "1GB", "wal_recycle": "on"})
    target_layout = layout(settings={"max_wal_size": "1024", "wal_recycle": "true"})
    assert plan(state, target_layout) == ()


def test_wal_moves_home_and_away() -> None:
    away = layout(wal="wal")
    (step,) = plan(server_state(), away)
    assert (step.argument("from"), step.argument("to")) == (
        "/mnt/data/pg/pg_wal",
        "/mnt/wal/pg_wal",
    )
    assert step.needs_restart
    moved = after(server_state(), step)
    assert plan(moved, away) == ()
    (back,) = plan(moved, layout())
    assert back.argument("to") == "/mnt/data/pg/pg_wal"


def test_hostile_names_are_quoted() -> None:
    nasty = RelationId("shop", 'a"b', "x'; DROP TABLE y; --\n<b>")
    space = 'my "space"; $(rm)'
    target_layout = layout(tablespaces={space: ("fast", (nasty,))})
    create, move = plan(server_state(table(nasty)), target_layout)
    assert create.argument("location").startswith("/mnt/fast/my__space")
    assert '"a""b"."x\'; DROP TABLE y; --\n<b>"' in move.action


def test_leftovers_of_a_failed_reindex_are_not_moved() -> None:
    leftover = RelationId("shop", "public", "orders_pkey_ccnew")
    state = server_state(
        table(ORDERS),
        index(leftover, ORDERS, tablespace="fast"),
        tablespaces=(TablespaceState("fast", "/mnt/fast/fast"),),
    )
    assert plan(state, layout(tablespaces={"fast": ("fast", ())})) == ()


def test_remarks_remind_of_backups_and_standbys() -> None:
    state = server_state(table(ORDERS), standbys=2)
    target_layout = layout(tablespaces={"fast": ("fast", (ORDERS,))})
    codes = [warning.code for warning in remarks(state, target_layout, plan(state, target_layout))]
    assert codes == ["base-backup", "standby-directories"]


def _at_its_limit(requests: dict[RelationId, float], queue: float = 62.0) -> Pressure:
    """3,000 requests per second of 8 KiB on data, which can do no more; nothing on the others."""
    device = DeviceTraffic(
        "nvme1n1",
        "data",
        *(Rate(3000.0), Rate(0.0), Rate(3000.0 * 8192), Rate(0.0)),
        *(20.0, None, Rate(queue)),
    )
    limits = {name: VolumeLimits(125.0 * MIB, 3000.0) for name in ("data", "fast", "wal")}
    return Pressure(limits, {"data": device}, requests)


def test_what_takes_most_load_off_in_the_least_time_moves_first() -> None:
    large, large_index, hot = (
        RelationId("shop", "public", n) for n in ("large", "large_pkey", "hot")
    )
    state = server_state(
        table(large, size_bytes=900 * MIB),
        index(large_index, large, size_bytes=355 * MIB),
        table(hot, size_bytes=50 * MIB),
    )
    target_layout = layout(tablespaces={"fast": ("fast", (large_index, hot))})
    assert [step.relation for step in plan(state, target_layout)[1:]] == [large_index, hot]
    pressure = _at_its_limit({hot: 2000.0, large_index: 900.0, large: 100.0})
    _, first, second = plan(state, target_layout, pressure=pressure)
    assert [first.relation, second.relation] == [hot, large_index]


def test_time_is_a_range_where_a_load_is_known() -> None:
    state = server_state(table(ORDERS, size_bytes=128 * MIB))
    target_layout = layout(tablespaces={"fast": ("fast", (ORDERS,))})
    assert plan(state, target_layout)[1].seconds_loaded is None
    (_, step) = plan(state, target_layout, pressure=_at_its_limit({}))
    # One reader with two requests under way among 64: 2/64 of 3,000 requests of 128 KiB.
    # data is read, and takes the WAL as well
    assert step.seconds_loaded is not None
    assert step.seconds_loaded == pytest.approx(256 / (3000 * 2 / 64 / 8), abs=0.2)
    (_, first_in_line) = plan(state, target_layout, pressure=_at_its_limit({}, queue=0.0))
    assert first_in_line.seconds_loaded == first_in_line.seconds


def test_what_has_moved_has_taken_its_load_along() -> None:
    other = RelationId("shop", "public", "other")
    state = server_state(table(ORDERS, 10 * MIB), table(other, 100 * MIB))
    target_layout = layout(tablespaces={"fast": ("fast", (ORDERS, other))})
    first, second = plan(
        state, target_layout, pressure=_at_its_limit({ORDERS: 3000.0, other: 0.0})
    )[1:]
    assert first.seconds_loaded is not None and first.seconds_loaded > 2 * first.seconds
    assert second.seconds_loaded == second.seconds  # nothing is left in its way
