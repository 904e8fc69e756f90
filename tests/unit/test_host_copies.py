"""A copy that knows what it wrote: nothing else is overwritten or removed."""

import os
from pathlib import Path

import pytest

from pgstow.host.copies import LIST_NAME, Copy
from pgstow.host.disk import Disk
from pgstow.model import HostError


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "archive_status").mkdir(parents=True)
    (source / "1").write_text("one")
    (source / "2").write_text("two")
    (source / "archive_status" / "1.done").write_text("")
    target.mkdir()
    return Copy(source, target, "token", Disk())


def update(copy: Copy) -> None:
    copy.update(lambda _: None)


def names(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def test_a_copy_follows_its_source(copy: Copy) -> None:
    update(copy)
    (copy.source / "1").write_text("one, again")
    (copy.source / "2").rename(copy.source / "3")
    update(copy)
    assert names(copy.target) == {"1", "3", "archive_status/1.done", LIST_NAME}
    assert (copy.target / "1").read_text() == "one, again"
    assert copy.listing(copy.source) == copy.listing(copy.target)
    assert copy.remove() == ()
    assert list(copy.target.iterdir()) == []


def test_what_is_no_more_as_its_original_does_not_count_as_copied(copy: Copy) -> None:
    update(copy)
    assert copy.kept_bytes() == len("one") + len("two")
    (copy.source / "1").unlink()
    (copy.source / "2").write_text("two, again")
    assert copy.kept_bytes() == 0


def test_names_and_times_are_durable_in_every_directory(copy: Copy) -> None:
    synced: list[Path] = []
    timed: list[int] = []

    class Watched(Disk):
        def sync(self, directory: Path) -> None:
            synced.append(directory)

        def _fsync(self, descriptor: int) -> None:
            timed.append(os.fstat(descriptor).st_mtime_ns)

    os.utime(copy.source / "archive_status" / "1.done", ns=(7, 7))
    update(Copy(copy.source, copy.target, copy.token, Watched()))
    assert {copy.target, copy.target / "archive_status"} <= set(synced)
    assert 7 in timed, "the time was set after the last fsync"


def test_what_others_put_there_stays_and_is_named(copy: Copy) -> None:
    update(copy)
    (copy.target / "theirs").write_text("precious")
    (copy.target / "2").write_text("precious")
    link = copy.target / "link"
    link.symlink_to(copy.source)
    with pytest.raises(HostError, match="used by someone else"):
        update(copy)
    left = [str(copy.target / name) for name in ("2", "link", "theirs")]
    assert sorted(copy.remove()) == left
    assert (copy.target / "2").read_text() == "precious"
    assert (copy.source / "1").exists()


def test_a_directory_without_the_list_of_this_copy_is_not_touched(copy: Copy) -> None:
    update(copy)
    other = Copy(copy.source, copy.target, "another", Disk())
    assert len(other.remove()) == 4
    assert len(names(copy.target)) == 4
    with pytest.raises(HostError, match="used by someone else"):
        update(other)


def test_a_list_cut_off_in_a_line_still_tells_what_is_ours(copy: Copy) -> None:
    update(copy)
    with copy.list_file.open("a") as file:
        file.write('["file", "9", 12')
    (copy.source / "4").write_text("four")
    update(copy)
    assert copy.remove() == ()


def test_of_the_source_only_what_was_listed_goes(copy: Copy) -> None:
    update(copy)
    copy.list_source()
    (copy.source / "late").write_text("precious")
    (copy.source / "2").write_text("changed since")
    os.utime(copy.source / "2", (1, 1))
    assert sorted(copy.remove_source(copy.source)) == [
        str(copy.source / "2"),
        str(copy.source / "late"),
    ]
    assert names(copy.source) == {"2", "late"}
