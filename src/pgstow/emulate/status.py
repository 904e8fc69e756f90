"""The volumes that are up: as text, as JSON, and by mount with their types."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstow.emulate import lateness, process
from pgstow.emulate.backing import MEMORY, Backing
from pgstow.emulate.control import (
    Compensation,
    Control,
    Modification,
    ServerFault,
    ServerStatus,
    ServerVolume,
)
from pgstow.emulate.reconcile import Action
from pgstow.emulate.state import (
    State,
    StateDirectory,
    VolumeState,
    nothing_up,
    unknown_volume,
)
from pgstow.emulate.statistics import is_late
from pgstow.host import loops, mounts
from pgstow.model import Device, HostCap, Volume, Warning
from pgstow.model.errors import UserError


@dataclass(frozen=True, slots=True)
class EmulatedVolume:
    """A mounted volume and its type."""

    name: str
    type: str
    loop_device: str
    mount: str
    device: Device
    volume: Volume  # as the layout has it


@dataclass(frozen=True, slots=True)
class VolumeStatus:
    """One volume; counters are since it was added, None where no server answers."""

    name: str
    type: str
    size_bytes: int
    filesystem: str
    mount: str
    is_mounted: bool
    loop_device: str | None
    device: Device
    resident_bytes: int | None = None
    reads: int | None = None
    writes: int | None = None
    flushes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    read_us_mean: float | None = None
    write_us_mean: float | None = None
    in_flight: int | None = None
    limits_enabled: bool | None = None
    backing: Backing = MEMORY
    modification: Modification | None = None
    modifications_24h: int | None = None
    volatile: bool | None = None
    unflushed_writes: int | None = None
    unflushed_bytes: int | None = None
    late_us_mean: float | None = None  # by how much answers came later than the model said
    is_limited_by_emulator: bool | None = None  # since it was made
    burst_balance_percent: float | None = None  # None also where the volume has no credits


@dataclass(frozen=True, slots=True)
class EmulatorStatus:
    """The whole status. ``actions`` are those of the ``up`` that returned it."""

    state_directory: str
    is_running: bool
    pid: int | None
    compensation: Compensation | None
    metrics_port: int | None
    limits_enabled: bool | None
    host_cap: HostCap | None
    volumes: tuple[VolumeStatus, ...]
    faults: tuple[ServerFault, ...] = ()
    warnings: tuple[Warning, ...] = ()
    actions: tuple[Action, ...] = ()


def read_status(state_directory: Path) -> EmulatorStatus:
    """What is up now; nothing recorded is no error."""
    directory = StateDirectory(state_directory)
    state = directory.read()
    server = process.running(directory) if state is not None else None
    volumes = () if state is None else state.volumes
    return EmulatorStatus(
        state_directory=str(directory.path),
        is_running=server is not None,
        pid=None if server is None else server.pid,
        metrics_port=None if server is None else process.metrics_port(directory),
        compensation=None if server is None else server.compensation,
        limits_enabled=None if server is None else server.limits_enabled,
        host_cap=None if server is None else server.host,
        volumes=tuple(_volume(entry, server, state) for entry in volumes),
        faults=() if server is None else server.faults,
        warnings=_warnings(state, server),
    )


def set_limits(state_directory: Path, enabled: bool) -> EmulatorStatus:
    """Switch the limits and latencies of all volumes on or off."""
    directory = StateDirectory(state_directory)
    if process.running(directory) is None:
        raise nothing_up(directory.path)
    Control(directory.control).set_limits(enabled)
    return read_status(directory.path)


def set_credits(state_directory: Path, name: str, fraction: float) -> EmulatorStatus:
    """Fill a volume's burst credits to a fraction of them."""
    directory = check_credits(state_directory, name)
    Control(directory.control).set_credits(fraction, name)
    return read_status(directory.path)


def check_credits(state_directory: Path, name: str) -> StateDirectory:
    """Refuse a volume that is not up, or has no burst credits."""
    directory = StateDirectory(state_directory)
    server = process.running(directory)
    if server is None:
        raise nothing_up(directory.path)
    present = server.find(name)
    if present is None:
        raise unknown_volume(name, (volume.name for volume in server.volumes))
    if present.device.member.burst is None:
        raise UserError(
            f"volume {name} has no burst credits", "only gp2, st1 and sc1 have: leave --credits out"
        )
    return directory


def reset_credits(state_directory: Path) -> None:
    """Give every volume the burst credits that it was made with."""
    control = Control(StateDirectory(state_directory).control)
    for volume in control.status().volumes:
        if volume.device.member.burst is not None:
            control.set_credits(volume.device.member.burst.initial, volume.name)


def emulated_volumes(state_directory: Path) -> tuple[EmulatedVolume, ...]:
    """The volumes that are mounted, with their types; none where no emulator is up."""
    state = StateDirectory(state_directory).read()
    return tuple(
        EmulatedVolume(
            entry.volume.name,
            entry.volume.type,
            entry.loop.device,
            entry.volume.mount,
            entry.device,
            entry.volume,
        )
        for entry in (() if state is None else state.volumes)
        if entry.loop is not None and _at(entry.volume, _mounts_of(entry))
    )


def _volume(entry: VolumeState, server: ServerStatus | None, state: State | None) -> VolumeStatus:
    volume = entry.volume
    found = _mounts_of(entry)
    present = None if server is None else server.find(volume.name)
    status = VolumeStatus(
        name=volume.name,
        type=volume.type,
        size_bytes=entry.device.size_bytes,
        filesystem=volume.filesystem,
        mount=volume.mount,
        is_mounted=_at(volume, found),
        loop_device=None if entry.loop is None else entry.loop.device,
        device=entry.device,
        backing=entry.backing,
    )
    if server is None or present is None:
        return status
    present = lateness.with_way(state, present, server.compensation)
    return replace(
        status,
        resident_bytes=present.resident_bytes,
        reads=present.reads,
        writes=present.writes,
        flushes=present.flushes,
        read_bytes=present.read_bytes,
        write_bytes=present.write_bytes,
        read_us_mean=present.read_us_total / present.reads if present.reads else None,
        write_us_mean=present.write_us_total / present.writes if present.writes else None,
        in_flight=present.in_flight,
        limits_enabled=present.limits_enabled,
        modification=present.modification,
        modifications_24h=present.modifications_24h,
        volatile=present.volatile,
        unflushed_writes=present.unflushed_writes,
        unflushed_bytes=present.unflushed_bytes,
        late_us_mean=_late_us(present),
        is_limited_by_emulator=_is_late(present),
        burst_balance_percent=_balance_percent(present),
    )


def _late_us(volume: ServerVolume) -> float | None:
    answered = volume.reads + volume.writes
    return volume.late_us_total / answered if answered else None


def _is_late(volume: ServerVolume) -> bool:
    answered = volume.reads + volume.writes
    took_us = volume.read_us_total + volume.write_us_total
    return is_late(_late_us(volume), took_us / answered if answered else 0.0)


def _mounts_of(entry: VolumeState) -> tuple[str, ...]:
    """Where a volume is really mounted, whatever was recorded."""
    if entry.loop is None or not loops.is_attached(entry.loop):
        return ()
    return tuple(mount.path for mount in mounts.mounts_of(entry.loop.device))


def _at(volume: Volume, found: tuple[str, ...]) -> bool:
    return str(Path(volume.mount).resolve()) in found


def _balance_percent(volume: ServerVolume) -> float | None:
    burst = volume.device.member.burst
    if burst is None or volume.credits is None:
        return None
    return volume.credits / (burst.capacity * volume.device.stripes) * 100


def _warnings(state: State | None, server: ServerStatus | None) -> tuple[Warning, ...]:
    if state is None:
        return ()
    if server is not None:
        return (*_beyond(state), *_unmounted(state))
    return (
        Warning(
            "server-gone",
            "the emulator's server has ended, and with it all that was on its volumes",
            "run pgstow emulate down, or up to make them anew",
        ),
    )


def _beyond(state: State) -> tuple[Warning, ...]:
    """A warning where the volumes together may do more than this machine can answer."""
    reachable = state.reachable_iops
    limit_iops = total_limit_iops([entry.device for entry in state.volumes], state.host_cap)
    if reachable is None or limit_iops is None or limit_iops <= reachable:
        return ()
    return (
        Warning(
            "beyond-this-machine",
            f"the volumes may do {limit_iops:,.0f} IOPS together, and this machine answers about"
            f" {reachable:,.0f}: beyond it the emulator is the limit",
            "trust no figure where status or stats says limited by the emulator",
        ),
    )


def total_limit_iops(devices: Sequence[Device], cap: HostCap | None) -> float | None:
    """The most that volumes may do at once within their host's cap; None: one has no limit."""
    of_host, of_themselves = 0.0, 0.0
    for device in devices:
        burst = device.member.burst
        peak = device.iops
        if burst is not None and burst.kind == "iops":
            peak = burst.burst_rate * device.stripes
        if peak is None and device.bytes_per_second is None:
            return None
        if peak is None:
            continue  # of hard disks, whose bytes are the limit
        if device.uses_host_cap:
            of_host += peak
        else:
            of_themselves += peak
    most = None if cap is None else (cap.burst_iops if cap.burst_initial else cap.iops)
    return of_themselves + (of_host if most is None else min(of_host, most))


def _unmounted(state: State) -> tuple[Warning, ...]:
    return tuple(
        Warning(
            "not-mounted",
            f"volume {entry.volume.name} is not mounted at {entry.volume.mount} any more: what"
            " is written there goes to the machine's own disk",
            "mount it again: pgstow emulate up LAYOUT",
        )
        for entry in state.volumes
        if entry.is_mounted and not _at(entry.volume, _mounts_of(entry))
    )
