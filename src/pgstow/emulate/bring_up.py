"""Make a layout's volumes: a reconciliation that can be killed anywhere and run again."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstow.emulate import (
    backing,
    calibrate,
    process,
    reconcile,
    requirements,
    take_down,
    volumes,
)
from pgstow.emulate.backing import MEMORY, Backing, Choice, Made
from pgstow.emulate.control import Compensation, Control, FileBacking
from pgstow.emulate.observation import observe
from pgstow.emulate.reconcile import Action, TargetVolume
from pgstow.emulate.state import State, StateDirectory, VolumeState
from pgstow.emulate.status import EmulatorStatus, read_status
from pgstow.host import loops, mounts, processes, programs
from pgstow.model import Device, HostCap, Layout, Warning
from pgstow.model.errors import UserError

Progress = Callable[[float, float], None]


def plan_up(
    layout: Layout,
    devices: Sequence[Device],
    host_cap: HostCap | None,
    *,
    state_directory: Path,
    prune: bool = False,
    choice: Choice | None = None,
    thin: bool = True,
) -> tuple[Action, ...]:
    """What :func:`up` would do now; changes nothing."""
    directory = StateDirectory(state_directory)
    seen = _look(directory)
    if choice is not None:
        backing.check_directory(choice, directory.path, layout.volumes)
    targets = _pair(layout, devices, choice, seen)
    _check_room(seen, targets, thin)
    return _plan(seen, targets, host_cap, prune)


def up(
    layout: Layout,
    devices: Sequence[Device],
    host_cap: HostCap | None,
    *,
    state_directory: Path,
    prune: bool = False,
    owner: str | None = None,
    choice: Choice | None = None,
    thin: bool = True,
    metrics_port: int | None = None,
    compensation: Compensation | None = None,
    progress: Progress | None = None,
) -> EmulatorStatus:
    """Make the volumes of a layout be there, limited and mounted, and nothing else changed.

    ``devices`` are the catalog's, one per volume and of its name. Volumes that are up and not in
    the layout stay, unless ``prune``. ``owner`` is given the top directory of new filesystems.
    ``choice`` says what new volumes are made of, memory where there is none; ``thin`` lets them be
    larger than that. ``compensation``, of an earlier one on this machine, spares a new server its
    own calibration, so that both behave alike.
    """
    directory = StateDirectory(state_directory)
    reconcile.pair(layout, devices)
    requirements.require(volume.filesystem for volume in layout.volumes)
    owner_ids = None if owner is None else programs.user_ids(owner)
    with directory.locked():
        seen = _look(directory)
        if choice is not None:
            backing.check_directory(choice, directory.path, layout.volumes)
        targets = _pair(layout, devices, choice, seen)
        warnings = _check_room(seen, targets, thin)
        actions = _plan(seen, targets, host_cap, prune)
        state = seen.state if seen.is_running else None
        state = replace(state or State(processes.boot_id()), host=layout.host)
        _refuse_other_metrics(directory, seen, metrics_port)
        run = _Run(
            directory, state, targets, host_cap, owner_ids, warnings, metrics_port, compensation
        )
        if seen.is_running and directory.read() != state:
            run.note()  # also what a killed run could not
        for done, action in enumerate(actions):
            if progress is not None:
                progress(done, len(actions))
            run.act(action)
        status = read_status(directory.path)
    return replace(status, actions=actions, warnings=(*run.warnings, *status.warnings))


def _refuse_other_metrics(directory: StateDirectory, seen: "_Seen", port: int | None) -> None:
    present = process.metrics_port(directory) if seen.is_running else port
    if port is not None and (present is None or port not in (0, present)):
        where = "no metrics" if present is None else f"metrics on port {present}"
        raise UserError(
            f"the emulator's server runs with {where}, which only its start decides",
            "run pgstow emulate down first",
        )
    if port is not None and not seen.is_running:
        process.check_metrics_port(port)


def _pair(
    layout: Layout, devices: Sequence[Device], choice: Choice | None, seen: "_Seen"
) -> tuple[TargetVolume, ...]:
    """The layout's volumes with what they are to be made of; kept files are recognised."""
    return tuple(_with_backing(entry, choice, seen) for entry in reconcile.pair(layout, devices))


def _with_backing(entry: TargetVolume, choice: Choice | None, seen: "_Seen") -> TargetVolume:
    if choice is None:
        return entry
    volume, made_of = entry.volume, choice.of(entry.volume.name)
    ours = None if seen.state is None else seen.state.find(volume.name)
    if ours is not None and ours.backing.path == made_of.path:
        is_gone = not (seen.is_running or ours.backing.keep)
        if seen.is_running or is_gone:  # as it is, or removed before it is made anew
            return replace(entry, backing=made_of)
    is_kept = backing.kept_filesystem(volume, made_of, entry.device.size_bytes)
    return replace(entry, backing=made_of, is_kept=is_kept)


def _check_room(seen: "_Seen", targets: Sequence[TargetVolume], thin: bool) -> list[Warning]:
    present = seen.state if seen.is_running and seen.state is not None else State("")
    made_of = {v.volume.name: (v.backing, int(v.device.size_bytes)) for v in present.volumes}
    for entry in targets:
        old, old_bytes = made_of.get(entry.volume.name, (MEMORY, 0))
        size_bytes = max(entry.device.size_bytes, old_bytes)
        made_of[entry.volume.name] = (entry.backing or old, size_bytes)
    if all(present.find(entry.volume.name) for entry in targets):
        thin = True  # nothing is added: what could be made may stay
    resident_bytes = sum(seen.resident_bytes.values())
    return backing.check_room(made_of.values(), resident_bytes=resident_bytes, thin=thin)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is on the machine: true where a server runs, else only what was recorded."""

    state: State | None
    is_running: bool
    has_leftovers: bool
    unlimited: frozenset[str] = frozenset()  # volumes whose limits are off
    resident_bytes: Mapping[str, int] = field(default_factory=dict)  # by volume, of memory


def _look(directory: StateDirectory) -> _Seen:
    server = process.running(directory)
    if server is None:
        has_leftovers = directory.state_file.exists() or directory.pid_file.exists()
        return _Seen(directory.read(), is_running=False, has_leftovers=has_leftovers)
    unlimited = frozenset(v.name for v in server.volumes if not v.limits_enabled)
    state = observe(directory, directory.read(), server)
    in_memory = {entry.volume.name for entry in state.volumes if entry.backing.path is None}
    resident = {v.name: v.resident_bytes for v in server.volumes if v.name in in_memory}
    return _Seen(state, True, False, unlimited, resident)


def _plan(
    seen: _Seen, targets: Sequence[TargetVolume], host_cap: HostCap | None, prune: bool
) -> tuple[Action, ...]:
    ours = () if seen.state is None else seen.state.volumes
    for entry in targets:
        _check_mount_point(entry, targets, ours)
    return reconcile.plan_up(
        targets,
        host_cap,
        seen.state if seen.is_running else None,
        is_running=seen.is_running,
        has_leftovers=seen.has_leftovers,
        unlimited=seen.unlimited,
        prune=prune,
    )


def _check_mount_point(
    entry: TargetVolume, targets: Sequence[TargetVolume], ours: Sequence[VolumeState]
) -> None:
    """Find a wrong mount point before anything is made."""
    mount = Path(entry.volume.mount)
    volumes.check_surroundings(entry.volume, [other.volume.mount for other in targets])
    if any(Path(other.volume.mount) in mount.parents for other in targets):
        return  # it will be inside another new volume
    if any(other.is_mounted and Path(other.volume.mount) == mount for other in ours):
        return  # ours: what is to become of it is the plan's to say
    volumes.check_mount_point(entry.volume)


@dataclass
class _Run:
    """One run of :func:`up`; ``state`` is written down before and after each action."""

    directory: StateDirectory
    state: State
    targets: Sequence[TargetVolume]
    host_cap: HostCap | None
    owner: tuple[int, int] | None  # uid, gid
    warnings: list[Warning] = field(default_factory=list)
    metrics_port: int | None = None
    compensation: Compensation | None = None  # None: to be measured

    @property
    def control(self) -> Control:
        return Control(self.directory.control)

    def note(self, state: State | None = None) -> None:
        if state is not None:
            self.state = state
        self.directory.write(self.state)

    def note_volume(self, entry: VolumeState) -> None:
        self.note(self.state.with_volume(entry))

    def act(self, action: Action) -> None:
        """Do one action."""
        match action.kind:
            case "clear":
                self.warnings += take_down.clear(self.directory).warnings
            case "start server":
                self.note()
                process.start(self.directory, None, self.metrics_port)
            case "calibrate":
                self.calibrate()
            case "set host cap":
                self.control.set_host(self.host_cap)
                self.note(replace(self.state, host_cap=self.host_cap))
            case "keep":
                pass
            case _:
                assert action.volume is not None
                self.act_on_volume(action, action.volume)

    def act_on_volume(self, action: Action, name: str) -> None:
        if action.kind == "unmount":
            self.unmount(name)
        elif action.kind == "remove":
            self.remove(name)
        else:
            entry = next(entry for entry in self.targets if entry.volume.name == name)
            match action.kind:
                case "add":
                    self.add(entry)
                case "change":
                    self.change(entry)
                case "attach":
                    self.attach(name)
                case "format":
                    self.format(name)
                case "mount":
                    self.mount(name)
                case "grow":
                    self.grow(name)
                case "enable limits":
                    self.control.set_limits(True, name)

    def calibrate(self) -> None:
        found = self.compensation
        if found is not None:
            self.control.set_compensation(found)
        else:
            self.control.set_host(None)
            calibration = calibrate.calibrate(self.directory)
            self.warnings += calibration.warnings
            self.control.set_host(self.state.host_cap)
            found = calibration.compensation
            self.state = replace(self.state, reachable_iops=calibration.reachable_iops)
        self.note(replace(self.state, compensation=found))

    def add(self, entry: TargetVolume) -> None:
        self.note_volume(entry.entry)
        backing.make_directory(entry.entry.backing, self.directory.path)
        self.control.add(entry.device, _file_backing(entry.entry.backing))
        if entry.entry.backing.path is not None:
            inode = Path(entry.entry.backing.path).stat().st_ino
            self.note_volume(replace(entry.entry, inode=inode))
        self.control.set_limits(False, entry.volume.name)

    def change(self, entry: TargetVolume) -> None:
        present = self.volume(entry.volume.name)
        if present.device != entry.device:
            self.control.set(entry.device)
        self.note_volume(replace(present, volume=entry.volume, device=entry.device))
        self.show_cache(entry.volume.name)

    def attach(self, name: str) -> None:
        loop = volumes.attach(self.directory.mountpoint / name)
        took_us = loops.took_us(loop)
        self.note_volume(replace(self.volume(name), loop=loop, loop_took_us=took_us))
        self.show_cache(name)

    def show_cache(self, name: str) -> None:
        entry, present = self.volume(name), self.control.status().find(name)
        if entry.loop is not None and present is not None:
            volumes.show_cache(entry.loop, entry.device, is_volatile=present.volatile)

    def format(self, name: str) -> None:
        entry = self.volume(name)
        self.control.set_limits(False, name)
        volumes.format_device(entry.volume, _device(entry))
        self.note_volume(replace(entry, filesystem_bytes=entry.device.size_bytes))

    def mount(self, name: str) -> None:
        entry = self.volume(name)
        mount = Path(entry.volume.mount)
        made = entry.directories_made + volumes.missing_directories(mount)
        self.note_volume(replace(entry, directories_made=made))
        mount.mkdir(parents=True, exist_ok=True)
        volumes.check_mount_point(entry.volume)
        volumes.mount(entry.volume, _device(entry))
        if self.owner is not None:
            os.chown(mount, *self.owner)
        self.note_volume(replace(self.volume(name), is_mounted=True))

    def grow(self, name: str) -> None:
        entry = self.volume(name)
        assert entry.loop is not None, f"volume {name} has no loop device"
        volumes.grow(entry.volume, entry.loop)
        self.note_volume(replace(entry, filesystem_bytes=entry.device.size_bytes))

    def unmount(self, name: str) -> None:
        entry = self.volume(name)
        for mount in mounts.mounts_of(_device(entry)):
            mounts.unmount(mount)
        volumes.remove_directories(entry.directories_made)
        self.note_volume(replace(entry, is_mounted=False, directories_made=()))

    def remove(self, name: str) -> None:
        entry = self.volume(name)
        if entry.loop is not None:
            loops.detach(entry.loop)
        self.control.remove(name)
        _, left = backing.remove_files([Made(entry.backing, entry.inode)], self.directory.path)
        self.warnings += [take_down.not_ours(path) for path in left]
        self.note(self.state.without_volume(name))

    def volume(self, name: str) -> VolumeState:
        entry = self.state.find(name)
        assert entry is not None, f"no volume {name} in the state"
        return entry


def _device(entry: VolumeState) -> str:
    assert entry.loop is not None, f"volume {entry.volume.name} has no loop device"
    return entry.loop.device


def _file_backing(made_of: Backing) -> FileBacking | None:
    return None if made_of.path is None else FileBacking(path=made_of.path, keep=made_of.keep)
