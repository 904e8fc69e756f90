"""The volumes' backing store, memory or files, and whether there is room for it."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgstow.host import cpu, directories, loops, mounts, programs
from pgstow.host.mounts import Mount
from pgstow.model import Volume, Warning
from pgstow.model.errors import HostError, UserError
from pgstow.units import MIB, format_exact_size, format_size

MEMORY_RESERVE_BYTES = 512 * MIB  # the server leaves it to the machine: its own default
FILE_SUFFIX = ".volume"
_LEAST_FREE_BYTES = 64 * MIB  # for a filesystem's own structures: less is a full disk
_BLKID_TIMEOUT_S = 10.0
_SERVERS_FILESYSTEM = "fuse.pgstow"


@dataclass(frozen=True, slots=True)
class Backing:
    """One volume's backing store; ``keep`` leaves the file when the volume goes."""

    kind: Literal["memory", "file"] = "memory"
    path: str | None = None
    keep: bool = False

    def __str__(self) -> str:
        return "memory" if self.path is None else self.path


MEMORY = Backing()


@dataclass(frozen=True, slots=True)
class Choice:
    """What volumes are to be made of: memory, or files in a directory."""

    directory: Path | None = None
    keep: bool = False

    def of(self, volume: str) -> Backing:
        """The backing of one volume."""
        if self.directory is None:
            return MEMORY
        return Backing("file", str(self.directory / f"{volume}{FILE_SUFFIX}"), self.keep)


def default_directory(state_directory: Path) -> Path:
    """Where files are unless a directory is named: on disk, one for each emulator."""
    digest = hashlib.sha256(os.fsencode(state_directory.resolve())).hexdigest()[:8]
    return Path("/var/tmp") / f"pgstow-emulator-{digest}"  # noqa: S108 (made by root, mode 700)


def make_directory(backing: Backing, state_directory: Path) -> None:
    """Make the default directory for files, if it is that one."""
    default = default_directory(state_directory)
    if backing.path is not None and Path(backing.path).parent == default:
        default.mkdir(mode=0o700, exist_ok=True)


def check_directory(choice: Choice, state_directory: Path, volumes: Sequence[Volume]) -> None:
    """Refuse a directory for files that will not do; the default one need not exist."""
    directory = choice.directory
    if directory is None:
        return
    if directory == default_directory(state_directory):
        if not os.path.lexists(directory):
            return
        if not is_own_directory(directory):  # others may write in /var/tmp
            remedy = "name another: --backing file:DIRECTORY"
            raise HostError(f"directory {directory} is not this user's own", remedy)
    if not directory.exists():
        message = f"directory {directory} for the volumes' files does not exist"
        raise UserError(message, f"make it: mkdir -p {directory}")
    if not directory.is_dir():
        raise UserError(f"{directory} for the volumes' files is not a directory", "name another")
    _refuse_own_volumes(directory, state_directory, volumes)
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        message = f"directory {directory} for the volumes' files cannot be written: "
        remedy = "make room there, or name another: --backing file:DIRECTORY"
        raise HostError(f"{message}{error.strerror}", remedy) from error


def _refuse_own_volumes(directory: Path, state_directory: Path, volumes: Sequence[Volume]) -> None:
    """A volume backed by itself would wait for itself for ever."""
    path, remedy = directory.resolve(), "name one on a disk of the machine"
    for volume in volumes:
        if path.is_relative_to(Path(volume.mount).resolve()):
            message = f"directory {directory} for the volumes' files is on volume {volume.name}"
            raise UserError(f"{message} itself", remedy)
    holding = mount_of(path)
    if holding is None:
        return
    server = server_of(holding)
    if server == state_directory or holding.filesystem == _SERVERS_FILESYSTEM:
        message = f"directory {directory} for the volumes' files is on an emulated volume itself"
        raise UserError(message, remedy)


def mount_of(path: Path) -> Mount | None:
    """The mount that a path is on."""
    holding = [mount for mount in mounts.mounts() if path.is_relative_to(mount.path)]
    return max(enumerate(holding), key=lambda one: (len(one[1].path), one[0]), default=(0, None))[1]


def server_of(mount: Mount) -> Path | None:
    """The state directory of the emulator whose volume is mounted; None: it is no such volume."""
    if not mount.source.startswith("/dev/loop"):
        return None
    file = loops.file_of(mount.source)
    below = None if file is None else mount_of(Path(file))
    if below is None or below.filesystem != _SERVERS_FILESYSTEM:
        return None
    return Path(below.path).parent


def check_room(
    backings: Iterable[tuple[Backing, int]], *, resident_bytes: int, thin: bool
) -> list[Warning]:
    """Refuse volumes larger than what they are made of, unless ``thin``: then it is a warning.

    ``backings`` are all volumes' with their sizes, ``resident_bytes`` what of it is memory taken
    already. Volumes take room only where something was written, so larger ones work until then.
    """
    of_memory, by_directory = 0, dict[Path, list[tuple[Path, int]]]()
    for backing, size_bytes in backings:
        if backing.path is None:
            of_memory += size_bytes
        else:
            path = Path(backing.path)
            by_directory.setdefault(path.parent, []).append((path, size_bytes))
    found = []
    available = cpu.available_memory_bytes() + resident_bytes - MEMORY_RESERVE_BYTES
    if of_memory > available:
        found.append(_too_large_for_memory(of_memory, available, thin))
    for directory, files in by_directory.items():
        found += _check_disk(directory, files, thin)
    return found


def _too_large_for_memory(size: int, available: int, thin: bool) -> Warning:
    what = (
        f"the volumes are {format_size(size)}, to be made of memory, of which"
        f" {format_size(max(0, available))} can be had"
    )
    if not thin:
        remedy = (
            "put them on disk with --backing file:DIRECTORY, or add --thin: writes fail when the"
            " memory is full"
        )
        raise UserError(what, remedy)
    remedy = "when it is full, writes fail: put less on them, or use --backing file:DIRECTORY"
    return Warning("more-volume-than-memory", what, remedy)


def _check_disk(directory: Path, files: list[tuple[Path, int]], thin: bool) -> list[Warning]:
    size = sum(size_bytes for _, size_bytes in files)
    used = sum(path.stat().st_blocks * 512 for path, _ in files if path.exists())
    free = directories.free_bytes(str(directory)) or 0
    if size <= free + used:
        return []
    what = f"the volumes are {format_size(size)}, and {directory} has {format_size(free)} free"
    if not thin or free < _LEAST_FREE_BYTES:
        fix = "make room there, or name another directory: --backing file:DIRECTORY"
        raise UserError(what, fix if free < _LEAST_FREE_BYTES else f"{fix}, or add --thin")
    remedy = "when it is full, writes fail: put less on them, or name another directory"
    return [Warning("more-volume-than-disk", what, remedy)]


def kept_filesystem(volume: Volume, backing: Backing, size_bytes: int) -> bool:
    """Whether a file from before holds the volume's filesystem; one that may not be used raises."""
    if backing.path is None or not Path(backing.path).exists():
        return False
    path = Path(backing.path)
    what = f"volume {volume.name}: {path} exists already"
    if not backing.keep:
        remedy = "add --keep-files to use what is in it, or delete it"
        raise UserError(what, remedy)
    present = path.stat().st_size
    if present != size_bytes:
        message = f"{what} with {format_exact_size(present)}, not {format_exact_size(size_bytes)}"
        raise UserError(message, "delete it, or give the volume its size")
    # -p: look at the file itself; exit status 2, nothing found, is an error here
    arguments = ["blkid", "-p", "-o", "value", "-s", "TYPE", "--", str(path)]
    try:
        kind = programs.run(arguments, timeout_s=_BLKID_TIMEOUT_S).strip()
    except HostError:
        return False
    if kind != volume.filesystem:
        raise UserError(f"{what} with {kind} in it, not {volume.filesystem}", "delete it")
    return True


@dataclass(frozen=True, slots=True)
class Made:
    """A volume's backing, and the inode of the file that was made for it."""

    backing: Backing
    inode: int | None

    @property
    def is_there(self) -> bool:
        """Whether it has a file now, whosever that is."""
        return self.backing.path is not None and os.path.lexists(self.backing.path)

    @property
    def is_its_own(self) -> bool:
        """Whether that is the file that was made for it."""
        found = Path(self.backing.path or "").lstat()
        return stat.S_ISREG(found.st_mode) and found.st_ino == self.inode


def remove_files(made: Iterable[Made], state_directory: Path) -> tuple[list[str], list[str]]:
    """Delete the volumes' files but those to keep, where the server did not.

    Gives what was done, and files that were not made for the volumes, which stay.
    """
    done, left = [], []
    for one in made:
        path = one.backing.path
        if path is None:
            continue
        if one.backing.keep:
            done.append(f"kept {path}")
        elif one.is_there and not one.is_its_own:
            left.append(path)
        else:
            Path(path).unlink(missing_ok=True)
            done.append(f"deleted {path}")
    _remove_default(state_directory)
    return done, left


def purgeable(kept: Iterable[Backing], state_directory: Path) -> list[Path]:
    """Files that were kept, and all volumes' files in the usual directory."""
    default = default_directory(state_directory)
    files = {Path(one.path) for one in kept if one.path is not None and one.keep}
    if is_own_directory(default):
        files |= set(default.glob(f"*{FILE_SUFFIX}"))
    return [file for file in sorted(files) if file.is_file() and not file.is_symlink()]


def purge(kept: Iterable[Backing], state_directory: Path) -> list[str]:
    """Delete what is :func:`purgeable`; says which."""
    done = []
    for file in purgeable(kept, state_directory):
        file.unlink()
        done.append(f"deleted {file}")
    _remove_default(state_directory)
    return done


def is_own_directory(directory: Path) -> bool:
    """Whether a directory is this user's, and no link to another: others may write beside it."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _remove_default(state_directory: Path) -> None:
    default = default_directory(state_directory)
    if is_own_directory(default) and not any(default.iterdir()):
        default.rmdir()
