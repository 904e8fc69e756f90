"""Directories PostgreSQL is to use: checked, made with the right owner and mode, copied durably."""

import os
import pwd
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from pgstow.model.errors import HostError, UserError

_COPY_CHUNK_BYTES = 1024 * 1024


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
            "choose a directory outside it; backups and pg_rewind trip over such tablespaces",
        )
    if mount is not None and not _is_inside(real, os.path.realpath(mount)):
        raise UserError(
            f"tablespace directory {location} leads out of its volume's mount {mount}",
            "remove the symbolic link on the way",
        )
    _check_empty(location)
    _check_owner(location, server_user(data_directory))


def make_directory(location: str, data_directory: str) -> bool:
    """Make a directory that only the server's user can enter; whether it had to be made."""
    uid, gid = server_user(data_directory)
    path = Path(location)
    try:
        made = not path.exists()
        if made:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, uid, gid)
            sync_directory(path.parent)
        elif stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise HostError(
            f"directory {location} cannot be made ready: {error.strerror}",
            f"as root: install -d -m 700 -o {user_name(uid)} {location}",
        ) from error
    _check_owner(location, (uid, gid))
    return made


def remove_empty_directory(location: str) -> None:
    """Remove a directory that was made for a tablespace that is gone; one in use is left."""
    try:
        Path(location).rmdir()
    except OSError:
        return


def free_bytes(path: str) -> int | None:
    """What an ordinary user may still write to the filesystem of a path, or of its parent."""
    place = existing_ancestor(path)
    try:
        found = os.statvfs(place)
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
    place = Path(path)
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    return place


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
    """The bytes of the files in a directory and below."""
    return sum(
        os.stat(os.path.join(folder, name), follow_symlinks=False).st_size  # noqa: PTH116,PTH118
        for folder, _, names in os.walk(path)
        for name in names
    )


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


def copy_tree(
    source: Path, target: Path, advanced: Callable[[int], None], unchanged_before: float = 0.0
) -> None:
    """Make ``target`` a durable copy of ``source``: contents, owners, modes, times, no extra files.

    A file whose copy has the same size and modification time is taken as copied if it was last
    written before ``unchanged_before`` (seconds since the epoch): so a copy can begin while the
    source is in use, and a last pass with the source at rest completes it.
    """
    target.mkdir(mode=0o700, exist_ok=True)
    wanted = set()
    for entry in sorted(os.scandir(source), key=lambda e: e.name):
        wanted.add(entry.name)
        copy = target / entry.name
        try:
            if entry.is_dir(follow_symlinks=False):
                copy_tree(Path(entry.path), copy, advanced, unchanged_before)
            elif entry.is_symlink():
                raise HostError(
                    f"{entry.path} is a symbolic link, which does not belong in pg_wal",
                    "move it away first",
                )
            else:
                _copy_file(Path(entry.path), copy, advanced, unchanged_before)
        except FileNotFoundError:  # removed or renamed while the server ran; the last pass sees it
            continue
    for present in list(os.scandir(target)):
        if present.name not in wanted:
            remove_tree(Path(present.path))
    _like(source, target)
    sync_directory(target)


def remove_tree(path: Path) -> None:
    """Remove a file or a directory with what is in it, and make that durable."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"{path} cannot be removed: {error.strerror}") from error
    sync_directory(path.parent)


def _copy_file(
    source: Path, target: Path, advanced: Callable[[int], None], unchanged_before: float
) -> None:
    before = source.stat()
    try:
        after = target.stat()
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    except FileNotFoundError:
        same = False
    if same and before.st_mtime < unchanged_before:
        advanced(before.st_size)
        return
    with source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(_COPY_CHUNK_BYTES):
            writer.write(chunk)
            advanced(len(chunk))
        writer.flush()
        os.fsync(writer.fileno())
    _like_stat(before, target)  # last: only what is on disk may look copied


def _like(source: Path, target: Path) -> None:
    _like_stat(source.stat(), target)


def _like_stat(source: os.stat_result, target: Path) -> None:
    if os.geteuid() == 0:
        os.chown(target, source.st_uid, source.st_gid)
    target.chmod(stat.S_IMODE(source.st_mode))
    os.utime(target, ns=(source.st_atime_ns, source.st_mtime_ns))


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
