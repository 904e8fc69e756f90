"""Compare the desired with the actual volumes, and say what to do. Pure.

``actual`` must be true: the state as observed on the machine, not as it was last recorded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from pgstow.emulate.backing import MEMORY, Backing
from pgstow.emulate.filesystems import FILESYSTEM_TYPES
from pgstow.emulate.state import State, VolumeState
from pgstow.model import Device, HostCap, Layout, Volume
from pgstow.model.errors import LayoutError, UserError
from pgstow.units import format_rate, format_size

ActionKind = Literal[
    "clear",
    "start server",
    "calibrate",
    "set host cap",
    "unmount",
    "remove",
    "change",
    "add",
    "attach",
    "format",
    "mount",
    "grow",
    "enable limits",
    "keep",
]


@dataclass(frozen=True, slots=True)
class TargetVolume:
    """A volume of the layout and its device.

    ``backing`` is what it is to be made of; None: as it is, or memory. ``is_kept`` says that its
    file is from before and has its filesystem.
    """

    volume: Volume
    device: Device
    backing: Backing | None = None
    is_kept: bool = False

    @property
    def entry(self) -> VolumeState:
        """The volume as it is recorded before anything of it is made."""
        made_bytes = self.device.size_bytes if self.is_kept else None
        backing = self.backing or MEMORY
        return VolumeState(self.volume, self.device, filesystem_bytes=made_bytes, backing=backing)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do; ``text`` says it to the user."""

    kind: ActionKind
    text: str
    volume: str | None = None


def pair(layout: Layout, devices: Sequence[Device]) -> tuple[TargetVolume, ...]:
    """Join a layout's volumes with their devices, and refuse what cannot be made."""
    by_name = {device.name: device for device in devices}
    targets = []
    for volume in layout.volumes:
        device = by_name.get(volume.name)
        assert device is not None, f"no device was given for volume {volume.name}"
        least = FILESYSTEM_TYPES[volume.filesystem].min_bytes
        if device.size_bytes < least:
            raise LayoutError(
                f"volume {volume.name} of {format_size(device.size_bytes)} is too small for"
                f" {volume.filesystem}",
                f"make it at least {format_size(least)}",
            )
        targets.append(TargetVolume(volume, device))
    return tuple(sorted(targets, key=lambda entry: PurePosixPath(entry.volume.mount).parts))


def plan_up(
    targets: Sequence[TargetVolume],
    host_cap: HostCap | None,
    actual: State | None,
    *,
    is_running: bool,
    has_leftovers: bool = False,
    unlimited: Collection[str] = (),
    prune: bool = False,
) -> tuple[Action, ...]:
    """The actions in their order. None but "keep" where all is as desired already.

    ``has_leftovers`` says that a server which no longer runs left something behind, ``unlimited``
    names the volumes whose limits are switched off.
    """
    state = actual or State(boot_id="")
    unmanaged = _unmanaged(targets, state)
    if not prune:
        _refuse_mount_conflicts(targets, unmanaged)
    return (
        *_clear(has_leftovers),
        *_server(state, host_cap, is_running),
        *(action for entry in unmanaged for action in _drop(entry, prune)),
        *(action for entry in reversed(targets) for action in _release(entry, state)),
        *(action for entry in targets for action in _make(entry, state, unlimited)),
    )


def _clear(has_leftovers: bool) -> list[Action]:
    text = "remove what a server that has ended left behind; its volumes' contents are gone"
    return [Action("clear", text)] if has_leftovers else []


def _server(state: State, host_cap: HostCap | None, is_running: bool) -> list[Action]:
    actions = []
    if not is_running:
        actions.append(Action("start server", "start the emulator's server"))
    if not is_running or state.compensation is None:
        text = "measure this machine's own latency, to take it off the volumes'"
        actions.append(Action("calibrate", text))
    if state.host_cap != host_cap:
        actions.append(Action("set host cap", f"set the host's cap: {describe_cap(host_cap)}"))
    return actions


def _unmanaged(targets: Sequence[TargetVolume], state: State) -> tuple[VolumeState, ...]:
    names = {entry.volume.name for entry in targets}
    found = (entry for entry in state.volumes if entry.volume.name not in names)
    return tuple(sorted(found, key=lambda e: PurePosixPath(e.volume.mount).parts, reverse=True))


def _refuse_mount_conflicts(
    targets: Sequence[TargetVolume], unmanaged: Sequence[VolumeState]
) -> None:
    taken = {entry.volume.mount: entry.volume.name for entry in unmanaged if entry.is_mounted}
    for entry in targets:
        if entry.volume.mount in taken:
            raise UserError(
                f"volume {entry.volume.name}: volume {taken[entry.volume.mount]}, which the layout"
                f" does not have, is mounted at {entry.volume.mount}",
                "remove it with --prune, or choose another mount",
            )


def _drop(entry: VolumeState, prune: bool) -> list[Action]:
    name = entry.volume.name
    if not prune:
        return [Action("keep", f"keep {name}, which the layout does not have (--prune)", name)]
    actions = []
    if entry.is_mounted:
        actions.append(Action("unmount", f"unmount {name} from {entry.volume.mount}", name))
    return [*actions, Action("remove", f"remove {name} and all that is on it", name)]


def _release(entry: TargetVolume, state: State) -> list[Action]:
    """Take down what must be before the volume can be as desired."""
    present = state.find(entry.volume.name)
    if present is None or not present.is_mounted:
        return []
    old, new = present.volume, entry.volume
    if (old.mount, old.mount_options) == (new.mount, new.mount_options):
        return []
    return [Action("unmount", f"unmount {new.name} from {old.mount}", new.name)]


def _make(entry: TargetVolume, state: State, unlimited: Collection[str]) -> list[Action]:
    name, volume, size = entry.volume.name, entry.volume, entry.device.size_bytes
    present = state.find(name)
    actions = []
    if present is None:
        location = (
            "" if entry.backing is None or entry.backing.path is None else f" in {entry.backing}"
        )
        text = f"add {name}: {describe_device(entry.device)}{location}"
        actions.append(Action("add", text, name))
    else:
        refuse_rebuild(entry, present)
        if present.device != entry.device:
            text = f"change {name} to {describe_device(entry.device)}"
            actions.append(Action("change", text, name))
        elif present.volume != volume:
            actions.append(Action("change", f"note the changed description of {name}", name))
    if present is None or present.loop is None:
        actions.append(Action("attach", f"make a loop device of {name}", name))
    if (present or entry.entry).filesystem_bytes is None:
        actions.append(Action("format", f"make {volume.filesystem} on {name}", name))
    if present is None or not present.is_mounted or _release(entry, state):
        actions.append(Action("mount", f"mount {name} at {volume.mount}", name))
    if present is not None and (present.filesystem_bytes or size) < size:
        actions.append(Action("grow", f"grow {name} to {format_size(size)}", name))
    if present is None or not present.is_mounted or name in unlimited:
        actions.append(Action("enable limits", f"switch the limits of {name} on", name))
    return actions


def refuse_rebuild(entry: TargetVolume, present: VolumeState) -> None:
    """Refuse a change that would lose what is on the volume."""
    name = entry.volume.name
    remedy = "take the volumes down first: pgstow emulate down"
    if present.device.size_bytes > entry.device.size_bytes:
        old, new = format_size(present.device.size_bytes), format_size(entry.device.size_bytes)
        message = f"volume {name} is up with {old} and cannot shrink to {new}"
        raise UserError(message, remedy)
    if entry.backing is not None and entry.backing != present.backing:
        message = f"volume {name} is up with its data in {present.backing}, not {entry.backing}"
        raise UserError(message, remedy)
    old_striping = (present.device.stripes, present.device.chunk_bytes)
    if old_striping != (entry.device.stripes, entry.device.chunk_bytes):
        raise UserError(f"volume {name} is up with other stripes", remedy)
    old_file_system = (present.volume.filesystem, present.volume.mkfs_options)
    if old_file_system != (entry.volume.filesystem, entry.volume.mkfs_options):
        message = f"volume {name} is up as {present.volume.filesystem} with other options"
        raise UserError(message, remedy)


def describe_device(device: Device) -> str:
    """A device's size and limits as text."""
    return f"{format_size(device.size_bytes)}, {describe_limits(device)}"


def describe_limits(device: Device) -> str:
    """A device's limits as text."""
    stripes = "" if device.stripes == 1 else f", {device.stripes} stripes"
    return _limits(device.iops, device.bytes_per_second) + describe_burst(device) + stripes


def describe_burst(device: Device) -> str:
    """What a device may reach while its credits last, as text; empty without credits."""
    burst = device.member.burst
    if burst is None:
        return ""
    rate = burst.burst_rate * device.stripes
    return f", burst {_limits(rate, None) if burst.kind == 'iops' else format_rate(rate)}"


def describe_cap(cap: HostCap | None) -> str:
    """A host's cap as text."""
    return _limits(None, None) if cap is None else _limits(cap.iops, cap.bytes_per_second)


def _limits(iops: float | None, bytes_per_second: float | None) -> str:
    parts = [] if iops is None else [f"{iops:,.0f} IOPS"]
    parts += [] if bytes_per_second is None else [format_rate(bytes_per_second)]
    return ", ".join(parts) or "no limits"
