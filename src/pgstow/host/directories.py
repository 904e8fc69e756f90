"""Directories PostgreSQL is to use: checked, made with the right owner and mode, copied durably."""

import errno
import os
import pwd
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pgstow.host.disk import Disk
from pgstow.model.errors import HostError, UserError

# Not empty, a mount point, or not ours to remove.
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EACCES, errno.EPERM})


def check_mounted(mount: str, why: str) -> None:
    """Refuse a mount point on which nothing is mounted: files would land on the volume below."""
    if not os.path.ismount(mount):
        raise UserError(
            f"{mount} is not mounted ({why})",
            "mount the volume there, or use --plain-directories if no volume is meant to be",
        )


def check_tablespace_directory(location: str, mount: str | None, data_directory: str) -> None:
    """Refuse a directory that PostgreSQL could not or should not have as a tablespace.

    One that does not exist yet is fine: :func:`make_directory` makes it.
    """
    real = os.path.realpath(location)
    if _is_inside(real, os.path.realpath(data_directory)):
        raise UserError(
            f"tablespace directory {location} is inside the data directory {data_directory}",
            "choose a directory outside it; backups and pg_rewind fail on such tablespaces",
        )
    if mount is not None and not _is_inside(real, os.path.realpath(mount)):
        raise UserError(
            f"tablespace directory {location} leads out of its volume's mount {mount}",
            "remove the symbolic link on the way",
        )
    _check_empty(location)
    _check_owner(location, server_user(data_directory))


def missing_directories(location: str) -> tuple[str, ...]:
    """What must be made for a directory to be there: its missing parents, then itself."""
    path, missing = Path(location), []
    while not os.path.lexists(path) and path != path.parent:
        missing.append(str(path))
        path = path.parent
    return tuple(reversed(missing))


def make_directory(location: str, data_directory: str, disk: Disk | None = None) -> bool:
    """Make a directory that only the server's user can enter; whether it had to be made."""
    disk, owner = disk or Disk(), server_user(data_directory)
    path = Path(location)
    try:
        missing = missing_directories(location)
        for parent in missing[:-1]:
            disk.make_directory(Path(parent), 0o755)
        if missing:
            disk.make_directory(path, 0o700, owner)
        elif stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise HostError(
            f"directory {location} cannot be prepared: {error.strerror}",
            f"as root: install -d -m 700 -o {user_name(owner[0])} {location}",
        ) from error
    _check_owner(location, owner)
    return bool(missing)


def remove_directories(made: Iterable[str], disk: Disk) -> tuple[str, ...]:
    """Remove directories that were made, the innermost first; gives those in use, which stay."""
    left = []
    for name in sorted(set(made), key=len, reverse=True):
        try:
            disk.remove_directory(Path(name))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno not in _IN_USE:
                raise HostError(
                    f"directory {name} cannot be removed: {error.strerror}", "remove it by hand"
                ) from error
            left.append(name)
    return tuple(reversed(left))


def mount_point(path: str) -> str:
    """Where the filesystem of a path, or of its nearest parent that exists, is mounted."""
    mount = existing_ancestor(os.path.realpath(path))
    while not mount.is_mount():
        mount = mount.parent
    return str(mount)


def free_bytes(path: str) -> int | None:
    """What an ordinary user may still write to the filesystem of a path, or of its parent."""
    ancestor = existing_ancestor(path)
    try:
        found = os.statvfs(ancestor)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def filesystem_id(path: str) -> int | None:
    """Which filesystem a path is on, or will be."""
    try:
        return existing_ancestor(path).stat().st_dev
    except OSError:
        return None


def existing_ancestor(path: str) -> Path:
    """The path itself, or the nearest directory above it that exists."""
    ancestor = Path(path)
    while not os.path.lexists(ancestor) and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    return ancestor


def server_user(data_directory: str) -> tuple[int, int]:
    """User and group of the server: who owns the data directory."""
    try:
        found = Path(data_directory).stat()
    except OSError as error:
        raise HostError(
            f"data directory {data_directory} cannot be seen: {error.strerror}",
            "run pgstow as root or as the server's user",
        ) from error
    return found.st_uid, found.st_gid


def user_name(uid: int) -> str:
    """A user's name, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tree_bytes(path: Path) -> int:
    """The bytes of the files in a directory and below, but for those that go meanwhile."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(folder) / name).lstat().st_size
    return total


def file_sizes(path: str) -> dict[str, int] | None:
    """The sizes of the files in one directory; None where it cannot be read."""
    sizes: dict[str, int] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
    except OSError:
        return None
    return sizes


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _check_empty(location: str) -> None:
    try:
        with os.scandir(location) as entries:
            found = next(entries, None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UserError(f"{location} is not a directory", "name another location") from None
    except OSError as error:
        raise HostError(
            f"directory {location} cannot be read: {error.strerror}",
            "run pgstow as root or as the server's user",
        ) from error
    if found is not None:
        hint = "name a directory in it" if found.name == "lost+found" else "name an empty directory"
        raise UserError(f"directory {location} is not empty ({found.name!r} is in it)", hint)


def _check_owner(location: str, server: tuple[int, int]) -> None:
    try:
        owner = Path(location).stat().st_uid
    except OSError:
        return
    if owner != server[0]:
        raise UserError(
            f"directory {location} belongs to {user_name(owner)}, not to the server's user "
            f"{user_name(server[0])}",
            f"chown {user_name(server[0])} {location}",
        )
