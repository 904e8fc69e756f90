"""Base data: each choice of data loaded once, by each server version, and kept for all trials.

A base is a stopped server's data directory with its tablespaces beside it. It is made under another
name and renamed when it is whole and on disk.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets import tablespace_layout
from pgstow.experiment.targets.known_data import expected_bytes
from pgstow.experiment.targets.record import end_server
from pgstow.experiment.targets.tablespace_layout import TablespaceSpec
from pgstow.experiment.workloads.content_platform import LOAD_SETTINGS
from pgstow.host import directories, locks, programs
from pgstow.host.server import EmbeddedServer, unprivileged_user
from pgstow.model.errors import HostError, UserError
from pgstow.model.experiment import DataChoice
from pgstow.postgres import changes, connect
from pgstow.postgres.connect import server_errors
from pgstow.units import GIB, MIB, format_size

DATABASE = "bench"
FORMAT = 1  # of what a base is: another number makes all bases anew
_CONTENTS = "base.json"
_MARK = "pgstow-base"  # in each base from its beginning: what has none is somebody else's
_SPACES = "tablespaces"
_BASE_NAME = r"[0-9a-f]{16}(\.draft)?"  # of a directory: a digest, whole or being made
_UNFINISHED = "not finished"
_NAMED_MAX = 5
_COPY_TIMEOUT_S = 3600.0
_WAL_ROOM_BYTES = 2 * GIB  # what loading needs for a while, beside the data
_LOADING = LOAD_SETTINGS | {"max_wal_size": "1GB", "max_connections": "100"}

Load = Callable[[str, Callable[[float, float], None]], None]  # into the database of a dsn


def default_cache_directory() -> Path:
    """Where bases are kept by default: the server's user must reach it."""
    cache = os.environ.get("XDG_CACHE_HOME")
    if cache:
        return Path(cache) / "pgstow"
    return Path("/var/tmp") / f"pgstow-{os.geteuid()}"  # noqa: S108 (its owner is checked)


@dataclass(frozen=True, slots=True)
class BaseSpec:
    """What defines a base."""

    data: DataChoice
    bindir: Path
    version: str  # postgres --version
    spaces: tuple[TablespaceSpec, ...] = ()

    @property
    def digest(self) -> str:
        """The base's name: equal ones are one."""
        spaces = [asdict(space) for space in self.spaces]
        known = {"data": asdict(self.data), "version": self.version, "spaces": spaces}
        text = json.dumps(known | {"format": FORMAT}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.data.maker} at scale {self.data.scale}"


@dataclass(frozen=True, slots=True)
class Base:
    """A base on disk. ``spaces`` are its tablespaces by object identifier."""

    directory: Path
    spaces: tuple[tuple[str, str], ...]
    size_bytes: int

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    def space(self, name: str) -> Path:
        """The directory of a tablespace."""
        return self.directory / _SPACES / tablespace_layout.plain_name(name)


@dataclass(frozen=True, slots=True)
class KeptBase:
    """What is kept on disk of a base, also of one that was not finished."""

    name: str
    directory: Path
    size_bytes: int
    in_use: bool


class BaseStore:
    """The bases in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.user = unprivileged_user()

    @contextmanager
    def held(self, spec: BaseSpec, load: Load, run_context: RunContext) -> Iterator[Base]:
        """A base, made if it is missing, that stays as long as it is held."""
        self._make_ready()
        lock = self.directory / f"{spec.digest}.lock"
        while True:
            with ExitStack() as stack:
                waiting = _waiting(run_context, f"waiting for another run that loads {spec.name}")
                stack.enter_context(locks.locked(lock, waiting=waiting, shared=True))
                base = self._find(spec)
                if base is not None:
                    os.utime(base.directory)  # used last now
                    yield base
                    return
            with locks.locked(lock, waiting=waiting):
                if self._find(spec) is None:
                    self._make(spec, load, run_context)

    def missing(self, spec: BaseSpec) -> bool:
        """Whether a base is still to be made."""
        return self._find(spec) is None

    def unmanaged_directories(self) -> tuple[Path, ...]:
        """Directories beside the bases that pgstow did not make."""
        found = sorted(self.directory.iterdir()) if self.directory.is_dir() else []
        return tuple(path for path in found if path.is_dir() and not _is_base(path))

    def clear(self, *, dry_run: bool = False) -> tuple[KeptBase, ...]:
        """Remove every base, or say which would be; those in use, and what is no base, stay."""
        if not self.directory.is_dir():
            return ()
        self._refuse_others()
        found = []
        for path in sorted(self.directory.iterdir()):
            if not _is_base(path):
                continue
            size_bytes, name = directories.tree_bytes(path), _name_of(path)
            lock = path.with_suffix(".lock")
            if dry_run and not lock.exists():  # looking makes none
                found.append(KeptBase(name, path, size_bytes, in_use=False))
                continue
            with locks.tried(lock) as is_unused:
                if is_unused and not dry_run:
                    _remove(path)
            found.append(KeptBase(name, path, size_bytes, not is_unused))
        return tuple(found)

    def _refuse_others(self) -> None:
        found = self.directory.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise UserError(
                f"cache directory {self.directory} may be written by others",
                "name another directory, or remove its write permission for others",
            )

    def _make_ready(self) -> None:
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._refuse_others()
        except OSError as error:
            raise UserError(
                f"cache directory {self.directory} cannot be made: {error.strerror}",
                "name another directory",
            ) from error
        if self.user is None:
            return
        try:
            programs.run(["test", "-x", str(self.directory)], timeout_s=10, user=self.user)
        except HostError:
            raise UserError(
                f"cache directory {self.directory} cannot be read by the server's user {self.user}",
                "name one that all may read, such as below /var/tmp",
            ) from None

    def _find(self, spec: BaseSpec) -> Base | None:
        directory = self.directory / spec.digest
        try:
            known = json.loads((directory / _CONTENTS).read_text())
        except (OSError, ValueError):
            return None
        spaces = tuple((oid, name) for oid, name in known["spaces"])
        return Base(directory, spaces, known["size_bytes"])

    def _make(self, spec: BaseSpec, load: Load, run_context: RunContext) -> None:
        draft = self.directory / f"{spec.digest}.draft"
        if os.path.lexists(draft) and not _is_base(draft):
            raise UserError(f"{draft} exists, and pgstow did not make it", "move it away")
        _remove(draft)
        try:
            if spec.spaces:
                plain = BaseSpec(spec.data, spec.bindir, spec.version)
                with self.held(plain, load, run_context) as base:
                    self._make_room(base.size_bytes + MIB * 256, spec)
                    self._make_draft(draft)
                    run_context.report(f"arranging {spec.name} in tablespaces")
                    _copy(base.data, draft / "data")
                    self._arrange(draft, spec)
            else:
                self._make_room(int(expected_bytes(spec.data) * 1.1) + _WAL_ROOM_BYTES, spec)
                self._make_draft(draft)
                self._load(draft, spec, load, run_context)
            self._complete(draft, spec, run_context)
        except BaseException:
            if _is_base(draft):
                _remove(draft)
            raise

    def _make_room(self, needed_bytes: int, spec: BaseSpec) -> None:
        """Refuse where the data will not fit; bases that nobody uses give way, oldest first."""
        entries = [path for path in self.directory.iterdir() if _is_base(path)]
        for path in sorted(entries, key=lambda path: path.stat().st_mtime):
            if self._free_bytes() >= needed_bytes:
                return
            with locks.tried(path.with_suffix(".lock")) as is_unused:
                if is_unused:
                    _remove(path)
        if (free_bytes := self._free_bytes()) < needed_bytes:
            names = ", ".join(path.name for path in self.unmanaged_directories()[:_NAMED_MAX])
            left = f"; not pgstow's, and left there: {names}" if names else ""
            raise UserError(
                f"too little disk for {spec.name}: {self.directory} has "
                f"{format_size(free_bytes)} free and {format_size(needed_bytes)} are needed{left}",
                "free some, name a directory on another disk, or choose a smaller scale",
            )

    def _free_bytes(self) -> int:
        return directories.free_bytes(str(self.directory)) or 0

    def _make_draft(self, draft: Path) -> None:
        draft.mkdir(mode=0o755)
        (draft / _MARK).touch()
        if self.user is not None:
            os.chown(draft, *programs.user_ids(self.user))

    def _load(self, draft: Path, spec: BaseSpec, load: Load, run_context: RunContext) -> None:
        what = f"loading {spec.name}"
        run_context.report(what)
        with EmbeddedServer(draft / "data", bindir=spec.bindir, user=self.user) as server:
            server.initialise()
            server.start(_LOADING)
            with connect(server.dsn, purpose="experiment") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            load(server.dsn_for(DATABASE), run_context.progress(what))
            run_context.report(f"vacuuming {spec.name}")
            _finish(server)

    def _arrange(self, draft: Path, spec: BaseSpec) -> None:
        with EmbeddedServer(draft / "data", bindir=spec.bindir, user=self.user) as server:
            server.start(_LOADING)
            locations = {
                space.name: str(draft / _SPACES / tablespace_layout.plain_name(space.name))
                for space in spec.spaces
            }
            tablespace_layout.arrange(server.dsn_for(DATABASE), spec.spaces, locations)
            _finish(server)

    def _complete(self, draft: Path, spec: BaseSpec, run_context: RunContext) -> None:
        """Give the draft its name, when all of it is on disk."""
        _keep_needed_wal(draft / "data", spec.bindir)
        links = {link.name: link.readlink().name for link in (draft / "data/pg_tblspc").iterdir()}
        names = {tablespace_layout.plain_name(space.name): space.name for space in spec.spaces}
        known = {
            "spaces": [(oid, names[name]) for oid, name in sorted(links.items())],
            "size_bytes": directories.tree_bytes(draft),
            "data": asdict(spec.data),
            "version": spec.version,
        }
        run_context.report(f"writing {spec.name} to disk")
        (draft / _CONTENTS).write_text(json.dumps(known, indent=2))
        programs.run(["sync", "--file-system", str(draft)], timeout_s=_COPY_TIMEOUT_S)
        draft.rename(self.directory / spec.digest)
        directories.sync_directory(self.directory)


def _is_base(path: Path) -> bool:
    """Whether pgstow made a directory: by its name, and a mark in it (or nothing at all).

    Bases of earlier versions have no mark, but say what they are of.
    """
    if not re.fullmatch(_BASE_NAME, path.name) or path.is_symlink() or not path.is_dir():
        return False
    is_marked = (path / _MARK).is_file() or _name_of(path) != _UNFINISHED
    return is_marked or not any(path.iterdir())  # killed between its making and the mark


def _name_of(directory: Path) -> str:
    """A base's description of itself, as text."""
    try:
        data = json.loads((directory / _CONTENTS).read_text())["data"]
        return f"{data['maker']} at scale {data['scale']}"
    except (OSError, ValueError, KeyError, TypeError):
        return _UNFINISHED


def _copy(source: Path, target: Path) -> None:
    """Copy a directory as it is: by sharing its blocks, where the filesystem can."""
    options = ["--archive", "--reflink=auto", "--no-target-directory"]
    programs.run(["cp", *options, "--", str(source), str(target)], timeout_s=_COPY_TIMEOUT_S)


def _finish(server: EmbeddedServer) -> None:
    with (
        connect(server.dsn_for(DATABASE), purpose="experiment") as connection,
        server_errors("VACUUM of the loaded tables"),
    ):
        connection.execute("VACUUM (FREEZE, ANALYZE)")
        changes.checkpoint(connection)
    server.stop()


def _keep_needed_wal(data_directory: Path, bindir: Path) -> None:
    """Remove all WAL but the segment from which the stopped server will start."""
    text = programs.run([str(bindir / "pg_controldata"), str(data_directory)], timeout_s=30)
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    needed = facts["Latest checkpoint's REDO WAL file"].strip()
    if facts["Database cluster state"].strip() != "shut down":
        raise HostError(f"the server of {data_directory} was not shut down cleanly", "run it again")
    for path in (data_directory / "pg_wal").iterdir():
        if path.is_file() and path.name != needed:
            path.unlink()


def _remove(directory: Path) -> None:
    """Remove a base. What a kill leaves of it is never taken for a whole one, nor for another's."""
    end_server(directory / "data")
    if not directory.exists():
        return
    mark = directory / _MARK
    with suppress(FileNotFoundError):
        (directory / _CONTENTS).replace(mark)  # bases of earlier versions have no other mark
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != mark:
            path.unlink()
    mark.unlink(missing_ok=True)
    directory.rmdir()


def _waiting(run_context: RunContext, what: str) -> Callable[[], None]:
    return lambda: run_context.pause(what)
