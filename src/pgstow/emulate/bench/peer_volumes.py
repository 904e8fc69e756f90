"""Volumes that another program serves: images, processes, loop devices and mounts, and their end.

What is started is recorded first or at once, by identities that nothing else can take, so that a
later run can clean up after one that was killed.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pgstow.emulate import volumes
from pgstow.emulate.bench import subject
from pgstow.emulate.bench.subject import MountedVolumes
from pgstow.emulate.bench.trials import FILE_BYTES, VOLUME_BYTES
from pgstow.emulate.state import write_atomically
from pgstow.host import loops, mounts, processes
from pgstow.host.background import BackgroundProgram
from pgstow.host.loops import Loop
from pgstow.host.processes import ProcessIdentity
from pgstow.model.errors import HostError
from pgstow.units import MIB

_START_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 3.0
_POLL_S = 0.02
_OVERHEAD_BYTES = 96 * MIB  # of a filesystem with its log, at most


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be undone."""

    processes: tuple[ProcessIdentity, ...] = ()
    loops: tuple[Loop, ...] = ()


_RECORD = TypeAdapter(Record)


class PeerVolumes:
    """The volumes of one peer at a time, below one directory; their images are the same."""

    def __init__(self, directory: Path, capacity: int) -> None:
        self.images = directory / "images"
        self.exports = directory / "exports"
        self.mounts = directory / "mnt"
        self._directory = directory
        self._capacity = capacity
        self._record = Record()
        self._programs: list[BackgroundProgram] = []
        self._prepared: set[str] = set()

    def mounted(self, names: Sequence[str]) -> MountedVolumes:
        """The volumes that are attached, by these names."""
        return MountedVolumes(
            subject.files(self.mounts, names),
            tuple(loop.device for loop in self._record.loops),
            tuple(program.pid for program in self._programs),
        )

    def prepare(self, names: Sequence[str]) -> None:
        """Make images in memory, each with a filesystem and the file to measure on."""
        for directory in (self.images, self.exports, self.mounts):
            directory.mkdir(parents=True, exist_ok=True)
        if mounts.mount_at(self.images) is None:
            size = self._capacity * (FILE_BYTES + _OVERHEAD_BYTES)
            mounts.mount("tmpfs", self.images, "tmpfs", (f"size={size}", "mode=700"))
        for name in names:
            if name not in self._prepared:
                self._make_image(name)
                self._prepared.add(name)

    def _make_image(self, name: str) -> None:
        image, mount_point = self.images / name, self.mounts / name
        with image.open("wb") as file:
            file.truncate(VOLUME_BYTES)
        volume = subject.make_volume(name, self.mounts)
        volumes.format_device(volume, str(image))
        mount_point.mkdir(exist_ok=True)
        mounts.mount(str(image), mount_point, volume.filesystem, ("loop", "noatime"))
        try:
            subject.write_file(mount_point)
        finally:
            mount = mounts.mount_at(mount_point)
            assert mount is not None
            mounts.unmount(mount)

    def start(self, arguments: Sequence[str], is_ready: Callable[[], bool]) -> BackgroundProgram:
        """Start a server and wait until it is ready."""
        program = BackgroundProgram(arguments)
        self._programs.append(program)
        if program.identity is not None:
            self._note(Record((*self._record.processes, program.identity), self._record.loops))
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not is_ready():
            ended = program.wait(_POLL_S)
            if ended is not None:
                lines = ended.errors.strip().splitlines() or ["it printed nothing"]
                raise HostError(f"{arguments[0]} did not start: {lines[-1]}")
            if time.monotonic() > deadline:
                raise HostError(f"{arguments[0]} was not ready in {_START_TIMEOUT_S:g} s")
        return program

    def attach(self, name: str, export: Path) -> None:
        """Make a loop device of what is served, as for emulated volumes, and mount it."""
        loop = volumes.attach(export)
        self._note(Record(self._record.processes, (*self._record.loops, loop)))
        volume = subject.make_volume(name, self.mounts)
        volumes.mount(volume, loop.device)

    def stop(self) -> None:
        """Unmount, detach and end; the images stay."""
        _undo(self._directory, self._record, keep=self.images)
        for program in self._programs:
            program.kill()
        self._programs.clear()
        self._note(Record())

    def _note(self, record: Record) -> None:
        self._record = record
        write_atomically(_record_file(self._directory), _RECORD.dump_json(record))

    def kill(self) -> None:
        """End the programs at once, so that nothing waits for one that hangs."""
        for program in self._programs:
            program.kill()


def clear(directory: Path) -> None:
    """Undo what is below a directory, also that of a run that was killed."""
    if not directory.exists():
        return
    try:
        record = _RECORD.validate_json(_record_file(directory).read_bytes())
    except (FileNotFoundError, ValidationError):
        record = Record()
    _undo(directory, record, keep=None)
    shutil.rmtree(directory, ignore_errors=True)


def _record_file(directory: Path) -> Path:
    return directory / "started.json"


def _undo(directory: Path, record: Record, *, keep: Path | None) -> None:
    """In the order in which nothing waits for what has ended: mounts, loops, processes, FUSE."""
    _unmount_below(directory / "mnt")
    for loop in record.loops:
        with suppress(HostError):
            loops.detach(loop)
    for identity in reversed(record.processes):  # a server waits for those connected to it
        processes.end(identity, timeout_s=_END_TIMEOUT_S)
    _unmount_below(directory / "exports")
    if keep is None:
        _unmount_below(directory)


def _unmount_below(directory: Path) -> None:
    for mount in reversed(mounts.mounts()):
        if not Path(mount.path).is_relative_to(directory):
            continue
        try:
            mounts.unmount(mount)
        except HostError:
            with suppress(HostError):
                mounts.unmount(mount, lazy=True)
