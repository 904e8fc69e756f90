"""Change one volume while it is in use, as its provider would: limits, type and size."""

from dataclasses import replace
from pathlib import Path

from pgstow.emulate import backing, process, reconcile, volumes
from pgstow.emulate.control import Control, RefusedError
from pgstow.emulate.observation import observe
from pgstow.emulate.reconcile import Action, TargetVolume
from pgstow.emulate.state import (
    State,
    StateDirectory,
    VolumeState,
    nothing_up,
    unknown_volume,
)
from pgstow.emulate.status import EmulatorStatus, read_status
from pgstow.model import Device, Layout, Placement, Volume, Warning
from pgstow.model.errors import HostError, UserError
from pgstow.units import format_duration, format_size


def running_layout(state_directory: Path) -> Layout:
    """The volumes that are up as a layout, to check a change of one against the catalog.

    What is stored on them is not known here: it says that the first has it all.
    """
    state = _running(StateDirectory(state_directory))
    if not state.volumes:
        raise nothing_up(state_directory)
    entries = tuple(entry.volume for entry in state.volumes)
    return Layout(state.host, entries, Placement(data=entries[0].name, wal=entries[0].name))


def modify_volume(
    volume: Volume,
    device: Device,
    *,
    state_directory: Path,
    optimising_s: float | None,
    dry_run: bool = False,
) -> tuple[tuple[Action, ...], EmulatorStatus]:
    """Change a volume that is up into this one; its filesystem grows with it.

    The limits are on their way for ``optimising_s``, under ModifyVolume's rules (one at a time,
    four in 24 hours); None changes them at once and without rules. Returns what was done, or with
    ``dry_run`` would be.
    """
    directory = StateDirectory(state_directory)
    if dry_run:
        present = _find(_running(directory), volume.name)
        return _plan(TargetVolume(volume, device), present, optimising_s), read_status(
            directory.path
        )
    with directory.locked():
        state = _running(directory)
        present = _find(state, volume.name)
        warnings = _check_room(directory, state, device)
        actions = _plan(TargetVolume(volume, device), present, optimising_s)
        for action in actions:
            if action.kind == "change":
                control = Control(directory.control)
                _change(control, device, optimising_s)
                _show_cache(control, device, present)
                present = replace(present, volume=volume, device=device)
            else:
                assert present.loop is not None, f"volume {volume.name} has no loop device"
                volumes.grow(volume, present.loop)
                present = replace(present, filesystem_bytes=device.size_bytes)
            directory.write(state.with_volume(present))
        status = read_status(directory.path)
        return actions, replace(status, warnings=(*warnings, *status.warnings))


def _check_room(directory: StateDirectory, state: State, device: Device) -> list[Warning]:
    sizes = {one.volume.name: (one.backing, int(one.device.size_bytes)) for one in state.volumes}
    made_of, before = sizes[device.name]
    if device.size_bytes <= before:
        return []
    sizes[device.name] = made_of, device.size_bytes
    volumes = Control(directory.control).status().volumes
    in_memory = {name for name, (made_of, _) in sizes.items() if made_of.path is None}
    resident = sum(one.resident_bytes for one in volumes if one.name in in_memory)
    return backing.check_room(sizes.values(), resident_bytes=resident, thin=True)


def _running(directory: StateDirectory) -> State:
    recorded = directory.read()
    server = None if recorded is None else process.running(directory)
    if server is None:
        raise nothing_up(directory.path)
    return observe(directory, recorded, server)


def _find(state: State, name: str) -> VolumeState:
    entry = state.find(name)
    if entry is None:
        raise unknown_volume(name, (entry.volume.name for entry in state.volumes))
    if not entry.is_mounted:
        raise HostError(f"volume {name} is not mounted", "run pgstow emulate up LAYOUT again")
    return entry


def _plan(
    target: TargetVolume, present: VolumeState, optimising_s: float | None
) -> tuple[Action, ...]:
    reconcile.refuse_rebuild(target, present)
    name, size_bytes = target.volume.name, target.device.size_bytes
    actions = []
    if (target.volume, target.device) != (present.volume, present.device):
        old, new = describe(present.volume, present.device), describe(target.volume, target.device)
        when = "at once" if optimising_s is None else f"over {format_duration(optimising_s)}"
        text = f"modify {name} from {old} to {new}, {when}"
        actions.append(Action("change", text, name))
    if (present.filesystem_bytes or size_bytes) < size_bytes:
        text = f"grow the {target.volume.filesystem} of {name} to {format_size(size_bytes)}"
        actions.append(Action("grow", text, name))
    return tuple(actions)


def describe(volume: Volume, device: Device) -> str:
    """A volume's type, size and limits as text."""
    return f"{volume.type} {reconcile.describe_device(device)}"


def _show_cache(control: Control, device: Device, present: VolumeState) -> None:
    server = control.status().find(device.name)
    if present.loop is not None and server is not None:
        volumes.show_cache(present.loop, device, is_volatile=server.volatile)


def _change(control: Control, device: Device, optimising_s: float | None) -> None:
    if optimising_s is None:
        control.set(device)
        return
    try:
        control.modify(device, optimising_s)
    except RefusedError as error:
        raise UserError(error.reason, "or change it without these rules: --now") from error
