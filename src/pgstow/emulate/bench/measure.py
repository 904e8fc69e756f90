"""Run one fio job on volumes that are up, and see what processor time their server takes."""

import time
from dataclasses import dataclass
from pathlib import Path

from pgstow.emulate.bench import fio
from pgstow.emulate.bench.rows import Figure
from pgstow.emulate.bench.subject import MountedVolumes
from pgstow.emulate.bench.trials import Job
from pgstow.host import cpu, programs
from pgstow.host.background import BackgroundProgram, Ended
from pgstow.model.errors import HostError

# fio's threads are at work so long after it was started, and go on so long after the measuring.
FIO_START_S = 0.4
FIO_END_S = 0.2
_FIO_VOLUME_S = 0.02  # more for each volume: on a machine at its limit all takes longer
_TIMEOUT_S = 60.0
_LOOK_S = 0.001  # reading counters is a matter of microseconds a volume
_LOOKS_MAX = 10
_SECTOR_BYTES = 512  # of block devices' counters, whatever the device's own are


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a job."""

    iops: float
    bytes_per_s: float
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None
    cores: float  # of the serving processes
    fio_iops: float  # by its own count, from start to end

    @property
    def iops_per_cpu_s(self) -> float | None:
        """Operations for each second of the serving processes' time."""
        return self.iops / self.cores if self.cores > 0 else None

    def figure(self, name: Figure) -> float | None:
        """One of the figures by name; None where it was not taken."""
        assert name not in ("seconds", "share"), f"{name} is no figure of a sample"
        value: float | None = getattr(self, name)
        return value


def run(job: Job, mounted: MountedVolumes, *, seed: int) -> Sample:
    """Run it once.

    Rates are what the volumes' block devices counted (as iostat does) between two moments while
    fio is at work: its own count begins and ends with queues that fill and drain, which is a
    whole per cent of two seconds at 3,000 IOPS and 32 in flight.
    """
    start_s = FIO_START_S + len(mounted.files) * _FIO_VOLUME_S
    seconds = start_s + job.seconds + FIO_END_S + len(mounted.files) * _FIO_VOLUME_S
    arguments = fio.arguments(job, mounted.files, seconds=seconds, seed=seed)
    arguments[0] = programs.require("fio")
    with BackgroundProgram(arguments) as program:
        _wait(program, start_s + job.ramp_s)
        before = _look(mounted)
        _wait(program, job.duration_s)
        after = _look(mounted)
        ended = program.wait(_TIMEOUT_S)
        if ended is None:
            raise HostError(
                f"fio did not end within {_TIMEOUT_S:g} s", "check whether the volumes still answer"
            )
    result = _result(ended)
    took_s = after.at_s - before.at_s
    bytes_per_s = (after.bytes - before.bytes) / took_s
    return Sample(
        iops=bytes_per_s / job.block_bytes,
        bytes_per_s=bytes_per_s,
        mean_us=result.mean_us,
        p50_us=result.p50_us,
        p99_us=result.p99_us,
        cores=(after.cpu_s - before.cpu_s) / took_s,
        fio_iops=result.iops,
    )


def _wait(program: BackgroundProgram, seconds: float) -> None:
    ended = program.wait(seconds)
    if ended is not None:
        _result(ended)
        raise HostError("fio ended early", "check whether the volumes still answer")


def _result(ended: Ended) -> fio.FioResult:
    if ended.status != 0 and ended.errors.strip():
        raise HostError(f"fio failed: {ended.errors.strip().splitlines()[-1]}")
    result = fio.parse(ended.output)
    if ended.status != 0:
        raise HostError(f"fio failed with exit status {ended.status}")
    return result


@dataclass(frozen=True, slots=True)
class _Moment:
    at_s: float
    bytes: int
    cpu_s: float


def _look(mounted: MountedVolumes) -> _Moment:
    try:
        cpu_s = sum(cpu.process_cpu_seconds(pid) for pid in mounted.pids)
    except ProcessLookupError as error:
        raise HostError("the server of the volumes has ended", "see its log") from error
    for _ in range(_LOOKS_MAX):
        began_s = time.monotonic()
        transferred = sum(_transferred(Path(device)) for device in mounted.loop_devices)
        ended_s = time.monotonic()
        if ended_s - began_s < _LOOK_S:  # else others had the processor meanwhile
            break
    return _Moment((began_s + ended_s) / 2, transferred, cpu_s)


def _transferred(device: Path) -> int:
    """Bytes read and written so far, by the block layer's counters (Documentation/block/stat)."""
    fields = (Path("/sys/block") / device.name / "stat").read_text().split()
    return (int(fields[2]) + int(fields[6])) * _SECTOR_BYTES
