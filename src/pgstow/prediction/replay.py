"""A recorded trace of I/O on devices in virtual time, and its latencies beside the recorded ones.

Requests arrive when they were recorded, or, in a closed loop, as long after the answers that they
followed as recorded: slower volumes then get fewer, as from clients that wait. Latencies
are from arrival to answer, with the way to the server and back that the recording server made up
for by shortening them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstow import _native
from pgstow.model import UserError


@dataclass(frozen=True, slots=True)
class Exceeded:
    """For how many seconds requests waited before each limit, and before any of them."""

    volume_iops: float
    volume_throughput: float
    host_iops: float
    host_throughput: float
    any: float


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Requests of one kind on one volume."""

    count: int
    mean_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float
    iops: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class KindComparison:
    """Recorded and replayed latencies; differences are shares of the recorded."""

    kind: str  # read, write or flush
    recorded: LatencySummary
    replayed: LatencySummary

    @property
    def mean_difference(self) -> float | None:
        """Of the means; None where what was recorded took no time."""
        return _difference(self.recorded.mean_us, self.replayed.mean_us)

    @property
    def p99_difference(self) -> float | None:
        """Of the 99th percentiles; None where what was recorded took no time."""
        return _difference(self.recorded.p99_us, self.replayed.p99_us)


@dataclass(frozen=True, slots=True)
class VolumeReplay:
    """One volume; ``credits`` are pairs of seconds and percent left, none without credits."""

    name: str
    kinds: tuple[KindComparison, ...]
    exceeded_s: Exceeded
    credits: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole trace; how long it took is from the first arrival to the last answer."""

    requests: int
    recorded_s: float
    replayed_s: float
    volumes: tuple[VolumeReplay, ...]


def replay(
    trace: Path,
    devices: Sequence[Mapping[str, Any]],
    host_cap: Mapping[str, Any] | None,
    *,
    compensation: Mapping[str, float] | None = None,
    seed: int = 1,
    closed_loop: bool = False,
) -> Replay:
    """Run a trace on devices and a host's cap, both as the device model reads them.

    ``compensation`` (``read_us``, ``write_us``) is what the recording server took off latencies.
    ``closed_loop``: no more requests are in flight on a volume than were at once in the recording.
    Credits begin as the devices' bursts say. Raises UserError for a trace or device that cannot be.
    """
    config = {
        "trace": str(trace),
        "devices": list(devices),
        "host": host_cap,
        "seed": seed,
        "compensation": dict(compensation or {"read_us": 0, "write_us": 0}),
        "closed_loop": closed_loop,
    }
    try:
        answer = json.loads(_native.replay(json.dumps(config)))
    except ValueError as error:
        remedy = "replay it on the volumes that it was recorded on"
        raise UserError(str(error), remedy) from None
    return Replay(**(answer | {"volumes": tuple(_volume(one) for one in answer["volumes"])}))


def _volume(answer: dict[str, Any]) -> VolumeReplay:
    return VolumeReplay(
        name=answer["name"],
        kinds=tuple(
            KindComparison(
                one["kind"], LatencySummary(**one["recorded"]), LatencySummary(**one["replayed"])
            )
            for one in answer["kinds"]
        ),
        exceeded_s=Exceeded(**answer["exceeded_s"]),
        credits=tuple((at_s, percent) for at_s, percent in answer["credits"]),
    )


def _difference(recorded: float, replayed: float) -> float | None:
    return None if recorded <= 0 else replayed / recorded - 1
