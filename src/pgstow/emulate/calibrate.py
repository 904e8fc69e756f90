"""Measure what this machine itself adds to a volume's latency, so that it can be taken off.

A request takes the way through the block layer, the loop device, FUSE and a timer on top of the
latency asked for; how long that takes is the machine's, and a write's is not a read's, so both are
measured at each start.
"""

import mmap
import os
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pgstow.emulate.control import Compensation, Control
from pgstow.emulate.state import StateDirectory
from pgstow.host import loops
from pgstow.model import Device, Latency, Member, Warning
from pgstow.units import BLOCK_BYTES, KIB, MIB, Bytes

_Request = Callable[[int, list[mmap.mmap], int], int]
CALIBRATION_VOLUME = "_calibration"  # a name that no layout's volume can have
LATENCY_US = 500.0
# Reads and writes alternate, so that what else the machine does disturbs both alike.
BATCHES, BATCH = 24, 16
# The middle half of a quiet machine's batches are closer together than this.
QUIET_US = 40.0
MAX_REQUEST_BYTES = 256 * KIB
_CROWD, _CROWD_REQUESTS = 8, 1000
_DEVICE = Device(
    name=CALIBRATION_VOLUME,
    size_bytes=Bytes(64 * MIB),
    stripes=1,
    chunk_bytes=Bytes(64 * KIB),
    member=Member(
        iops=None,
        bytes_per_second=None,
        io_unit_bytes=256 * KIB,
        latency=Latency(LATENCY_US, LATENCY_US, LATENCY_US, LATENCY_US),
    ),
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is to be subtracted, and how far apart batches of the same request were."""

    compensation: Compensation
    spread_us: float
    reachable_iops: float | None = None  # of all volumes together, in small requests

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """That the machine was busy, if it was."""
        if self.spread_us <= QUIET_US:
            return ()
        return (
            Warning(
                "busy-while-calibrating",
                "the machine was busy while its own latency was measured: batches of the same"
                f" request were {self.spread_us:.0f} µs apart",
                "latencies may be off by as much; run pgstow emulate down and up when it is quiet",
            ),
        )


def calibrate(directory: StateDirectory) -> Calibration:
    """Find the compensation and set it on the server, which must have no host cap yet."""
    control = Control(directory.control)
    clean(directory)
    control.set_compensation(Compensation())
    control.add(_DEVICE)
    control.set_limits(True, CALIBRATION_VOLUME)
    try:
        loop = loops.attach(
            directory.mountpoint / CALIBRATION_VOLUME, max_request_bytes=MAX_REQUEST_BYTES
        )
        found = Compensation()
        spread_us = 0.0
        for _ in range(2):  # the second corrects what the first leaves
            reads, writes = _measure(loop.device)
            found = Compensation(
                max(0.0, found.read_us + reads.typical_us - LATENCY_US),
                max(0.0, found.write_us + writes.typical_us - LATENCY_US),
            )
            spread_us = max(reads.spread_us, writes.spread_us)
            control.set_compensation(found)
        reachable_iops = _reachable_iops(control, loop.device)
    finally:
        clean(directory)
    return Calibration(found, spread_us, reachable_iops)


def _reachable_iops(control: Control, device: str) -> float | None:
    """How many small requests a second the server could answer: its thread's time for each.

    It is one thread for all volumes. They are asked for without limits, several at a time.
    """
    control.set_limits(False, CALIBRATION_VOLUME)
    before = control.statistics()
    with ThreadPoolExecutor(_CROWD) as pool:
        list(pool.map(lambda seed: _read_some(device, seed), range(_CROWD)))
    after = control.statistics()
    past, present = before.find(CALIBRATION_VOLUME), after.find(CALIBRATION_VOLUME)
    assert past is not None, "it was added before"
    assert present is not None, "it was added before"
    busy_us = after.busy_us_total - before.busy_us_total
    return (present.reads - past.reads) / busy_us * 1e6 if busy_us > 0 else None


def _read_some(device: str, seed: int) -> None:
    chooser = random.Random(seed)  # noqa: S311  (offsets, no secrets)
    blocks = _DEVICE.size_bytes // BLOCK_BYTES
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:
            for _ in range(_CROWD_REQUESTS):
                os.preadv(descriptor, [buffer], chooser.randrange(blocks) * BLOCK_BYTES)
    finally:
        os.close(descriptor)


def clean(directory: StateDirectory) -> None:
    """Remove a calibration volume, also that of a run that was killed."""
    for loop in loops.of_file(directory.mountpoint / CALIBRATION_VOLUME):
        loops.detach(loop)
    control = Control(directory.control)
    if control.status().find(CALIBRATION_VOLUME) is not None:
        control.remove(CALIBRATION_VOLUME)


@dataclass(frozen=True, slots=True)
class _Batches:
    """The medians of batches of one kind of request, in order of size."""

    medians_us: list[float]

    @property
    def typical_us(self) -> float:
        """The lower quartile: other work on the machine only ever adds."""
        return self.medians_us[len(self.medians_us) // 4]

    @property
    def spread_us(self) -> float:
        """From the lower quartile to the upper."""
        return self.medians_us[len(self.medians_us) * 3 // 4] - self.typical_us


def _measure(device: str) -> tuple[_Batches, _Batches]:
    """How long reads and writes of one block take, one after another, past the page cache."""
    chooser = random.Random(BATCH)  # noqa: S311  (offsets, no secrets)
    blocks = _DEVICE.size_bytes // BLOCK_BYTES
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    medians_us: dict[_Request, list[float]] = {os.preadv: [], os.pwritev: []}
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:  # page-aligned, as direct I/O asks
            for _ in range(BATCHES):
                for request, found in medians_us.items():
                    times_us = []
                    for _ in range(BATCH):
                        offset = chooser.randrange(blocks) * BLOCK_BYTES
                        started = time.perf_counter()
                        request(descriptor, [buffer], offset)
                        times_us.append((time.perf_counter() - started) * 1e6)
                    found.append(statistics.median(times_us))
    finally:
        os.close(descriptor)
    return _Batches(sorted(medians_us[os.preadv])), _Batches(sorted(medians_us[os.pwritev]))
