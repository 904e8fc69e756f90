"""A memory control group around a real server: what the page cache may hold, and may not."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstow.host import programs, server
from pgstow.host.memory_limit import MemoryLimit, forget_files
from pgstow.host.server import EmbeddedServer
from pgstow.postgres import connect
from pgstow.units import MIB

LIMIT_BYTES = 128 * MIB
DATA_MIB = 256


@pytest.fixture
def limit() -> Iterator[MemoryLimit]:
    made = MemoryLimit.create(f"pgstow-test-{os.getpid()}", LIMIT_BYTES)
    if isinstance(made, str):
        pytest.skip(f"needs a memory control group: {made}")
    yield made
    assert made.remove()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory on a filesystem with a page cache of its own: not tmpfs."""
    path = Path(tempfile.mkdtemp(prefix="pgstow-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def usage_bytes(limit: MemoryLimit) -> int:
    """What the group's processes hold now, their page cache included."""
    name = "memory.current" if limit.version == 2 else "memory.usage_in_bytes"
    return int((limit.directory / name).read_text())


def cached_bytes(limit: MemoryLimit) -> int:
    """The part of the usage that is file pages."""
    lines = (limit.directory / "memory.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["file" if limit.version == 2 else "cache"])


def test_the_limit_can_be_read_and_changed(limit: MemoryLimit) -> None:
    assert limit.limit_bytes() == LIMIT_BYTES
    limit.set(64 * MIB)
    assert limit.limit_bytes() == 64 * MIB
    assert limit.pids() == ()
    again = MemoryLimit.create(limit.directory.name, 96 * MIB)
    assert again == limit
    assert limit.limit_bytes() == 96 * MIB


def test_a_program_started_inside_is_charged(limit: MemoryLimit, directory: Path) -> None:
    file = directory / "data"
    file.write_bytes(bytes(DATA_MIB * MIB))
    forget_files(directory)
    before = cached_bytes(limit)
    programs.run(limit.inside(["cat", str(file)]), timeout_s=60)
    assert cached_bytes(limit) - before > LIMIT_BYTES / 3
    assert usage_bytes(limit) <= LIMIT_BYTES


def test_a_servers_page_cache_stays_within_the_limit(limit: MemoryLimit, directory: Path) -> None:
    if server.find_embedded() is None:
        pytest.skip("needs the embedded PostgreSQL: pip install 'pgstow[demo]'")
    user = server.unprivileged_user()
    if user is not None:
        os.chown(directory, *programs.user_ids(user))
    with EmbeddedServer(directory / "data", memory_limit=limit) as embedded:
        embedded.initialise()
        embedded.start({"shared_buffers": "16MB", "max_wal_size": "1GB"})
        postmaster = embedded.pid
        assert postmaster in limit.pids()
        assert len(limit.pids()) > 3  # its children too
        with connect(embedded.dsn, purpose="experiment") as connection:
            connection.execute(
                "CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, %s)",
                (DATA_MIB * 1024,),
            )
            connection.execute("SELECT count(*) FROM filler")
        assert usage_bytes(limit) <= LIMIT_BYTES
        embedded.restart()
        assert embedded.pid in limit.pids()


def test_forgotten_files_keep_their_contents(directory: Path) -> None:
    (directory / "below").mkdir()
    (directory / "below" / "file").write_bytes(b"x" * 10_000)
    (directory / "link").symlink_to(directory / "below" / "file")
    (directory / "dangling").symlink_to(directory / "nowhere")
    forget_files(directory)
    assert (directory / "below" / "file").read_bytes() == b"x" * 10_000
