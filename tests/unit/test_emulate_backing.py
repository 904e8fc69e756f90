"""What volumes are made of: where files may lie, and when there is too little room."""

from pathlib import Path

import pytest

from pgstow.emulate import backing, take_down
from pgstow.emulate.backing import (
    MEMORY,
    Backing,
    Choice,
    Made,
    check_directory,
    check_room,
    default_directory,
    kept_filesystem,
    remove_files,
)
from pgstow.host import cpu
from pgstow.model import Volume
from pgstow.model.errors import HostError, UserError
from pgstow.units import GIB, TIB, Bytes


def volume_at(mount: Path | str) -> Volume:
    return Volume("data", "gp3", Bytes(GIB), str(mount))


def test_volumes_over_the_memory_are_refused_with_both_ways_out() -> None:
    size = cpu.available_memory_bytes() + 10 * GIB
    with pytest.raises(UserError) as raised:
        check_room([(MEMORY, GIB), (MEMORY, size)], resident_bytes=0, thin=False)
    text = str(raised.value)
    assert "--backing file:DIRECTORY" in text
    assert "--thin" in text
    assert "\n" not in text
    assert raised.value.exit_code == 2
    (warning,) = check_room([(MEMORY, size)], resident_bytes=0, thin=True)
    assert warning.code == "more-volume-than-memory"


def test_what_the_volumes_hold_already_counts_as_theirs() -> None:
    size = cpu.available_memory_bytes() + 10 * GIB
    assert check_room([(MEMORY, size)], resident_bytes=20 * GIB, thin=False) == []


def test_files_are_held_against_the_disk_and_not_the_memory(tmp_path: Path) -> None:
    of_file = Choice(tmp_path).of("data")
    assert of_file == Backing("file", str(tmp_path / "data.volume"))
    assert check_room([(of_file, GIB)], resident_bytes=0, thin=False) == []
    with pytest.raises(UserError, match=r"TiB, and .* free.*--thin"):
        check_room([(of_file, 10_000 * TIB)], resident_bytes=0, thin=False)
    (warning,) = check_room([(of_file, 10_000 * TIB)], resident_bytes=0, thin=True)
    assert warning.code == "more-volume-than-disk"


def test_directories_that_will_not_do(tmp_path: Path) -> None:
    state = tmp_path / "state"
    check_directory(Choice(tmp_path), state, [volume_at("/mnt/x")])
    with pytest.raises(UserError, match=r"does not exist; make it: mkdir -p"):
        check_directory(Choice(tmp_path / "none"), state, [])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a directory"):
        check_directory(Choice(tmp_path / "file"), state, [])
    with pytest.raises(UserError, match="is on volume data itself"):
        check_directory(Choice(tmp_path), state, [volume_at(tmp_path)])


def test_the_default_directory_is_an_emulators_own(tmp_path: Path) -> None:
    one, other = default_directory(tmp_path / "one"), default_directory(tmp_path / "other")
    assert one != other
    assert one == default_directory(tmp_path / "one")


def test_a_file_from_before_is_used_only_if_it_is_to_be_kept(tmp_path: Path) -> None:
    volume = volume_at("/mnt/x")
    kept, not_kept = Choice(tmp_path, keep=True).of("data"), Choice(tmp_path).of("data")
    assert not kept_filesystem(volume, kept, GIB)
    file = tmp_path / "data.volume"
    file.touch()
    with pytest.raises(UserError, match="exists already; add --keep-files"):
        kept_filesystem(volume, not_kept, GIB)
    with pytest.raises(UserError, match="exists already with 0B, not 1GiB; delete it"):
        kept_filesystem(volume, kept, GIB)
    with file.open("wb") as image:
        image.truncate(GIB)
    assert not kept_filesystem(volume, kept, GIB)  # nothing in it yet: it is to be formatted


def test_files_go_unless_they_are_kept(tmp_path: Path) -> None:
    gone, kept = tmp_path / "a.volume", tmp_path / "b.volume"
    gone.touch()
    kept.touch()
    made = [
        Made(Backing("file", str(gone)), gone.stat().st_ino),
        Made(Backing("file", str(kept), keep=True), None),
        Made(MEMORY, None),
    ]
    assert [one.is_there for one in made] == [True, True, False]
    done, left = remove_files(made, tmp_path / "state")
    assert (done, left) == ([f"deleted {gone}", f"kept {kept}"], [])
    assert not gone.exists()
    assert kept.exists()
    assert [one.is_there for one in made] == [False, True, False]


def test_a_file_that_was_not_made_for_a_volume_stays(tmp_path: Path) -> None:
    """As where somebody put one there before the server could make it."""
    theirs, link = tmp_path / "a.volume", tmp_path / "b.volume"
    theirs.write_text("precious")
    link.symlink_to(theirs)
    made = [
        Made(Backing("file", str(theirs)), None),
        Made(Backing("file", str(theirs)), theirs.stat().st_ino + 1),
        Made(Backing("file", str(link)), theirs.stat().st_ino),
    ]
    assert remove_files(made, tmp_path / "state") == ([], [str(theirs), str(theirs), str(link)])
    assert theirs.read_text() == "precious"


def test_purge_follows_no_link_that_others_put_in_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "data.volume").write_text("precious")
    usual = tmp_path / "usual"
    usual.symlink_to(theirs)
    monkeypatch.setattr(backing, "default_directory", lambda _: usual)
    assert backing.purge([], tmp_path / "state") == []
    assert (theirs / "data.volume").exists()
    with pytest.raises(HostError, match="is not this user's own"):
        check_directory(Choice(usual), tmp_path / "state", [])


def test_purge_deletes_what_was_kept_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    monkeypatch.setattr(backing, "default_directory", lambda _: usual)
    named = tmp_path / "named.volume"
    for file in (named, tmp_path / "other.volume", usual / "data.volume", usual / "mine.txt"):
        file.write_text("x")
    done = backing.purge([backing.Backing("file", str(named), keep=True)], tmp_path / "state")
    assert done == [f"deleted {named}", f"deleted {usual / 'data.volume'}"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other.volume", "usual"]
    assert [one.name for one in usual.iterdir()] == ["mine.txt"]
    assert take_down.down(tmp_path / "state", purge=True).actions == []
