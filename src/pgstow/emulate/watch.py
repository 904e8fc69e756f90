"""Sample the server's statistics, and record its requests."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pgstow.emulate import lateness, process, statistics
from pgstow.emulate.control import Control, Recorded, ServerStatistics
from pgstow.emulate.state import StateDirectory, nothing_up
from pgstow.emulate.statistics import VolumeMetrics
from pgstow.model.errors import HostError

_POLL_S = 0.02
_PROVISIONED_IOPS_TYPES = ("io1", "io2")


def read_statistics(state_directory: Path) -> ServerStatistics:
    """What each volume has done since it was made. Raises UserError where none is up."""
    directory = StateDirectory(state_directory)
    _control(directory)
    return lateness.read_statistics(directory)


def watch(
    state_directory: Path, seconds: float, count: int | None = None
) -> Iterator[tuple[VolumeMetrics, ...]]:
    """CloudWatch's metrics of each interval, for volumes that were up throughout."""
    directory = StateDirectory(state_directory)
    control = _control(directory)
    state = directory.read()
    types = {} if state is None else {e.volume.name: e.volume.type for e in state.volumes}
    before, done = lateness.read_statistics(directory), 0
    while count is None or done < count:
        time.sleep(seconds)
        after, devices = lateness.read_statistics(directory), control.status()
        found = []
        for volume in after.volumes:
            past, status = before.find(volume.name), devices.find(volume.name)
            if past is None or status is None:
                continue
            metrics = statistics.cloudwatch(
                past,
                volume,
                after.uptime_s - before.uptime_s,
                status.device,
                has_provisioned_iops=types.get(volume.name) in _PROVISIONED_IOPS_TYPES,
            )
            limited = statistics.is_limited_by_emulator(before, after, volume.name)
            found.append(replace(metrics, is_limited_by_emulator=limited))
        yield tuple(found)
        before, done = after, done + 1


def start_recording(
    state_directory: Path, file: Path, volumes: Sequence[str] | None = None
) -> None:
    """Record every request to some volumes, or all, into a new CSV file."""
    _control(StateDirectory(state_directory)).start_recording(file, volumes)


def stop_recording(state_directory: Path, timeout_s: float = 60.0) -> Recorded:
    """End the recording and wait until its file is whole. Raises HostError where it is not."""
    recorded = _control(StateDirectory(state_directory)).stop_recording()
    about = recorded.path.with_name(f"{recorded.path.name}.json")
    deadline = time.monotonic() + timeout_s
    while not about.exists():
        if time.monotonic() > deadline:
            raise HostError(f"{recorded.path} is not written", "see whether its disk is full")
        time.sleep(_POLL_S)
    error = json.loads(about.read_text()).get("error")
    if error is not None:
        raise HostError(f"{recorded.path} is not whole: {error}", "record to another disk")
    return recorded


def _control(directory: StateDirectory) -> Control:
    if process.running(directory) is None:
        raise nothing_up(directory.path)
    return Control(directory.control)
