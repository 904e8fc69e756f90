"""The present layout, from paths and mounts."""

from dataclasses import replace

import pytest
from observe_samples import LAYOUT, ORDERS_KEY, STATE

from pgstow.host.devices import Filesystem
from pgstow.model import Layout, Placement, TablespaceState, Volume
from pgstow.model.storage import HostSpec
from pgstow.observe import present_layout
from pgstow.observe.layout import split_identifiers
from pgstow.units import GIB, Bytes


def filesystem(path: str, mount: str, device: str, **changes: object) -> Filesystem:
    place = Filesystem(path, mount, "xfs", ("rw", "noatime", "attr2"), 100 * GIB, device, False)
    return replace(place, **changes)  # type: ignore[arg-type]


PLACES = {
    "/mnt/data/pg": filesystem("/mnt/data/pg", "/mnt/data", "nvme1n1"),
    "/mnt/wal/pg_wal": filesystem("/mnt/wal/pg_wal", "/mnt/wal", "nvme2n1"),
    "/mnt/bulk/cold": filesystem("/mnt/bulk/cold", "/mnt/bulk", "sda", rotational=True),
}


def given(*volumes: Volume) -> Layout:
    return Layout(HostSpec("ec2"), volumes, Placement(volumes[0].name, volumes[0].name))


def volume(name: str, mount: str, type: str = "gp3") -> Volume:
    return Volume(name, type, Bytes(500 * GIB), mount)


def test_one_volume_a_mount() -> None:
    present = present_layout(STATE, PLACES)
    layout = present.layout
    assert [(v.name, v.type, v.mount) for v in layout.volumes] == [
        ("data", "local-nvme", "/mnt/data"),
        ("wal", "local-nvme", "/mnt/wal"),
        ("cold", "local-hdd", "/mnt/bulk"),
    ]
    assert layout.postgres == Placement("data", "wal", ("data",))
    assert layout.tablespaces[0].relations == (ORDERS_KEY,)
    assert layout.tablespaces[0].location == "/mnt/bulk/cold"
    assert layout.volumes[0].mount_options == ("noatime",)
    assert present.volume_of_device == {"nvme1n1": "data", "nvme2n1": "wal", "sda": "cold"}
    assert {w.code for w in present.warnings} == {"volume-type-assumed"}


def test_everything_on_one_mount_is_one_volume() -> None:
    places = {path: filesystem(path, "/", "vda") for path in PLACES}
    present = present_layout(STATE, places)
    assert [v.name for v in present.layout.volumes] == ["data"]
    assert present.layout.postgres.wal == "data"
    assert present.layout.tablespaces[0].volume == "data"


def test_the_users_layout_says_what_volumes_are() -> None:
    wanted = given(volume("main", "/mnt/data", "io2"), volume("log", "/mnt/wal"))
    present = present_layout(STATE, PLACES, wanted)
    layout = present.layout
    assert layout.host.platform == "ec2"
    assert [(v.name, v.type) for v in layout.volumes] == [
        ("main", "io2"),
        ("log", "gp3"),
        ("cold", "local-hdd"),
    ]
    assert layout.postgres == Placement("main", "log", ("main",))
    assert [w.code for w in present.warnings] == ["volume-type-assumed"]


def test_emulated_volumes_are_known_and_the_user_is_believed_first() -> None:
    wanted = given(volume("main", "/mnt/data", "io2"))
    emulated = (volume("main", "/mnt/wal"), volume("old", "/mnt/data", "gp2"))
    layout = present_layout(STATE, PLACES, wanted, emulated).layout
    assert [(v.name, v.type) for v in layout.volumes][:2] == [("main", "io2"), ("main-2", "gp3")]


def test_a_volume_that_holds_nothing_stays_only_if_it_is_mounted() -> None:
    wanted = given(volume("main", "/mnt/data"), volume("new", "/mnt/new"))
    mounted = present_layout(STATE, PLACES, wanted)
    assert "new" in [v.name for v in mounted.layout.volumes]
    absent = present_layout(STATE, PLACES, wanted, is_mount=lambda _: False)
    assert "new" not in [v.name for v in absent.layout.volumes]
    assert "volume-not-mounted" in {w.code for w in absent.warnings}


def test_a_plain_directory_may_stand_for_a_volume() -> None:
    places = {path: filesystem(path, "/", "vda") for path in PLACES}
    wanted = given(volume("main", "/mnt/data"), volume("log", "/mnt/wal"), volume("b", "/mnt/bulk"))
    present = present_layout(STATE, places, wanted)
    assert present.layout.postgres == Placement("main", "log", ("main",))
    assert {w.code for w in present.warnings} == {"not-a-mount"}


def test_a_deeper_mount_than_the_users_is_another_volume() -> None:
    wanted = given(volume("root", "/mnt"))
    present = present_layout(STATE, PLACES, wanted)
    assert present.layout.postgres.data == "data"


def test_a_host_that_cannot_be_seen_is_one_volume() -> None:
    remote = replace(STATE, is_local=False, wal_directory=None)
    present = present_layout(remote, {})
    (only,) = present.layout.volumes
    assert (only.name, only.type) == ("data", "local-ssd")
    assert present.layout.tablespaces[0].volume == "data"
    assert {w.code for w in present.warnings} == {"volume-type-assumed", "wal-directory-unseen"}


def test_of_an_unseen_host_the_user_is_believed() -> None:
    remote = replace(STATE, is_local=False, wal_directory=None)
    wanted = Layout(
        HostSpec("rds"),
        (volume("main", "/mnt/data"), volume("log", "/mnt/wal"), volume("b", "/mnt/bulk")),
        Placement("main", "log"),
    )
    present = present_layout(remote, {}, wanted)
    assert present.layout.postgres == Placement("main", "log", ("main",))
    assert present.layout.tablespaces[0].volume == "b"
    assert present.warnings == ()


def test_temporary_files_lie_where_the_setting_says() -> None:
    state = replace(STATE, settings=(("temp_tablespaces", 'cold, "no such", ""'),))
    assert present_layout(state, PLACES).layout.postgres.temp == ("cold", "data")


def test_hostile_tablespace_names_become_volume_names() -> None:
    spaces = tuple(
        TablespaceState(name, f"/mnt/t{number}/x")
        for number, name in enumerate(["<script>", '1"; $(rm)', "Über\nspace", "a" * 60, "a" * 63])
    )
    state = replace(STATE, tablespaces=spaces)
    places = PLACES | {
        s.location: filesystem(s.location, s.location[:-2], f"sd{i}") for i, s in enumerate(spaces)
    }
    names = [v.name for v in present_layout(state, places).layout.volumes]
    assert len(names) == len(set(names)) == 7


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), ('""', ("",)), ("a, b", ("a", "b")), ('"a ""b"", c"', ('a "b", c',))],
)
def test_identifier_lists_are_split_as_the_server_does(text: str, names: tuple[str, ...]) -> None:
    assert split_identifiers(text) == names


def test_the_layout_of_the_samples_is_itself_legal() -> None:
    assert LAYOUT.volume("data").mount == "/mnt/data"


def test_of_an_unseen_host_no_volume_is_made_up_beside_the_users() -> None:
    """A managed server's mount that the layout file does not have: the file is what there is."""
    state = replace(STATE, is_local=False, wal_directory=None)
    wanted = given(volume("data", "/rds", "gp3"))
    present = present_layout(state, {}, wanted)
    assert present.layout.volumes == wanted.volumes
    assert [space.volume for space in present.layout.tablespaces] == ["data"]
    warning = next(w for w in present.warnings if w.code == "mount-not-matched")
    assert "/mnt/data/pg is under no mount of the layout file" in warning.message
    assert "taken to be on volume data" in warning.message
