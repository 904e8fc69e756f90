"""Undo whatever an emulator made, from whatever state it is found in.

Everything is found by identity: loop devices by their sequence number or by the exact path of
their file, mounts by the loop device they are of, the server by pid and start time.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgstow.emulate import backing, process, volumes
from pgstow.emulate.control import Control, OtherVersionError, ServerFault
from pgstow.emulate.injection import describe_fault
from pgstow.emulate.state import State, StateDirectory, VolumeState
from pgstow.host import loops, mounts, processes
from pgstow.host.loops import Loop
from pgstow.model import Warning
from pgstow.model.errors import HostError
from pgstow.units import format_size


@dataclass
class Cleanup:
    """What was undone, with warnings for the user."""

    actions: list[str] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)


def down(state_directory: Path, *, force: bool = False, purge: bool = False) -> Cleanup:
    """Unmount and remove every volume, and end the server; nothing to do is no error.

    A filesystem in use is an error that names who uses it, and then nothing is changed on any.
    ``force`` unmounts it lazily instead: it goes when its last user does, and what was on it is
    lost at once. ``purge`` deletes files that were to be kept too, and those that earlier runs left
    in the usual directory.
    """
    directory = StateDirectory(state_directory)
    if not directory.path.exists():
        return Cleanup(backing.purge((), directory.path) if purge else [])
    with directory.locked():
        if not force:
            _refuse_use(directory)
        kept = [entry.backing for entry in _recorded(directory, Cleanup()).volumes]
        cleanup = clear(directory, force=force)
        cleanup.actions += backing.purge(kept, directory.path) if purge else []
        directory.lock_file.unlink(missing_ok=True)  # held, so it is ours to remove
        return cleanup


def plan_down(
    state_directory: Path, *, force: bool = False, purge: bool = False
) -> tuple[str, ...]:
    """What :func:`down` would do now, or why it would not; changes nothing."""
    directory = StateDirectory(state_directory)
    state, found = State(processes.boot_id()), list[Loop]()
    if directory.path.exists():
        if not force:
            _refuse_use(directory)
        state = _recorded(directory, Cleanup())
        found = list(_loops(directory, state))
    made_of = [entry.backing for entry in state.volumes]
    files = backing.purgeable(made_of, directory.path) if purge else []
    purged, answers = [str(file) for file in files], _answers(directory)
    lines = []
    for entry in state.volumes:
        file = str(directory.mountpoint / entry.volume.name)
        own = [loop for loop in found if loop == entry.loop or loop.file == file]
        found = [loop for loop in found if loop not in own]
        lines.append(_removal(entry, own, purged, answers=answers))
    lines += [f"unmount {mount.path}" for mount in reversed(_mounts_of(found))]
    lines += [f"detach {loop.device}" for loop in found]
    if process.is_alive(directory):
        lines.append("end the server")
    named = {one.path for one in made_of}
    lines += [f"delete {file}, which was kept" for file in purged if file not in named]
    return tuple(lines)


def _removal(
    entry: VolumeState, own: Iterable[Loop], purged: Collection[str], *, answers: bool
) -> str:
    """What will be done with one volume and its data; a server that answers deletes its file."""
    made = backing.Made(entry.backing, entry.inode)
    path, keep = made.backing.path, made.backing.keep
    if path is None:
        end = "discard its memory"
    elif keep and path not in purged:
        end = f"keep {path}"
    elif path in purged or answers or not made.is_there or made.is_its_own:
        end = f"delete {path}"
    else:
        end = f"leave {path}, which is not known to be the emulator's"
    parts = [*(f"unmount {mount.path}" for mount in reversed(_mounts_of(own))), end]
    what = f"{entry.volume.type} of {format_size(entry.device.size_bytes)}"
    return f"remove volume {entry.volume.name} ({what}): {', '.join(parts)}"


def _refuse_use(directory: StateDirectory) -> None:
    """Look at every volume before anything is done to one of them."""
    if not _answers(directory):
        return  # whoever uses what a dead server has left gets errors already
    ours = _mounts_of(_loops(directory, _recorded(directory, Cleanup())))
    own = {mount.path for mount in ours}
    used = [text for mount in ours if (text := mounts.in_the_way(mount, own)) is not None]
    if used:
        what = "; ".join(used)
        raise HostError(f"{what}: nothing was taken down", "end that, or add --force")


def clear(directory: StateDirectory, *, force: bool = False) -> Cleanup:
    """The work of :func:`down`, for a caller that holds the lock."""
    cleanup = Cleanup()
    state = _recorded(directory, cleanup)
    was_alive = process.is_alive(directory)
    answers = _answers(directory)
    if not answers:
        # One that hangs would keep every unmounting waiting; its end fails all I/O at once.
        process.stop(directory, ask=False)
        _tell_last_words(directory, cleanup)
    found = _loops(directory, state)
    before = _mounts_of(found)
    released = _release(directory) if answers else _Released()
    try:
        _unmount_all(directory, found, cleanup, force=force)
    except BaseException as error:  # Ctrl-C is one of them
        messages = _put_back(directory, state, before, released) if answers else []
        if not isinstance(error, HostError):
            raise
        raise HostError("; ".join((error.message, *messages)), error.remedy) from error
    for loop in found:
        _detach(loop, cleanup)
    made = [backing.Made(entry.backing, entry.inode) for entry in state.volumes]
    files = [one for one in made if one.is_there]
    process.stop(directory)
    if was_alive:
        cleanup.actions.append("ended the server")
    _unmount_files(directory, cleanup)
    done, left = backing.remove_files(files, directory.path)
    cleanup.actions += done
    cleanup.warnings += [not_ours(path) for path in left]
    directories = {made for entry in state.volumes for made in entry.directories_made}
    volumes.remove_directories(sorted(directories))
    _remove_files(directory)
    return cleanup


def not_ours(path: str) -> Warning:
    """A warning: the file where a volume's should be is not known to be the volume's."""
    message = f"{path} is not known to be the emulator's, and stays"
    return Warning("file-not-ours", message, "delete it if nobody needs it")


@dataclass(frozen=True, slots=True)
class _Released:
    """The state before the volumes were released: which had no limits, which had faults."""

    unlimited: tuple[str, ...] = ()
    faults: tuple[ServerFault, ...] = ()


def _release(directory: StateDirectory) -> _Released:
    """Switch off limits and faults, so that what is still to be written is not delayed."""
    control = Control(directory.control)
    released = _Released()
    with suppress(HostError):
        status = control.status()
        unlimited = tuple(v.name for v in status.volumes if not v.limits_enabled)
        released = _Released(unlimited, status.faults)
        control.clear()
        control.set_limits(False)
    return released


def _put_back(
    directory: StateDirectory, state: State, before: Iterable[mounts.Mount], released: _Released
) -> list[str]:
    """Restore mounts, limits and faults that were released before one volume was found in use.

    Gives what is not as it was.
    """
    control, messages = Control(directory.control), []
    try:
        control.set_limits(True)
        for name in released.unlimited:
            control.set_limits(False, name)
    except HostError as error:
        messages.append(f"limits are not as they were: {error.message}")
    paths = {mount.path for mount in before}
    for entry in sorted(state.volumes, key=lambda entry: Path(entry.volume.mount).parts):
        was_mounted = str(Path(entry.volume.mount).resolve()) in paths
        if was_mounted and entry.loop is not None and not mounts.mounts_of(entry.loop.device):
            try:
                volumes.mount(entry.volume, entry.loop.device)
            except HostError as error:
                what = f"volume {entry.volume.name} is not mounted again"
                messages.append(f"{what}: {error.message}")
    return [*messages, *(_set_again(control, fault) for fault in released.faults)]


def _set_again(control: Control, before: ServerFault) -> str:
    """Set a fault again, with a new number, for the time that it had left."""
    what = f"fault {before.id} ({describe_fault(before.fault)})"
    if before.fault.kind == "power-loss" and before.state == "active":
        return f"{what} is over: the power is back"  # another cut would take what came since
    for_s = None if before.ends_in_s is None else before.ends_in_s - before.starts_in_s
    try:
        again = control.fault(before.fault, before.volumes, after_s=before.starts_in_s, for_s=for_s)
    except HostError as error:
        return f"{what} is over: {error.message}"
    return f"{what} is set again, as fault {again.id}"


def _answers(directory: StateDirectory) -> bool:
    """Whether the server can be asked; one of another version is ended like one that hangs."""
    try:
        return process.running(directory) is not None
    except OtherVersionError:
        return False


def _recorded(directory: StateDirectory, cleanup: Cleanup) -> State:
    """The record of this boot; loops and mounts of an earlier one went with it."""
    try:
        state = directory.read()
    except HostError as error:
        cleanup.warnings.append(Warning("state-unreadable", error.message))
        state = None
    if state is None:
        return State(processes.boot_id())
    return state


def _tell_last_words(directory: StateDirectory, cleanup: Cleanup) -> None:
    words = process.last_line(directory)
    if words is not None:
        message = f"the emulator's server had ended: {words}"
        cleanup.warnings.append(Warning("server-ended", message))


def _loops(directory: StateDirectory, state: State) -> tuple[Loop, ...]:
    recorded = [entry.loop for entry in state.volumes if entry.loop is not None]
    if state.boot_id != processes.boot_id():
        recorded = []  # sequence numbers start again at each boot
    found = [loop for loop in recorded if loops.is_attached(loop)]
    found += [loop for loop in loops.in_directory(directory.mountpoint) if loop not in found]
    return tuple(found)


def _unmount_all(
    directory: StateDirectory, found: Iterable[Loop], cleanup: Cleanup, *, force: bool
) -> None:
    for mount in reversed(_mounts_of(found)):  # the latest first: it may be inside an earlier one
        _unmount(mount, cleanup, may_be_lazy=force or not process.is_alive(directory))
        cleanup.actions.append(f"unmounted {mount.path}")


def _mounts_of(found: Iterable[Loop]) -> list[mounts.Mount]:
    devices = [loop.device for loop in found]
    return [one for one in mounts.mounts() if any(one.is_of(device) for device in devices)]


def _unmount(mount: mounts.Mount, cleanup: Cleanup, *, may_be_lazy: bool) -> None:
    try:
        mounts.unmount(mount)
    except HostError as error:
        if not may_be_lazy:
            raise
        mounts.unmount(mount, lazy=True)
        remedy = "end those processes: the loop device is freed when the last of them is gone"
        cleanup.warnings.append(Warning("unmounted-lazily", error.message, remedy))


def _detach(loop: Loop, cleanup: Cleanup) -> None:
    # What was unmounted lazily keeps its loop device, however long one waits.
    is_lazy = any(warning.code == "unmounted-lazily" for warning in cleanup.warnings)
    if loops.detach(loop, timeout_s=0.5 if is_lazy else 5.0):
        cleanup.actions.append(f"detached {loop.device}")
    else:
        message = f"{loop.device} is still in use and is freed when its last user ends"
        cleanup.warnings.append(Warning("loop-in-use", message))


def _unmount_files(directory: StateDirectory, cleanup: Cleanup) -> None:
    """Unmount the server's own FUSE mount where it did not do so itself, as after kill -9."""
    while (mount := mounts.mount_at(directory.mountpoint)) is not None:
        try:
            mounts.unmount(mount)
        except HostError:
            mounts.unmount(mount, lazy=True)
        cleanup.actions.append(f"unmounted {mount.path}")


def _remove_files(directory: StateDirectory) -> None:
    for path in (
        directory.control,
        directory.pid_file,
        directory.config_file,
        directory.metrics_file,
        directory.log_file,
    ):
        path.unlink(missing_ok=True)
    if directory.mountpoint.exists():
        directory.mountpoint.rmdir()
    directory.state_file.unlink(missing_ok=True)  # last: until here, down can be run again
