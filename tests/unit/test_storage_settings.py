"""Settings of a plan: each changes something the server has, for a reason, from its own facts."""

from dataclasses import replace

import content_platform
import pytest

from pgstow import catalog, migration, prediction
from pgstow.layout_file import format_layout, parse_layout
from pgstow.migration.settings import check_setting
from pgstow.model import (
    Demand,
    Layout,
    Profile,
    Rate,
    RelationId,
    Setting,
    Tablespace,
    TablespaceState,
    Volume,
)
from pgstow.planning.settings import (
    random_read_us,
    sequential_page_us,
    setting_bytes,
    settings,
    with_settings,
)
from pgstow.planning.wal import required_wal_bytes
from pgstow.units import GIB, MIB, Bytes, Iops

CATALOG = catalog.load()
BASE = content_platform.profile()
DEFAULTS = {
    "random_page_cost": "4",
    "effective_io_concurrency": "16",
    "shared_buffers": "128MB",
    "checkpoint_completion_target": "0.9",
    "checkpoint_timeout": "5min",
    "max_wal_size": "1GB",
    "wal_compression": "off",
    "temp_file_limit": "-1",
    "io_method": "worker",
    "io_workers": "3",
    "wal_init_zero": "on",
    "wal_recycle": "on",
}


def profile(version_num: int = 180004, **changed: str) -> Profile:
    shown = tuple({**DEFAULTS, **changed}.items())
    return replace(BASE, server=replace(BASE.server, version_num=version_num, settings=shown))


def found(
    seen: Profile, layout: Layout | None = None, memory_bytes: int | None = None
) -> dict[tuple[str | None, str], Setting]:
    predicted = prediction.predict(seen, layout or seen.layout, CATALOG)
    return by_name(settings(seen, predicted, CATALOG, memory_bytes=memory_bytes))


def by_name(many: tuple[Setting, ...]) -> dict[tuple[str | None, str], Setting]:
    assert len({(one.tablespace, one.name) for one in many}) == len(many)
    return {(one.tablespace, one.name): one for one in many}


def with_volume(volume_type: str, **fields: object) -> Layout:
    """The platform with its articles on a second volume, in tablespace extra."""
    extra = Volume("extra", volume_type, Bytes(500 * GIB), "/mnt/extra", **fields)  # type: ignore[arg-type]
    relation = RelationId("content", "public", "old_articles")
    base = BASE.layout
    space = Tablespace("extra", "extra", (relation,))
    return replace(base, volumes=(*base.volumes, extra), tablespaces=(space,))


def test_a_solid_state_volume_gets_a_low_random_cost_and_a_disk_its_own() -> None:
    many = found(profile(), with_volume("st1"))
    assert many[None, "random_page_cost"].value == "1.6"
    # 13.1 ms against 390 µs at 20 MiB/s, of which nine tenths are cached
    assert many["extra", "random_page_cost"].value == "3.3"
    assert "data" in many[None, "random_page_cost"].because
    assert "extra" in many["extra", "random_page_cost"].because


def test_what_is_near_enough_is_left_alone() -> None:
    assert (None, "random_page_cost") not in found(profile(random_page_cost="1.1"))
    assert ("extra", "random_page_cost") not in found(profile(), with_volume("gp3"))


def test_where_the_server_stays_as_it_is_its_tablespaces_say_it_themselves() -> None:
    layout = with_volume("gp3")
    assert ("extra", "random_page_cost") not in found(profile(), layout)
    predicted = prediction.predict(profile(), layout, CATALOG)
    alone = by_name(settings(profile(), predicted, CATALOG, is_server_set=False))
    assert set(alone) == {("extra", "random_page_cost")}
    assert alone["extra", "random_page_cost"].value == "1.6"


def test_a_tablespaces_own_option_is_what_is_compared() -> None:
    layout = with_volume("st1")
    seen = profile()
    spaces = (TablespaceState("extra", "/mnt/extra/extra", (("random_page_cost", "4.0"),)),)
    seen = replace(seen, server=replace(seen.server, tablespaces=spaces))
    assert ("extra", "random_page_cost") not in found(seen, layout)
    assert found(profile(), layout)["extra", "random_page_cost"].present is None


def test_concurrency_is_what_the_volume_has_in_flight() -> None:
    fast = with_volume("io2", iops=Iops(64_000))
    many = found(profile(), fast)
    # 64,000 IOPS × 0.3 ms by Little's law; too near the default of 16 to be noticed
    assert ("extra", "effective_io_concurrency") not in many
    flight = 64_000 * random_read_us(CATALOG.device(fast.volume("extra"), fast.host)) / 1e6
    assert 16 < flight < 24
    old = found(profile(170005, effective_io_concurrency="1"), fast)
    assert int(old[None, "effective_io_concurrency"].value) == 16
    assert "extra" not in {space for space, name in old if name == "effective_io_concurrency"}


def test_concurrency_is_never_lowered() -> None:
    many = found(profile(effective_io_concurrency="200"), with_volume("st1"))
    assert not any(name == "effective_io_concurrency" for _, name in many)


@pytest.mark.parametrize("volume_type", ["gp3", "gp2", "io2", "st1", "sc1"])
def test_a_page_of_a_scan_is_never_dearer_than_a_random_one(volume_type: str) -> None:
    iops = Iops(3000) if volume_type == "io2" else None
    device = CATALOG.device(
        Volume("v", volume_type, Bytes(500 * GIB), "/mnt/v", iops=iops), BASE.layout.host
    )
    assert sequential_page_us(device) < random_read_us(device)


def test_buffers_follow_memory_and_data() -> None:
    stored = sum(relation.size_bytes for relation in BASE.server.relations)
    many = found(profile(), memory_bytes=16 * GIB)
    assert setting_bytes(many[None, "shared_buffers"].value) == 4 * GIB
    much = found(profile(), memory_bytes=128 * GIB)
    value = setting_bytes(much[None, "shared_buffers"].value)
    assert value is not None
    assert stored <= value <= stored * 1.11
    assert (None, "shared_buffers") not in found(profile(shared_buffers="3GB"), None, 16 * GIB)
    less = found(profile(shared_buffers="8GB"), memory_bytes=16 * GIB)
    assert less[None, "shared_buffers"].value == "4GB"
    assert (None, "shared_buffers") not in found(profile())  # memory is not known


def busy_wal(seen: Profile, bytes_per_s: float, images: float = 0.0) -> Profile:
    return replace(
        seen,
        wal=replace(seen.wal, bytes=Rate(bytes_per_s), full_page_images=Rate(images)),
    )


def test_max_wal_size_lets_checkpoints_come_by_the_clock() -> None:
    seen = busy_wal(profile(), 8 * MIB)
    predicted = prediction.predict(seen, seen.layout, CATALOG)
    rate = 8 * MIB / content_platform.TPS * predicted.performance.tps
    setting = by_name(settings(seen, predicted, CATALOG))[None, "max_wal_size"]
    value = setting_bytes(setting.value)
    assert value is not None
    # PostgreSQL begins a checkpoint after max_wal_size / (1 + target) of WAL
    assert value / 1.9 >= rate * 300
    assert value == required_wal_bytes(rate, 300)
    assert (None, "max_wal_size") not in found(busy_wal(profile(max_wal_size="64GB"), 10 * MIB))
    assert (None, "max_wal_size") not in found(busy_wal(profile(), 0.1 * MIB))


def test_max_wal_size_stays_within_its_volume() -> None:
    seen = busy_wal(profile(), 100 * MIB)
    predicted = prediction.predict(seen, seen.layout, CATALOG)
    setting = by_name(settings(seen, predicted, CATALOG))[None, "max_wal_size"]
    value = setting_bytes(setting.value)
    assert value is not None
    stored = sum(relation.size_bytes for relation in BASE.server.relations)
    assert 5 * GIB < value * 1.5 < (20 * GIB - stored) * 0.71
    assert "there is no more room on data" in setting.because


def test_full_page_images_ask_for_rarer_checkpoints_and_compression() -> None:
    images = 0.6 * 10 * MIB / 8192
    many = found(busy_wal(profile(), 10 * MIB, images))
    assert many[None, "checkpoint_timeout"].value == "15min"
    assert "to replay" in many[None, "checkpoint_timeout"].because
    assert many[None, "wal_compression"].value == "on"
    assert "lz4" in many[None, "wal_compression"].because
    old = found(busy_wal(profile(140020), 10 * MIB, images))
    assert "lz4" not in old[None, "wal_compression"].because
    assert "PostgreSQL 14 documentation" in old[None, "wal_compression"].source
    few = found(busy_wal(profile(), 10 * MIB, images / 10))
    assert not {"checkpoint_timeout", "wal_compression"} & {name for _, name in few}
    already = found(busy_wal(profile(wal_compression="zstd"), 10 * MIB, images))
    assert (None, "wal_compression") not in already


def test_a_busy_cpu_is_not_asked_to_compress() -> None:
    seen = busy_wal(profile(), 10 * MIB, 0.6 * 10 * MIB / 8192)
    predicted = replace(prediction.predict(seen, seen.layout, CATALOG), cpu_utilisation=0.95)
    assert (None, "wal_compression") not in by_name(settings(seen, predicted, CATALOG))


def test_a_hurried_checkpoint_is_spread() -> None:
    many = found(profile(checkpoint_completion_target="0.5"))
    assert many[None, "checkpoint_completion_target"].value == "0.9"


def test_temporary_files_may_not_fill_a_volume() -> None:
    seen = profile()
    spilling = replace(seen, background=replace(seen.background, temp_bytes=Rate(1e6)))
    limit = found(spilling)[None, "temp_file_limit"]
    value = setting_bytes(limit.value)
    assert value is not None
    used = sum(relation.size_bytes for relation in BASE.server.relations)
    assert 0 < value < (20 * GIB - used) / 2
    assert "where the data are" in limit.because
    assert (None, "temp_file_limit") not in found(profile())


def scanning(seen: Profile, bytes_per_s: float) -> Profile:
    """Old articles read from end to end, and nothing else."""
    scanned = RelationId("content", "public", "old_articles")
    demand = Demand(scanned, Rate(0.0), Rate(bytes_per_s), Rate(0.0), Rate(0.0), Rate(0.0))
    others = tuple(d for d in seen.demands if d.relation != scanned)
    return replace(seen, demands=(*others, demand), host=None)


def test_reads_in_flight_say_how_many_io_workers_there_are() -> None:
    seen = scanning(profile(), 80 * MIB)
    predicted = prediction.predict(seen, seen.layout, CATALOG)
    slow = replace(
        predicted, volumes=tuple(replace(load, read_ms=20.0) for load in predicted.volumes)
    )
    many = by_name(settings(seen, slow, CATALOG))
    scans = 80 * MIB / (128 * 1024) / content_platform.TPS * predicted.performance.tps
    assert int(many[None, "io_workers"].value) == min(32, -(-scans * 0.02 // 1))
    sync = by_name(settings(scanning(profile(io_method="sync"), 80 * MIB), slow, CATALOG))
    assert sync[None, "io_method"].value == "worker"


def test_versions_without_io_methods_are_asked_for_none() -> None:
    without = {k: v for k, v in DEFAULTS.items() if not k.startswith("io_")}
    seen = scanning(BASE, 80 * MIB)
    seen = replace(
        seen,
        server=replace(seen.server, version_num=170005, settings=tuple(without.items())),
    )
    assert not any(name.startswith("io_") for _, name in found(seen))
    nineteen = {k: v for k, v in DEFAULTS.items() if k != "io_workers"}  # it adjusts them itself
    seen = replace(
        seen, server=replace(seen.server, version_num=190000, settings=tuple(nineteen.items()))
    )
    assert (None, "io_workers") not in found(seen)


def test_a_filesystem_that_copies_on_write_recycles_no_wal() -> None:
    (data,) = BASE.layout.volumes
    layout = replace(BASE.layout, volumes=(replace(data, filesystem="btrfs"),))
    many = found(profile(), layout)
    assert many[None, "wal_recycle"].value == "off"
    assert many[None, "wal_init_zero"].value == "off"
    assert (None, "wal_recycle") not in found(profile())


def everything() -> tuple[Layout, tuple[Setting, ...]]:
    seen = busy_wal(
        profile(170005, effective_io_concurrency="1", checkpoint_completion_target="0.5"),
        10 * MIB,
        0.6 * 10 * MIB / 8192,
    )
    seen = replace(seen, background=replace(seen.background, temp_bytes=Rate(1e6)))
    predicted = prediction.predict(seen, with_volume("st1"), CATALOG)
    return predicted.layout, settings(seen, predicted, CATALOG, memory_bytes=16 * GIB)


def test_every_setting_is_one_that_diff_can_set_and_says_why() -> None:
    _, many = everything()
    assert len(many) >= 8
    for setting in many:
        check_setting(setting.name)
        assert setting.because and setting.source
        assert setting.value != setting.present


def test_settings_go_into_the_layout_and_through_its_file() -> None:
    layout, many = everything()
    kept = replace(layout, postgres=replace(layout.postgres, settings=(("work_mem", "64MB"),)))
    target = with_settings(kept, many)
    assert dict(target.postgres.settings)["work_mem"] == "64MB"
    assert dict(target.postgres.settings)["wal_compression"] == "on"
    (space,) = target.tablespaces
    assert dict(space.options)["random_page_cost"] == "3.3"
    assert parse_layout(format_layout(target), "planned.toml") == target


def test_diff_has_a_step_for_every_setting() -> None:
    layout, many = everything()
    target = with_settings(layout, many)
    state = replace(BASE.server, settings=(*DEFAULTS.items(), ("temp_tablespaces", "")))
    taken = migration.steps(state, BASE.layout, target, rates={}, prune=False, made=frozenset())
    server = {step.subject for step in taken if step.kind == "set setting"}
    expected = {one.name for one in many if one.tablespace is None}
    # what the version 18 state above already has needs no step
    assert server >= expected - {"effective_io_concurrency", "checkpoint_completion_target"}
