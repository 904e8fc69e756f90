"""What a volume can do on a given instance: the least of its own limits and the machine's cap."""

from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from pgstow.model import Burst, Device, HostCap

# "at least 30 minutes at least once every 24 hours" (EC2 user guide, EBS-optimized instances)
HOST_BURST_S = 1800.0

Binding = Literal["volume", "volume burst", "instance baseline", "instance burst", "nothing"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit and what sets it. ``value`` of None: there is none; IOPS or bytes per second."""

    value: float | None
    binds: Binding


@dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """What all members of a volume can do together on an instance.

    ``sustained`` holds without end, ``burst`` for ``burst_seconds`` from full credits (None: it
    is what is sustained). IOPS are counted as the provider counts them, rates in bytes per second.
    """

    sustained_iops: Limit
    sustained_bytes_per_second: Limit
    burst_iops: Limit
    burst_bytes_per_second: Limit
    burst_seconds: float | None


def effective_limits(device: Device, cap: HostCap) -> EffectiveLimits:
    """The least of volume, instance baseline and instance burst, and which of them it is."""
    if not device.uses_host_cap:
        cap = HostCap(None, None)
    burst, members = device.member.burst, device.stripes
    volume_peak = None if burst is None else burst.burst_rate * members
    is_iops = burst is not None and burst.kind == "iops"
    low_iops = _least((device.iops, "volume"), (cap.iops, "instance baseline"))
    low_rate = _least(
        (device.bytes_per_second, "volume"), (cap.bytes_per_second, "instance baseline")
    )
    high_iops = _peak(device.iops, volume_peak if is_iops else None, cap.iops, cap.burst_iops)
    high_rate = _peak(
        device.bytes_per_second,
        volume_peak if burst is not None and not is_iops else None,
        cap.bytes_per_second,
        cap.burst_bytes_per_second,
    )
    seconds = [
        _lasts(peak.value, low.value, burst if is_this else None, members, baseline)
        for peak, low, is_this, baseline in (
            (high_iops, low_iops, is_iops, cap.iops),
            (high_rate, low_rate, burst is not None and not is_iops, cap.bytes_per_second),
        )
    ]
    known = [one for one in seconds if one is not None]
    return EffectiveLimits(low_iops, low_rate, high_iops, high_rate, min(known, default=None))


def _least(*limits: tuple[float | None, Binding]) -> Limit:
    known: list[tuple[float, Binding]] = [(v, binds) for v, binds in limits if v is not None]
    return Limit(*min(known, key=itemgetter(0))) if known else Limit(None, "nothing")


def _peak(
    volume: float | None, volume_burst: float | None, cap: float | None, cap_burst: float | None
) -> Limit:
    own: tuple[float | None, Binding] = (
        (volume, "volume") if volume_burst is None else (volume_burst, "volume burst")
    )
    host: tuple[float | None, Binding] = (
        (cap, "instance baseline") if cap_burst is None else (cap_burst, "instance burst")
    )
    return _least(own, host)


def _lasts(
    peak: float | None,
    sustained: float | None,
    burst: Burst | None,
    members: int,
    host_baseline: float | None,
) -> float | None:
    """How long full credits of volume and instance last at the peak; None: it needs none.

    Less than the volume's own burst rate, where the instance is slower, spends fewer credits.
    """
    if peak is None or sustained is None or peak <= sustained:
        return None
    ends = [HOST_BURST_S] if host_baseline is not None and peak > host_baseline else []
    if burst is not None and peak > burst.refill_per_s * members:
        ends.append(burst.capacity / (peak / members - burst.refill_per_s))
    return min(ends, default=None)
