"""Files written past the page cache, and read into it on request.

Nothing of them has to be written back or dropped later. A copy through the page cache takes as much
memory as it has bytes. That is slow where memory that was freed has to be had from a hypervisor
again.
"""

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from pgstow.host import programs

_BUFFER_BYTES = 4 * 1024 * 1024
_ALIGNMENT_BYTES = 4096  # of direct I/O, on every device there is
_SMALL_BYTES = 1024 * 1024  # below it, the page cache is quicker
_THREADS = 2
_TIMEOUT_S = 3600.0


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory, with owners, modes and links, to a name that is not there yet.

    Small files are left in the page cache, as are all where the filesystem has no direct I/O.
    """
    options = ["--archive", "--attributes-only", "--no-target-directory"]
    programs.run(["cp", *options, "--", str(source), str(target)], timeout_s=_TIMEOUT_S)
    sizes = {path: path.stat().st_size for path in _files(source)}
    largest_first = sorted(sizes, key=lambda path: -sizes[path])
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="copy") as pool:
        futures = [
            pool.submit(_copy_file, path, target / path.relative_to(source), sizes[path])
            for path in largest_first
        ]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def write_zeros(paths: Iterable[Path], size_bytes: int) -> None:
    """Make files of zeros, all of them written, that only their owner may read."""
    with mmap.mmap(-1, min(size_bytes, _BUFFER_BYTES)) as memory, memoryview(memory) as zeros:
        for path in paths:
            path.touch(mode=0o600, exist_ok=False)
            with _opened(path, size_bytes) as descriptor:
                for begin in range(0, size_bytes, len(zeros)):
                    _write(descriptor, zeros[: size_bytes - begin])


def read_tree(directory: Path) -> None:
    """Read every file below a directory, so that the page cache holds what fits."""
    with mmap.mmap(-1, _BUFFER_BYTES) as memory, memoryview(memory) as buffer:
        for path in _files(directory):
            with path.open("rb", buffering=0) as reader:
                while reader.readinto(buffer):
                    pass


def _files(directory: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            if not path.is_symlink():
                yield path


def _copy_file(source: Path, target: Path, size_bytes: int) -> None:
    if size_bytes < _SMALL_BYTES:
        target.write_bytes(source.read_bytes())
        return
    with (
        source.open("rb", buffering=0) as reader,
        _opened(target, size_bytes) as descriptor,
        mmap.mmap(-1, _BUFFER_BYTES) as memory,
        memoryview(memory) as buffer,
    ):
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := reader.readinto(buffer):
            _write(descriptor, buffer[:count])


@contextmanager
def _opened(path: Path, size_bytes: int) -> Iterator[int]:
    """A file that is there, for writing: past the page cache where that can be."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        if size_bytes % _ALIGNMENT_BYTES:
            raise OSError(errno.EINVAL, "not aligned")
        descriptor = os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.open(path, flags)
    try:
        with suppress(OSError):  # as one piece, where the filesystem can
            os.posix_fallocate(descriptor, 0, size_bytes)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
