"""By how much answers came late, with the way to the server and back: what this machine adds.

The server knows when it answered, not how long a request was on its way to it. The kernel knows how
long the loop device took. What is between both, beyond what compensation makes up for, is late too.
"""

from dataclasses import replace
from typing import TypeVar

from pgstow.emulate.control import (
    Compensation,
    Control,
    ServerStatistics,
    ServerVolume,
    VolumeCounters,
)
from pgstow.emulate.state import State, StateDirectory
from pgstow.host import loops

_Counters = TypeVar("_Counters", ServerVolume, VolumeCounters)


def read_volumes(directory: StateDirectory) -> tuple[ServerVolume, ...]:
    """The server's volumes; their lateness has the way in it."""
    status, state = Control(directory.control).status(), directory.read()
    found = (with_way(state, volume, status.compensation) for volume in status.volumes)
    return tuple(found)


def read_statistics(directory: StateDirectory) -> ServerStatistics:
    """The server's statistics; their lateness has the way in it."""
    control, state = Control(directory.control), directory.read()
    compensation, found = control.status().compensation, control.statistics()
    volumes = tuple(with_way(state, volume, compensation) for volume in found.volumes)
    return replace(found, volumes=volumes)


def with_way(state: State | None, volume: _Counters, compensation: Compensation) -> _Counters:
    """One volume's counters, its lateness with the way to the server and back."""
    entry = None if state is None else state.find(volume.name)
    if entry is None or entry.loop is None or not loops.is_attached(entry.loop):
        return volume
    took_us = loops.took_us(entry.loop)
    if took_us is None or entry.loop_took_us is None:
        return volume
    # the kernel goes on counting where an earlier user of the same device ended
    on_the_way_us = way_us(volume, took_us - entry.loop_took_us, compensation)
    return replace(volume, late_us_total=volume.late_us_total + on_the_way_us)


def way_us(
    volume: ServerVolume | VolumeCounters, took_us: float, compensation: Compensation
) -> float:
    """What requests that took ``took_us`` at the loop device were on their way, beyond what is
    made up for: in all, and never less than nothing."""
    answered_us = volume.read_us_total + volume.write_us_total
    made_up_us = volume.reads * compensation.read_us + volume.writes * compensation.write_us
    return max(0.0, took_us - answered_us - made_up_us)
