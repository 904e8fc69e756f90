"""What the emulator has made on this machine, on disk, so that any later run can undo it."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from pgstow.emulate.backing import MEMORY, Backing
from pgstow.emulate.control import Compensation
from pgstow.host import locks
from pgstow.host.loops import Loop
from pgstow.host.processes import ProcessIdentity
from pgstow.model import Device, HostCap, HostSpec, Volume
from pgstow.model.errors import HostError, UserError
from pgstow.typed import adapter

DEFAULT_STATE_DIRECTORY = Path("/run/pgstow/emulator")
STATE_VERSION = 2
_SOCKET_PATH_MAX = 107  # sockaddr_un.sun_path, less its NUL
_LOCK_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class VolumeState:
    """One volume: what it is, and how far it has been made."""

    volume: Volume
    device: Device
    loop: Loop | None = None
    filesystem_bytes: int | None = None  # the size it was made or grown to; None: none yet
    is_mounted: bool = False
    directories_made: tuple[str, ...] = ()  # outermost first
    backing: Backing = MEMORY
    inode: int | None = None  # of the backing's file; None: none that is known to be made here
    loop_took_us: float | None = None  # by the device's requests of earlier users; None: unknown


@dataclass(frozen=True, slots=True)
class State:
    """The whole state. ``boot_id`` shows whether it is from before a reboot."""

    boot_id: str
    compensation: Compensation | None = None  # None: not calibrated yet
    host_cap: HostCap | None = None
    volumes: tuple[VolumeState, ...] = ()
    version: int = STATE_VERSION
    host: HostSpec = field(default_factory=HostSpec)  # the layout's
    reachable_iops: float | None = None  # what this machine answers; None: not measured

    def find(self, name: str) -> VolumeState | None:
        """The volume of that name, if there is one."""
        return next((entry for entry in self.volumes if entry.volume.name == name), None)

    def with_volume(self, changed: VolumeState) -> "State":
        """The state with one volume added or replaced."""
        name = changed.volume.name
        if self.find(name) is None:
            return replace(self, volumes=(*self.volumes, changed))
        entries = (changed if entry.volume.name == name else entry for entry in self.volumes)
        return replace(self, volumes=tuple(entries))

    def without_volume(self, name: str) -> "State":
        """The state without one volume."""
        kept = tuple(entry for entry in self.volumes if entry.volume.name != name)
        return replace(self, volumes=kept)


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The directory of one emulator: its state file, server, socket, log and volume files."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.absolute().resolve())
        if len(os.fsencode(self.control)) > _SOCKET_PATH_MAX:
            raise HostError(
                f"state directory {self.path} has too long a path for a socket",
                f"choose one of at most {_SOCKET_PATH_MAX - len('/control.sock')} bytes",
            )

    @property
    def state_file(self) -> Path:
        """The recorded state."""
        return self.path / "state.json"

    @property
    def config_file(self) -> Path:
        """The server's configuration at its start."""
        return self.path / "server.json"

    @property
    def pid_file(self) -> Path:
        """The server's identity; the server holds a lock on it while it lives."""
        return self.path / "server.pid"

    @property
    def log_file(self) -> Path:
        """What the server printed."""
        return self.path / "server.log"

    @property
    def lock_file(self) -> Path:
        """Locked by whoever changes anything."""
        return self.path / "lock"

    @property
    def control(self) -> Path:
        """The server's control socket."""
        return self.path / "control.sock"

    @property
    def metrics_file(self) -> Path:
        """The port on loopback where the server answers with its metrics, if it does."""
        return self.path / "metrics.port"

    @property
    def mountpoint(self) -> Path:
        """Where the server's files are: one per volume."""
        return self.path / "volumes"

    def read(self) -> State | None:
        """The recorded state; None where nothing was recorded."""
        try:
            text = self.state_file.read_text()
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise HostError(f"{self.state_file} may not be read", "run this as root") from error
        except OSError as error:
            reason = f"state directory {self.path} cannot be used: {error.strerror}"
            raise UserError(reason, "name another with --state-dir") from error
        try:
            state = adapter(State).validate_json(text)
        except ValidationError as error:
            raise self._unknown(f"{self.state_file} is damaged") from error
        if state.version != STATE_VERSION:
            raise self._unknown(f"{self.state_file} is of another version of pgstow")
        return state

    def _unknown(self, what: str) -> HostError:
        remedy = f"clear up with pgstow emulate down --state-dir {self.path}"
        return HostError(what, remedy)

    def write(self, state: State) -> None:
        """Record the state, whole or not at all."""
        write_atomically(self.state_file, adapter(State).dump_json(state, indent=2))

    def server(self) -> ProcessIdentity | None:
        """The recorded server, running or not."""
        try:
            return adapter(ProcessIdentity).validate_json(self.pid_file.read_text())
        except (OSError, ValidationError):  # none, or cut short by a crash
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other ``up`` and ``down`` of this directory out."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = self._acquire_lock()
        except PermissionError as error:
            reason = f"state directory {self.path} cannot be used: {error.strerror}"
            raise HostError(reason, "run this as root, or name another with --state-dir") from error
        except OSError as error:
            reason = f"state directory {self.path} cannot be used: {error.strerror}"
            raise UserError(reason, "name another with --state-dir") from error
        with lock:
            yield

    def _acquire_lock(self) -> IO[str]:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            file = self.lock_file.open("a+")
            # Who removed everything removed the lock's file too, and it locks nobody out then.
            if locks.try_exclusive(file.fileno()) and _is_same(file, self.lock_file):
                return file
            file.close()
            if time.monotonic() > deadline:
                what = f"another pgstow emulate is at work in {self.path}"
                raise HostError(what, "wait until it has ended")
            time.sleep(_LOCK_POLL_S)


def nothing_up(directory: Path) -> UserError:
    """The error that no volumes of a state directory are up."""
    option = "" if directory == DEFAULT_STATE_DIRECTORY else f" --state-dir {directory}"
    remedy = f"start them with pgstow emulate up LAYOUT{option}"
    return UserError("no emulated volumes are up", remedy)


def unknown_volume(name: str, up: Iterable[str]) -> UserError:
    """The error that no volume of that name is up; ``up`` are those that are."""
    return UserError(f"no volume {name!r} is up", f"use one of: {', '.join(up) or 'none'}")


def write_identity(identity: ProcessIdentity) -> bytes:
    """The text of a pid file."""
    return adapter(ProcessIdentity).dump_json(identity)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, finds the old content or the new."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _is_same(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
