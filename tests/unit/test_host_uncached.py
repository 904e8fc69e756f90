"""Copies past the page cache: the same contents, owners, modes and links."""

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstow.host import uncached

MIB = 1024 * 1024
# One chunk and a bit, aligned; not aligned; a piece of a block; nothing.
SIZES = {"large": 5 * MIB + 8192, "odd": 2 * MIB + 5, "small": 100, "empty": 0}


@pytest.fixture(params=["/var/tmp", "/dev/shm"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory on a disk, and one in memory, which may have no direct I/O."""
    with tempfile.TemporaryDirectory(prefix="pgstow-test-", dir=request.param) as name:
        yield Path(name)


def test_a_copy_is_like_the_original(place: Path) -> None:
    source = place / "source"
    (source / "below").mkdir(parents=True)
    (source / "below").chmod(0o700)
    chance = random.Random(1)
    for name, size in SIZES.items():
        (source / "below" / name).write_bytes(chance.randbytes(size))
    (source / "below/small").chmod(0o640)
    (source / "link").symlink_to("/nowhere/at/all")
    if os.geteuid() == 0:
        os.chown(source / "below/large", 65534, 65534)
    target = place / "target"
    uncached.copy_tree(source, target)
    for name in SIZES:
        one, other = source / "below" / name, target / "below" / name
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_mode == other.stat().st_mode
        assert one.stat().st_uid == other.stat().st_uid
    assert (target / "link").readlink() == Path("/nowhere/at/all")
    assert (target / "below").stat().st_mode & 0o777 == 0o700


def test_files_of_zeros_are_written_in_full(place: Path) -> None:
    paths = [place / "one", place / "two"]
    uncached.write_zeros(paths, 9 * MIB)
    for path in paths:
        assert path.read_bytes() == bytes(9 * MIB)
        assert path.stat().st_blocks * 512 >= 9 * MIB
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        uncached.write_zeros(paths[:1], MIB)


def cached_bytes(path: Path) -> int:
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_a_copy_is_in_the_page_cache_once_it_was_read(place: Path) -> None:
    source = place / "source"
    source.mkdir()
    (source / "one").write_bytes(bytes(8 * MIB))
    (source / "none").symlink_to("/nowhere/at/all")
    uncached.copy_tree(source, place / "target")
    copied = place / "target/one"
    if place.is_relative_to("/var/tmp"):
        assert cached_bytes(copied) == 0
    uncached.read_tree(place / "target")
    assert cached_bytes(copied) == 8 * MIB
