"""What a server's load leaves of its volumes for moves of relations beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pgstow.model import DeviceTraffic, Profile, RelationId
from pgstow.units import KIB

# A copy or an index build reads with the kernel's read-ahead: one request is used, one is under
# way. read_ahead_kb is 128 where nobody changed it.
# https://www.kernel.org/doc/Documentation/block/queue-sysfs.txt, 2025-09
_REQUESTS = 2
_REQUEST_BYTES = 128 * KIB


@dataclass(frozen=True, slots=True)
class VolumeLimits:
    """What a volume can do, per second; None: not known, or no limit."""

    bytes_per_second: float | None = None
    iops: float | None = None


@dataclass(frozen=True, slots=True)
class Pressure:
    """The load on each volume, and each relation's part of it in requests per second."""

    limits: Mapping[str, VolumeLimits] = field(default_factory=dict)
    traffic: Mapping[str, DeviceTraffic] = field(default_factory=dict)  # by volume
    requests: Mapping[RelationId, float] = field(default_factory=dict)
    relieved: float = 0.0  # the share of the requests whose relations have moved

    @classmethod
    def of(cls, profile: Profile, limits: Mapping[str, VolumeLimits]) -> Self:
        """That of a profile."""
        traffic = {
            device.volume: device
            for device in (profile.host.devices if profile.host else ())
            if device.volume is not None
        }
        requests = {
            demand.relation: demand.random_reads.mean
            + demand.sequential_read_bytes.mean / _REQUEST_BYTES
            + demand.block_writes.mean
            for demand in profile.demands
        }
        return cls(limits, traffic, requests)

    def after(self, moved: RelationId) -> "Pressure":
        """The pressure when a relation has left, and its requests with it."""
        total = sum(self.requests.values())
        share = self.requests.get(moved, 0.0) / total if total > 0 else 0.0
        return replace(self, relieved=min(self.relieved + share, 1.0))

    def left_bytes_per_second(self, volume: str) -> float | None:
        """What a move gets of the volumes beside the load; None: one of them is not known.

        What the load leaves; of a volume at its limit, the share of one reader among all that
        wait: a volume takes the requests in the order they come.
        """
        limits, seen = self.limits.get(volume), self.traffic.get(volume)
        if limits is None or seen is None:
            return None
        stays = 1.0 - self.relieved
        share = _REQUESTS / (_REQUESTS + seen.queue.mean * stays)
        found = []
        if limits.iops is not None:
            used = (seen.reads.mean + seen.writes.mean) * stays / limits.iops
            found.append(limits.iops * max(1.0 - used, share) * _REQUEST_BYTES)
        if limits.bytes_per_second is not None:
            used = (seen.read_bytes.mean + seen.write_bytes.mean) * stays / limits.bytes_per_second
            found.append(limits.bytes_per_second * max(1.0 - used, share))
        return min(found, default=None)
