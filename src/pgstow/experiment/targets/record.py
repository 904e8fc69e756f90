"""A file on disk of what a trial has on this machine, to clean up after a killed run."""

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pgstow.host import postmaster, processes
from pgstow.host.processes import ProcessIdentity
from pgstow.model.errors import HostError

_TIMEOUT_S = 10.0
_OURS = re.compile(r"pgstow(-[A-Za-z0-9_.-]+)?")  # the last part of every directory we make


@dataclass(frozen=True, slots=True)
class _Contents:
    owner: ProcessIdentity
    servers: tuple[ProcessIdentity, ...] = ()
    clients: tuple[ProcessIdentity, ...] = ()
    cgroups: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


_CONTENTS = TypeAdapter(_Contents)


def default_state_directory() -> Path:
    """Where running trials are written down: gone after a reboot, if the machine has such."""
    if os.geteuid() == 0:
        return Path("/run/pgstow/trials")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "pgstow-bench"
    return Path(tempfile.gettempdir()) / f"pgstow-bench-{os.geteuid()}"


def open_state(directory: Path) -> Path:
    """The directory, made where it is missing. It must be ours, as its contents are obeyed."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise HostError(
            f"directory {directory} cannot be made: {error.strerror}", "run this as root"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise HostError(
            f"directory {directory} may be written by others",
            "remove it, or its write permission for others",
        )
    return directory


@dataclass
class Record:
    """One trial's file. Each entry is on disk before what it names is used."""

    path: Path
    servers: list[ProcessIdentity] = field(default_factory=list)
    clients: list[ProcessIdentity] = field(default_factory=list)
    cgroups: list[Path] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)

    def note_server(self, process: ProcessIdentity | None, directory: Path) -> None:
        """A server runs, and has its socket in a directory of its own."""
        self.servers += [process] if process is not None else []
        self.note_directory(directory)

    def note_clients(self, pids: Sequence[int]) -> None:
        """A load generator runs."""
        found = (processes.identify(pid) for pid in pids)
        self.clients += [process for process in found if process is not None]
        self._save()

    def note_directory(self, directory: Path) -> None:
        """A directory is to be removed with all that is in it."""
        assert _OURS.fullmatch(directory.name), f"{directory} is not named as ours"
        self.directories.append(directory)
        self._save()

    def note_cgroup(self, directory: Path) -> None:
        """A control group was made."""
        self.cgroups.append(directory)
        self._save()

    def forget_if_gone(self) -> None:
        """Remove the file, unless something that it names is still there."""
        if not any(directory.exists() for directory in self.directories):
            self.path.unlink(missing_ok=True)

    def _save(self) -> None:
        owner = processes.identify(os.getpid())
        assert owner is not None
        contents = _Contents(
            owner,
            tuple(self.servers),
            tuple(self.clients),
            tuple(str(path) for path in self.cgroups),
            tuple(str(path) for path in self.directories),
        )
        draft = self.path.with_suffix(".new")
        draft.write_bytes(_CONTENTS.dump_json(contents))
        draft.replace(self.path)


def clear_leftovers(state_directory: Path, down: Callable[[], None] | None = None) -> None:
    """End and remove what killed runs have left, each by its identity, and then their volumes."""
    left = [contents for path in _records(state_directory) if (contents := _dead(path))]
    for contents in left:
        _end(contents)
    if down is not None:
        down()
    for contents in left:
        for directory in map(Path, contents.directories):
            if _OURS.fullmatch(directory.name):
                shutil.rmtree(directory, ignore_errors=True)
        for group in map(Path, contents.cgroups):
            with suppress(OSError):
                group.rmdir()
    for path in _records(state_directory):
        if _dead(path) is not None:
            path.unlink(missing_ok=True)


def end_server(data_directory: Path) -> None:
    """End the server that a killed run has left on a directory, and remove its socket's."""
    pid = postmaster.running_pid(str(data_directory))
    identity = None if pid is None else processes.identify(pid)
    if identity is None:
        return
    lines = (data_directory / "postmaster.pid").read_text().splitlines()
    processes.end(identity, timeout_s=_TIMEOUT_S, first=signal.SIGQUIT)
    runtime = Path(lines[4]) if len(lines) > 4 else None
    if runtime is not None and runtime.name.startswith("pgstow-server-"):
        shutil.rmtree(Path(tempfile.gettempdir()) / runtime.name, ignore_errors=True)


def _records(state_directory: Path) -> list[Path]:
    return sorted(state_directory.glob("trial-*.json"))


def _dead(path: Path) -> _Contents | None:
    """A record whose program has ended; None: it runs, or the record is damaged."""
    try:
        contents = _CONTENTS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return None if processes.is_running(contents.owner) else contents


def _end(contents: _Contents) -> None:
    for process in contents.clients:
        processes.end(process, timeout_s=_TIMEOUT_S)
    for process in contents.servers:  # SIGQUIT: its data are not needed any more
        if not processes.end(process, timeout_s=_TIMEOUT_S, first=signal.SIGQUIT):
            raise HostError(
                f"a server of an earlier run (pid {process.pid}) does not end", "end it by hand"
            )
    for directory in contents.directories:  # one that was just being started
        end_server(Path(directory) / "data")
