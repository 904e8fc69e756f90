"""Copy a directory so that it is known, file by file, what the copy wrote: only that is removed.

The list is in the copy itself. Each file is written under a name that nobody else uses, then
listed with its inode, size and time, then given its own name, if that is free. So a file that
somebody else put there, or wrote to since, is always known not to be ours, and never touched.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgstow.host.disk import Disk, disk_errors
from pgstow.model.errors import HostError

LIST_NAME = "pgstow-copied"
Identity = tuple[int, int, int]  # inode, bytes, modification time in ns


@dataclass(frozen=True, slots=True)
class Copy:
    """``target`` as a copy of ``source``; ``token`` is this copy's own, and of no other."""

    source: Path
    target: Path
    token: str
    disk: Disk

    @property
    def list_file(self) -> Path:
        """The list of what the copy wrote."""
        return self.target / LIST_NAME

    def update(self, advanced: Callable[[int], None], *, unchanged_before: float = 0.0) -> None:
        """Bring the copy up to date: contents, owners, modes, times, no extra files.

        A file of ours with the same size and time as its original is taken as copied if it was
        last written before ``unchanged_before`` (seconds since the epoch): so a copy can begin
        while the source is in use, and a last pass with the source at rest completes it.
        """
        with disk_errors(f"{self.source} cannot be copied to {self.target}"):
            if not os.path.lexists(self.list_file):
                self._begin_list()
            ours = self._ours()
            self._check_foreign(ours)
            self._directory(Path(), ours, advanced, unchanged_before)

    def list_source(self) -> None:
        """Record what the source holds: only that may be removed from it later."""
        with disk_errors(f"{self.list_file} cannot be written"):
            lines = []
            for path in _walk(self.source):
                name = str(path.relative_to(self.source))
                kind = "source directory" if _is_directory(path) else "source"
                lines.append(f"\n{json.dumps([kind, name, *_identity(path)])}\n")
            self.disk.append(self.list_file, "".join(lines), _owner(self.source))

    def remove(self) -> tuple[str, ...]:
        """Remove what the copy wrote, and its list last; gives the paths that are someone else's.

        The directory itself stays.
        """
        if not _is_directory(self.target):
            return ()
        with disk_errors(f"{self.target} cannot be emptied"):
            for path in self._files(self._ours()):
                self.disk.remove_file(path)
            self._remove_directories(self.target, "directory")
            if self.is_there():
                self.disk.remove_file(self.list_file)
        return tuple(str(path) for path in _walk(self.target) if not _is_directory(path))

    def remove_source(self, source: Path) -> tuple[str, ...]:
        """Remove what was listed of the source (which may have another name by now).

        Gives the paths that were not there when it was listed, or have changed: they stay.
        """
        if not _is_directory(source):
            return ()
        with disk_errors(f"{source} cannot be emptied"):
            found = (entry for entry in self._entries() if entry[0] == "source")
            listed = {entry[1]: tuple(entry[2:]) for entry in found}
            for path in list(_walk(source)):
                name = str(path.relative_to(source))
                if not _is_directory(path) and listed.get(name) == _identity(path):
                    self.disk.remove_file(path)
            self._remove_directories(source, "source directory")
        return tuple(str(path) for path in _walk(source) if not _is_directory(path))

    def finish(self) -> None:
        """Remove the list: from now on the copy is the original."""
        with disk_errors(f"{self.list_file} cannot be removed"):
            if self.is_there():
                self.disk.remove_file(self.list_file)

    def is_there(self) -> bool:
        """Whether the list is this copy's own: else nothing in the directory is known to be."""
        return next(self._entries(), None) == ["copy", self.token]

    def kept_bytes(self) -> int:
        """The bytes of files that are as their originals: these stay, and need no more space.

        The source may be in use, and files may go meanwhile.
        """
        total = 0
        for path in _walk(self.target):
            with suppress(FileNotFoundError):
                copied = _identity(path)
                original = _identity(self.source / path.relative_to(self.target))
                if not _is_directory(path) and copied[1:] == original[1:]:
                    total += copied[1]
        return total

    def listing(self, directory: Path) -> set[tuple[str, int, int]]:
        """Names, sizes and times of the files in a directory, but for what is the copy's own."""
        return {
            (str(path.relative_to(directory)), *_identity(path)[1:])
            for path in _walk(directory)
            if not _is_directory(path) and path.name != LIST_NAME and not self._is_draft(path)
        }

    def _directory(
        self,
        inside: Path,
        ours: dict[str, set[Identity]],
        advanced: Callable[[int], None],
        unchanged_before: float,
    ) -> None:
        """Copy one directory's entries; what has gone since it was listed, the last pass sees."""
        needed = set()
        for entry in sorted(os.scandir(self.source / inside), key=lambda e: e.name):
            path = inside / entry.name
            if str(path) == LIST_NAME:
                continue
            needed.add(entry.name)
            try:
                if entry.is_dir(follow_symlinks=False):
                    self._make_directory(path)
                    self._directory(path, ours, advanced, unchanged_before)
                elif entry.is_symlink():
                    raise HostError(
                        f"{entry.path} is a symbolic link, which does not belong in pg_wal",
                        "move it away first",
                    )
                else:
                    self._file(path, ours, advanced, unchanged_before)
            except FileNotFoundError:
                if not (self.target / inside).is_dir():
                    raise
        for present in sorted(self._files(ours, self.target / inside)):
            if present.parent == self.target / inside and present.name not in needed:
                self.disk.remove_file(present)
        self.disk.dress(self.target / inside, (self.source / inside).stat())
        self.disk.sync(self.target / inside)

    def _make_directory(self, path: Path) -> None:
        target = self.target / path
        if _is_directory(target):
            return
        self._note("directory", str(path))
        self.disk.make_directory(target, 0o700, _owner(self.source))

    def _file(
        self,
        path: Path,
        ours: dict[str, set[Identity]],
        advanced: Callable[[int], None],
        unchanged_before: float,
    ) -> None:
        source, target = self.source / path, self.target / path
        before = source.stat()
        is_there = os.path.lexists(target)
        if is_there and not self._is_listed(target, ours):
            raise self._foreign(target)
        is_same = is_there and _identity(target)[1:] == (before.st_size, before.st_mtime_ns)
        if is_same and before.st_mtime < unchanged_before:
            advanced(before.st_size)
            return
        draft = target.with_name(f"{target.name}.{self.token}")
        self.disk.copy(source, draft, advanced)
        identity = _identity(draft)
        self._note("file", str(path), *identity)
        ours.setdefault(str(path), set()).add(identity)
        if is_there:
            self.disk.rename(draft, target)
            return
        try:
            self.disk.publish(draft, target)
        except FileExistsError:
            raise self._foreign(target) from None

    def _begin_list(self) -> None:
        """The list is there with its first line, which says whose it is, or not at all."""
        draft = self.target / f"{LIST_NAME}.{self.token}"
        draft.unlink(missing_ok=True)
        self.disk.append(draft, json.dumps(["copy", self.token]) + "\n", _owner(self.source))
        self.disk.publish(draft, self.list_file)

    def _note(self, *entry: object) -> None:
        """Add a line; a line that a kill cut short does not run into it."""
        self.disk.append(self.list_file, f"\n{json.dumps(entry)}\n", _owner(self.source))

    def _entries(self) -> Iterator[list[object]]:
        """What the list says; a last line that was cut off by a kill is not there."""
        try:
            lines = self.list_file.read_text(encoding="utf-8", errors="replace").split("\n")
        except (FileNotFoundError, NotADirectoryError):
            return
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, list) and len(entry) >= 2:
                yield entry

    def _ours(self) -> dict[str, set[Identity]]:
        """What each file that the copy wrote may look like."""
        found: dict[str, set[Identity]] = {}
        if self.is_there():
            for entry in self._entries():
                if entry[0] == "file":
                    found.setdefault(str(entry[1]), set()).add(tuple(entry[2:]))  # type: ignore[arg-type]
        return found

    def _is_listed(self, path: Path, ours: dict[str, set[Identity]]) -> bool:
        if path.is_symlink() or not path.is_file():
            return False
        return _identity(path) in ours.get(str(path.relative_to(self.target)), ())

    def _is_draft(self, path: Path) -> bool:
        return path.name.endswith(f".{self.token}")

    def _files(self, ours: dict[str, set[Identity]], inside: Path | None = None) -> list[Path]:
        return [
            path
            for path in _walk(inside or self.target)
            if not _is_directory(path) and (self._is_draft(path) or self._is_listed(path, ours))
        ]

    def _check_foreign(self, ours: dict[str, set[Identity]]) -> None:
        known = set(self._files(ours)) | ({self.list_file} if self.is_there() else set())
        for path in _walk(self.target):
            if not _is_directory(path) and path not in known:
                raise self._foreign(path)

    def _foreign(self, path: Path) -> HostError:
        return HostError(
            f"{path} is not what pgstow wrote there: {self.target} is used by someone else",
            "it is left as it is; move it away, or name another volume",
        )

    def _remove_directories(self, root: Path, kind: str) -> None:
        names = [str(entry[1]) for entry in self._entries() if entry[0] == kind]
        for name in sorted(set(names), key=lambda n: n.count("/"), reverse=True):
            path = root / name
            if _is_directory(path) and not any(path.iterdir()):
                self.disk.remove_directory(path)


def _walk(directory: Path) -> Iterator[Path]:
    """What is in a directory and below; links are not followed."""
    for folder, folders, names in os.walk(directory):
        for name in sorted((*folders, *names)):
            yield Path(folder) / name


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _identity(path: Path) -> Identity:
    found = path.lstat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _owner(directory: Path) -> tuple[int, int]:
    found = directory.stat()
    return found.st_uid, found.st_gid
