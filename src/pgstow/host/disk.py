"""The effects on files that must survive a power cut: each is one step, durable when it returns."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgstow.model.errors import HostError

_CHUNK_BYTES = 1024 * 1024


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn what the machine refuses into one line that names the thing."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise HostError(
            f"{doing}: {error.strerror or error}{where}", "remedy that, then run apply again"
        ) from error


class Disk:
    """One method an effect: where a program is killed between two of them, both are whole."""

    def make_directory(self, path: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Make a directory whose parent exists; root gives it to ``owner``."""
        path.mkdir(mode=mode)
        path.chmod(mode)
        self._own(path, owner)
        self.sync(path.parent)

    def append(self, path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
        """Add text to a file, which is made where it is missing."""
        is_new = not path.exists()
        with path.open("a", encoding="utf-8") as file:
            if is_new:
                path.chmod(0o600)
                self._own(path, owner)
            file.write(text)
            file.flush()
            self._fsync(file.fileno())
        if is_new:
            self.sync(path.parent)

    def copy(self, source: Path, target: Path, advanced: Callable[[int], None]) -> None:
        """Copy a file's contents, owner, mode and times."""
        before = source.stat()
        with source.open("rb") as reader, target.open("wb") as writer:
            while chunk := reader.read(_CHUNK_BYTES):
                writer.write(chunk)
                advanced(len(chunk))
            writer.flush()
            self.dress(target, before)
            self._fsync(writer.fileno())

    def dress(self, path: Path, like: os.stat_result) -> None:
        """Give a file or directory the owner, mode and times of another."""
        self._own(path, (like.st_uid, like.st_gid))
        path.chmod(like.st_mode & 0o7777)
        os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))

    def publish(self, source: Path, target: Path) -> None:
        """Give a file a name that must be free: FileExistsError where it is not."""
        os.link(source, target)
        source.unlink()

    def rename(self, source: Path, target: Path) -> None:
        """Rename within a directory; a file of that name is replaced."""
        source.rename(target)
        self.sync(target.parent)

    def link(self, path: Path, target: str, owner: tuple[int, int] | None = None) -> None:
        """Make a symbolic link."""
        path.symlink_to(target)
        if owner is not None and os.geteuid() == 0:
            os.lchown(path, *owner)
        self.sync(path.parent)

    def remove_file(self, path: Path) -> None:
        """Remove a file or link."""
        path.unlink()
        self.sync(path.parent)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory that is empty."""
        path.rmdir()
        self.sync(path.parent)

    def sync(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)

    def _fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def _own(self, path: Path, owner: tuple[int, int] | None) -> None:
        if owner is not None and os.geteuid() == 0:
            os.chown(path, *owner)
