"""What is measured: a target for the volumes, and a fio job on them. Pure values."""

from dataclasses import dataclass, replace
from typing import Literal

from pgstow.model import Device, HostCap, Latency, Member
from pgstow.units import KIB, MIB, Bytes

Pattern = Literal["randread", "randwrite", "randrw", "read", "write"]
Engine = Literal["psync", "libaio"]

IO_UNIT_BYTES = 256 * KIB
VOLUME_BYTES = Bytes(512 * MIB)
FILE_BYTES = Bytes(64 * MIB)  # each volume's file, written before anything is measured
NO_LATENCY = Latency(0, 0, 0, 0)
# gp3's, as the catalog has it
GP3_LATENCY = Latency(1000, 1500, 1800, 2700)


@dataclass(frozen=True, slots=True)
class Target:
    """What each of ``volumes`` equal volumes, and the host they share, is to do."""

    name: str
    volumes: int = 1
    iops: float | None = None
    bytes_per_second: float | None = None
    latency: Latency = NO_LATENCY
    host_cap: HostCap | None = None

    def device(self, name: str) -> Device:
        """One of the volumes as the device model takes it."""
        member = Member(self.iops, self.bytes_per_second, IO_UNIT_BYTES, self.latency)
        return Device(name, VOLUME_BYTES, 1, Bytes(64 * KIB), member)


@dataclass(frozen=True, slots=True)
class Job:
    """What fio does to each volume's file. Rates are of ``duration_s`` after ``ramp_s``.

    Before it bursts end that limits allow to an idle volume.
    """

    pattern: Pattern
    block_bytes: int
    depth: int
    engine: Engine = "libaio"
    ramp_s: float = 0.3
    duration_s: float = 1.6
    direct: bool = True
    fdatasync: bool = False  # after each write
    read_percent: int | None = None  # of a mixed pattern
    has_latencies: bool = True  # False: fio takes no times, and has more of the processor

    @property
    def seconds(self) -> float:
        """How long it is to run."""
        return self.ramp_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Trial:
    """One job on one target; ``has_peers``: also on other emulators.

    ``is_recorded``: the emulator records it, for a replay in virtual time.
    """

    key: str
    target: Target
    job: Job
    has_peers: bool = True
    is_recorded: bool = False


# Peers take seconds to start sixteen volumes.
_QUICK_PEERS = ("limit-read-8k-3000", "latency-read-1ms", "speed-read")


def quick(trial: Trial) -> Trial:
    """The same in less time, and with less certainty."""
    job = replace(trial.job, duration_s=min(trial.job.duration_s, 1.0))
    return replace(trial, job=job, has_peers=trial.key in _QUICK_PEERS)


def _random(pattern: Pattern, block_kib: int, depth: int = 32, **more: float) -> Job:
    return Job(pattern, block_kib * KIB, depth, **more)  # type: ignore[arg-type]


_GP3 = Target("gp3", 1, 3000, 125 * MIB, GP3_LATENCY)
_GP3_16000 = Target("gp3-16000", 1, 16000, 1000 * MIB, GP3_LATENCY)
_GP3_500MIB = Target("gp3-500MiB", 1, 3000, 500 * MIB, GP3_LATENCY)
_CAPPED = Target("gp3-capped", 4, 3000, 125 * MIB, GP3_LATENCY, HostCap(8000, 250 * MIB))
_SIXTEEN = Target("gp3-16-volumes", 16, 3000, 125 * MIB, GP3_LATENCY)
_TAIL = Target("gp3-latency", 1, None, None, GP3_LATENCY)
_FREE = Target("no-limits")
_FREE_4 = Target("no-limits-4", 4)


def _constant(ms: float) -> Target:
    us = ms * 1000
    return Target(f"latency-{ms:g}ms", 1, latency=Latency(us, us, us, us))


# nbdkit's rate filter lets two seconds' worth of bytes pass first: a longer ramp where bytes bind.
_BYTES_RAMP_S = 1.5
LIMITS = (
    Trial("limit-read-8k-3000", _GP3, _random("randread", 8)),
    Trial("limit-write-8k-3000", _GP3, _random("randwrite", 8)),
    Trial("limit-mixed-8k-3000", _GP3, Job("randrw", 8 * KIB, 32, read_percent=70)),
    Trial("limit-read-16k-3000", _GP3, _random("randread", 16)),
    Trial("limit-read-8k-16000", _GP3_16000, _random("randread", 8, 64)),
    Trial("limit-write-8k-16000", _GP3_16000, _random("randwrite", 8, 64)),
    Trial("limit-read-256k", _GP3, _random("randread", 256, 16, ramp_s=_BYTES_RAMP_S)),
    Trial("limit-write-256k", _GP3, _random("randwrite", 256, 16, ramp_s=_BYTES_RAMP_S)),
    Trial("limit-seq-read-1m", _GP3_500MIB, Job("read", MIB, 8, ramp_s=_BYTES_RAMP_S)),
    Trial("limit-seq-write-1m", _GP3_500MIB, Job("write", MIB, 8, ramp_s=_BYTES_RAMP_S)),
    Trial("limit-host-iops", _CAPPED, _random("randread", 8, 16)),
    Trial("limit-host-bytes", _CAPPED, _random("randread", 256, 8, ramp_s=_BYTES_RAMP_S)),
)
_LATENCY_SECONDS = 1.0
_LATENCIES_MS = (0.3, 0.5, 1.0, 2.5)


def _one_at_a_time(pattern: Pattern, duration_s: float = _LATENCY_SECONDS, **more: bool) -> Job:
    """One request at a time, as a PostgreSQL backend reads."""
    return Job(pattern, 8 * KIB, 1, "psync", 0.0, duration_s, **more)


LATENCIES = tuple(
    Trial(
        f"latency-{pattern.removeprefix('rand')}-{ms:g}ms", _constant(ms), _one_at_a_time(pattern)
    )
    for ms in _LATENCIES_MS
    for pattern in ("randread", "randwrite")
)
TAILS = (
    Trial("tail-read", _TAIL, _one_at_a_time("randread", 2.0)),
    Trial("tail-write", _TAIL, _one_at_a_time("randwrite", 2.5)),
)
SCALE = (
    Trial("scale-read-16", _SIXTEEN, _random("randread", 8, 16, has_latencies=False)),
    Trial("scale-write-16", _SIXTEEN, _random("randwrite", 8, 16, has_latencies=False)),
)
SPEED = (
    Trial("speed-read", _FREE, _random("randread", 8, has_latencies=False)),
    Trial("speed-write", _FREE, _random("randwrite", 8, has_latencies=False)),
    Trial("speed-read-4", _FREE_4, _random("randread", 8, has_latencies=False), False),
    Trial("speed-write-4", _FREE_4, _random("randwrite", 8, has_latencies=False), False),
)
FLOOR = (
    Trial("floor-read", _FREE, _one_at_a_time("randread"), False),
    # Written as PostgreSQL writes its log: into the page cache, then fdatasync.
    Trial("floor-sync", _FREE, _one_at_a_time("write", direct=False, fdatasync=True), False),
)
REPLAY = (
    # Half of the time before the IOPS limit, half of it latency.
    Trial("replay", _GP3, Job("randrw", 8 * KIB, 8, read_percent=70), False, True),
)
TRIALS = (*LIMITS, *LATENCIES, *TAILS, *SCALE, *SPEED, *FLOOR, *REPLAY)
