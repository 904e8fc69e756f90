"""What ``emulate up`` decides to do, from the desired and the actual state."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.emulate.reconcile import Action, pair, plan_up
from pgstow.emulate.state import State, VolumeState
from pgstow.host.loops import Loop
from pgstow.model import Device, HostCap, HostSpec, Latency, Layout, Member, Placement, Volume
from pgstow.model.errors import LayoutError, UserError
from pgstow.units import GIB, MIB, Bytes

CAP = HostCap(iops=12_000, bytes_per_second=298 * MIB)
LATENCY = Latency(600, 1200, 700, 1500)


def make_volume(name: str, **changes: object) -> Volume:
    defaults: dict[str, object] = {
        "name": name,
        "type": "gp3",
        "size_bytes": Bytes(GIB),
        "mount": f"/mnt/{name}",
    }
    return Volume(**(defaults | changes))  # type: ignore[arg-type]


def make_device(volume: Volume, iops: float = 3000) -> Device:
    member = Member(iops, 125 * MIB, 256 * 1024, LATENCY)
    return Device(
        volume.name, volume.total_bytes, volume.stripes, volume.chunk_bytes, member=member
    )


def make_layout(*volumes: Volume) -> Layout:
    first = volumes[0].name
    return Layout(HostSpec(), volumes, Placement(data=first, wal=first))


def make_target(*volumes: Volume):
    return pair(make_layout(*volumes), [make_device(volume) for volume in volumes])


def make_state(*volumes: Volume) -> State:
    entries = (
        VolumeState(
            volume,
            make_device(volume),
            Loop(f"/dev/loop{n}", 10 + n, "/f"),
            volume.total_bytes,
            True,
        )
        for n, volume in enumerate(volumes)
    )
    return State("boot", 130.0, CAP, tuple(entries))


def kinds(actions: tuple[Action, ...], volume: str | None = None) -> list[str]:
    return [a.kind for a in actions if volume is None or a.volume == volume]


def test_from_nothing_everything_is_made_in_order() -> None:
    actions = plan_up(make_target(make_volume("data")), CAP, None, is_running=False)
    assert kinds(actions) == [
        "start server",
        "calibrate",
        "set host cap",
        "add",
        "attach",
        "format",
        "mount",
        "enable limits",
    ]


def test_nothing_is_done_where_all_is_as_desired() -> None:
    volumes = make_volume("data"), make_volume("wal")
    assert plan_up(make_target(*volumes), CAP, make_state(*volumes), is_running=True) == ()


def test_changed_limits_are_changed_live() -> None:
    volume = make_volume("data")
    targets = pair(make_layout(volume), [make_device(volume, iops=6000)])
    actions = plan_up(targets, CAP, make_state(volume), is_running=True)
    assert kinds(actions) == ["change"]
    assert actions[0].text == "change data to 1 GiB, 6,000 IOPS, 125 MiB/s"


def test_a_larger_volume_is_grown_and_growing_is_resumed() -> None:
    small, large = make_volume("data"), make_volume("data", size_bytes=Bytes(2 * GIB))
    actions = plan_up(make_target(large), CAP, make_state(small), is_running=True)
    assert kinds(actions) == ["change", "grow"]
    (entry,) = make_state(large).volumes
    halfway = make_state().with_volume(replace(entry, filesystem_bytes=Bytes(GIB)))
    assert kinds(plan_up(make_target(large), CAP, halfway, is_running=True)) == ["grow"]


def test_limits_that_are_off_are_switched_on() -> None:
    volume = make_volume("data")
    actions = plan_up(
        make_target(volume), CAP, make_state(volume), is_running=True, unlimited={"data"}
    )
    assert kinds(actions) == ["enable limits"]


def test_a_moved_mount_keeps_the_contents() -> None:
    old, new = make_volume("data"), make_volume("data", mount="/mnt/elsewhere")
    actions = plan_up(make_target(new), CAP, make_state(old), is_running=True)
    assert kinds(actions) == ["unmount", "change", "mount"]


def test_two_volumes_may_swap_their_mounts() -> None:
    a, b = make_volume("a"), make_volume("b")
    swapped = make_volume("a", mount="/mnt/b"), make_volume("b", mount="/mnt/a")
    actions = kinds(plan_up(make_target(*swapped), CAP, make_state(a, b), is_running=True))
    assert max(i for i, k in enumerate(actions) if k == "unmount") < actions.index("mount")


def test_volumes_the_layout_does_not_have_are_kept_unless_pruned() -> None:
    data, old = make_volume("data"), make_volume("old")
    state = make_state(data, old)
    assert kinds(plan_up(make_target(data), CAP, state, is_running=True)) == ["keep"]
    pruned = plan_up(make_target(data), CAP, state, is_running=True, prune=True)
    assert kinds(pruned) == ["unmount", "remove"]


def test_a_mount_of_a_kept_volume_is_refused() -> None:
    old, new = make_volume("old", mount="/mnt/x"), make_volume("new", mount="/mnt/x")
    with pytest.raises(UserError, match="--prune"):
        plan_up(make_target(new), CAP, make_state(old), is_running=True)
    actions = plan_up(make_target(new), CAP, make_state(old), is_running=True, prune=True)
    assert kinds(actions)[:2] == ["unmount", "remove"]


@pytest.mark.parametrize(
    "change",
    [
        {"size_bytes": Bytes(GIB // 2)},
        {"filesystem": "ext4"},
        {"mkfs_options": ("-i",)},
        {"stripes": 2, "size_bytes": Bytes(GIB // 2)},
    ],
)
def test_what_would_lose_contents_is_refused(change: dict[str, object]) -> None:
    state = make_state(make_volume("data"))
    with pytest.raises(UserError, match="pgstow emulate down"):
        plan_up(make_target(make_volume("data", **change)), CAP, state, is_running=True)


def test_a_volume_too_small_for_its_filesystem_is_refused() -> None:
    with pytest.raises(LayoutError, match="at least 300 MiB"):
        make_target(make_volume("data", size_bytes=Bytes(100 * MIB)))


def test_a_mount_inside_another_is_made_after_it_and_undone_before_it() -> None:
    inner, outer = make_volume("inner", mount="/mnt/o/i"), make_volume("outer", mount="/mnt/o")
    targets = make_target(inner, outer)
    made = plan_up(targets, CAP, None, is_running=False)
    assert [a.volume for a in made if a.kind == "mount"] == ["outer", "inner"]
    readonly = [replace(v, mount_options=("ro",)) for v in (inner, outer)]
    again = plan_up(make_target(*readonly), CAP, make_state(inner, outer), is_running=True)
    assert [a.volume for a in again if a.kind == "unmount"] == ["inner", "outer"]


def test_leftovers_are_cleared_first() -> None:
    targets = make_target(make_volume("data"))
    actions = plan_up(targets, CAP, None, is_running=False, has_leftovers=True)
    assert kinds(actions)[:2] == ["clear", "start server"]


_PARTS = st.fixed_dictionaries(
    {"loop": st.booleans(), "is_formatted": st.booleans(), "is_mounted": st.booleans()}
)


@given(st.lists(st.none() | _PARTS, min_size=1, max_size=4))
def test_from_any_interrupted_state_the_rest_is_done_and_nothing_twice(parts: list) -> None:
    volumes = [make_volume(f"v{n}") for n in range(len(parts))]
    state = State("boot", 130.0, CAP)
    for volume, part in zip(volumes, parts, strict=True):
        if part is not None:
            loop = Loop("/dev/loop0", 1, "/f") if part["loop"] else None
            formatted = volume.total_bytes if part["loop"] and part["is_formatted"] else None
            mounted = bool(formatted) and part["is_mounted"]
            entry = VolumeState(volume, make_device(volume), loop, formatted, mounted)
            state = state.with_volume(entry)
    actions = plan_up(make_target(*volumes), CAP, state, is_running=True)
    order = ["add", "attach", "format", "mount", "enable limits"]
    for volume in volumes:
        mine = kinds(actions, volume.name)
        entry = state.find(volume.name)
        reached = (
            0 if entry is None else 1 + sum((entry.loop is not None, bool(entry.filesystem_bytes)))
        )
        assert mine == ([] if entry is not None and entry.is_mounted else order[reached:])
