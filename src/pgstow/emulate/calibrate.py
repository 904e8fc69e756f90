"""Measure what this machine itself adds to a volume's latency, so that it can be taken off.

A read takes the way through the block layer, the loop device, FUSE and a timer on top of the
latency asked for; how long that takes is the machine's, so it is measured at each start.
"""

import mmap
import os
import random
import statistics
import time

from pgstow.emulate.control import Control
from pgstow.emulate.state import StateDirectory
from pgstow.host import loops
from pgstow.model import Device, Latency, Member
from pgstow.units import BLOCK_BYTES, KIB, MIB, Bytes

CALIBRATION_VOLUME = "_calibration"  # a name that no layout's volume can have
LATENCY_US = 1000.0
SAMPLES = 300
MAX_REQUEST_BYTES = 256 * KIB
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


def calibrate(directory: StateDirectory) -> float:
    """Find the compensation in µs and set it on the server, which must have no host cap yet."""
    control = Control(directory.control)
    clean(directory)
    control.set_compensation(0.0)
    control.add(_DEVICE)
    control.set_limits(True, CALIBRATION_VOLUME)
    try:
        loop = loops.attach(
            directory.mountpoint / CALIBRATION_VOLUME, max_request_bytes=MAX_REQUEST_BYTES
        )
        compensation_us = 0.0
        for _ in range(2):  # the second corrects what the first leaves
            excess_us = statistics.median(_read_us(loop.device)) - LATENCY_US
            compensation_us = max(0.0, compensation_us + excess_us)
            control.set_compensation(compensation_us)
    finally:
        clean(directory)
    return compensation_us


def clean(directory: StateDirectory) -> None:
    """Remove a calibration volume, also that of a run that was killed."""
    for loop in loops.of_file(directory.mountpoint / CALIBRATION_VOLUME):
        loops.detach(loop)
    control = Control(directory.control)
    if control.status().find(CALIBRATION_VOLUME) is not None:
        control.remove(CALIBRATION_VOLUME)


def _read_us(device: str) -> list[float]:
    """Times of random reads of one block, one after another, past the page cache."""
    chooser = random.Random(SAMPLES)  # noqa: S311  (offsets, no secrets)
    blocks = _DEVICE.size_bytes // BLOCK_BYTES
    times_us = []
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:  # page-aligned, as direct I/O asks
            for _ in range(SAMPLES):
                offset = chooser.randrange(blocks) * BLOCK_BYTES
                started = time.perf_counter()
                os.preadv(descriptor, [buffer], offset)
                times_us.append((time.perf_counter() - started) * 1e6)
    finally:
        os.close(descriptor)
    return times_us
