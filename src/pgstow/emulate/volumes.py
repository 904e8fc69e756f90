"""Work on one volume: its loop device, filesystem and mount."""

import errno
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pgstow.emulate.backing import server_of
from pgstow.emulate.calibrate import MAX_REQUEST_BYTES
from pgstow.emulate.filesystems import FILESYSTEM_TYPES, mount_options
from pgstow.host import loops, mounts, programs
from pgstow.host.loops import Loop
from pgstow.model import Device, Volume
from pgstow.model.errors import HostError, UserError

_FORMAT_TIMEOUT_S = 300.0


def attach(file: Path) -> Loop:
    """Make a loop device of a volume's file."""
    return loops.attach(file, max_request_bytes=MAX_REQUEST_BYTES)


def show_cache(loop: Loop, device: Device, *, is_volatile: bool) -> None:
    """Let the kernel send flushes where something can be lost, and nowhere else: as the real
    device does, which shows a volatile cache or none."""
    loops.set_write_cache(loop, is_volatile or device.has_volatile_cache)


def format_device(volume: Volume, device: str) -> None:
    """Make the layout's filesystem; what an interrupted attempt left is overwritten."""
    options = [part for option in volume.mkfs_options for part in shlex.split(option)]
    command = FILESYSTEM_TYPES[volume.filesystem].make
    try:
        programs.run([*command, *options, "--", device], timeout_s=_FORMAT_TIMEOUT_S)
    except HostError as error:
        ended = ended_server()
        if volume.filesystem != "btrfs" or ended is None:
            raise
        # mkfs.btrfs compares its device with the file behind every mounted loop device
        what = f"mkfs.btrfs stumbles over volumes of an emulator in {ended} that has ended"
        raise HostError(what, f"run pgstow emulate down --state-dir {ended}") from error


def ended_server() -> Path | None:
    """The state directory of an emulator that ended with its volumes still mounted."""
    for present in mounts.mounts():
        server = server_of(present)
        if server is None:
            continue
        try:
            (server / "volumes").stat()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return server
    return None


def grow(volume: Volume, loop: Loop) -> None:
    """Make a mounted filesystem as large as its volume has become."""
    loops.grow(loop)
    kind = FILESYSTEM_TYPES[volume.filesystem]
    path = volume.mount if kind.grow_by == "mount" else loop.device
    try:
        programs.run([*kind.grow, path], timeout_s=_FORMAT_TIMEOUT_S)
    except HostError as error:
        remedy = "use xfs or btrfs, or give root CAP_SYS_RESOURCE, which ext4 asks for"
        what = f"volume {volume.name} cannot grow while it is mounted: {error.message}"
        raise HostError(what, remedy if volume.filesystem == "ext4" else error.remedy) from error


def mount(volume: Volume, device: str) -> None:
    """Mount a volume where the layout says."""
    options = mount_options(volume.filesystem, volume.mount_options)
    mounts.mount(device, Path(volume.mount).resolve(), volume.filesystem, options)


def check_mount_point(volume: Volume) -> None:
    """Refuse a mount point that is not an empty directory of its own; a missing one will do."""
    path = Path(volume.mount)
    what = f"volume {volume.name}: mount point {path}"
    try:
        present = mounts.mount_at(path.resolve())
        if present is not None:
            other = server_of(present)
            if other is not None:
                where = f"a volume of the emulator in {other}"
                remedy = f"run pgstow emulate down --state-dir {other}, or choose another mount"
                raise UserError(f"{what} has {where} mounted on it already", remedy)
            remedy = "unmount it, or choose another mount in the layout"
            raise UserError(f"{what} has {present.source} mounted on it already", remedy)
        if next(path.iterdir(), None) is not None:
            raise UserError(f"{what} is not empty", "empty it, or choose another in the layout")
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise UserError(f"{what} is not a directory", "choose another in the layout") from error
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise HostError(f"{what} has a dead FUSE mount", f"run umount {path}") from error
        raise HostError(f"{what} cannot be read: {error.strerror}") from error


def check_surroundings(volume: Volume, own_mounts: Sequence[str]) -> None:
    """Refuse a mount inside a server's data directory, or on an emulated volume that is not of
    the same layout: what is made there would be in the way of either."""
    own = {str(Path(mount).resolve()) for mount in own_mounts}
    what = f"volume {volume.name}: mount point {volume.mount}"
    remedy = "choose another mount in the layout"
    for parent in Path(volume.mount).resolve().parents:
        if (parent / "PG_VERSION").is_file():
            raise UserError(f"{what} is inside PostgreSQL's data directory {parent}", remedy)
        present = mounts.mount_at(parent)
        if present is None:
            continue
        if str(parent) not in own and server_of(present) is not None:
            raise UserError(f"{what} is on the emulated volume at {parent}", remedy)


def missing_directories(path: Path) -> tuple[str, ...]:
    """The directories to make so that a path exists, outermost first."""
    missing: list[str] = []
    while not path.exists():
        missing.insert(0, str(path))
        path = path.parent
    return tuple(missing)


def remove_directories(directories: Sequence[str]) -> None:
    """Remove directories that were made for mounts, outer ones first, as far as they are empty."""
    for directory in reversed(directories):
        with suppress(OSError):  # in use by now, or gone
            Path(directory).rmdir()
