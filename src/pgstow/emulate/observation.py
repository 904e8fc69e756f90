"""Update a recorded state from what is on the machine now."""

import stat
from dataclasses import replace
from pathlib import Path

from pgstow.emulate.calibrate import CALIBRATION_VOLUME
from pgstow.emulate.control import ServerBacking, ServerStatus
from pgstow.emulate.state import State, StateDirectory, VolumeState
from pgstow.host import loops, mounts, processes
from pgstow.model.errors import HostError


def observe(directory: StateDirectory, recorded: State | None, server: ServerStatus) -> State:
    """The true state while a server runs. A volume it does not have is gone with its contents."""
    state = recorded or State(processes.boot_id())
    unknown = [
        volume.name
        for volume in server.volumes
        if volume.name != CALIBRATION_VOLUME and state.find(volume.name) is None
    ]
    if unknown:
        raise HostError(
            f"the emulator has volumes that are not in its record: {', '.join(unknown)}",
            f"run pgstow emulate down --state-dir {directory.path}, then up",
        )
    entries = (_observe_volume(directory, entry, server) for entry in state.volumes)
    found = tuple(entry for entry in entries if entry is not None)
    return replace(state, host_cap=server.host, volumes=found)


def _observe_volume(
    directory: StateDirectory, entry: VolumeState, server: ServerStatus
) -> VolumeState | None:
    present = server.find(entry.volume.name)
    if present is None:
        return None
    loop = entry.loop
    if loop is None or not loops.is_attached(loop):
        # Attached by a run that was killed before it could note the loop device.
        found = loops.of_file(directory.mountpoint / entry.volume.name)
        loop = found[0] if found else None
    paths = () if loop is None else tuple(mount.path for mount in mounts.mounts_of(loop.device))
    is_mounted = str(Path(entry.volume.mount).resolve()) in paths
    return replace(
        entry,
        device=present.device,
        loop=loop,
        loop_took_us=entry.loop_took_us if loop == entry.loop else None,
        is_mounted=is_mounted,
        # Mounted, so there is a filesystem, if a run was killed before it could note that.
        filesystem_bytes=entry.filesystem_bytes or (entry.device.size_bytes if paths else None),
        inode=entry.inode or _inode(entry, present.backing),
    )


def _inode(entry: VolumeState, present: ServerBacking) -> int | None:
    """The inode of the server's file: a run may have been killed before it could note it."""
    path = entry.backing.path
    if path is None or path != present.path:
        return None
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return found.st_ino if stat.S_ISREG(found.st_mode) else None
