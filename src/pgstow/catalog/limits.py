"""What one member of a volume can do: IOPS, bytes per second, burst credits. Pure arithmetic."""

from pgstow.catalog.managed import as_striped
from pgstow.catalog.types import VolumeType
from pgstow.model import Burst, Device, Member, Restore, Volume
from pgstow.units import TIB


def _between(value: float, low: float | None, high: float | None) -> float:
    if low is not None:
        value = max(value, low)
    return value if high is None else min(value, high)


def member_iops(volume_type: VolumeType, volume: Volume) -> float | None:
    """Sustained operations per second; None: no limit."""
    return volume_type.rules().iops_of(volume.size_bytes, volume.iops)


def member_throughput(volume_type: VolumeType, volume: Volume) -> float | None:
    """Sustained bytes per second; None: no limit."""
    return volume_type.rules().throughput_of(volume.size_bytes, volume.iops, volume.throughput)


def member_burst(volume_type: VolumeType, volume: Volume) -> Burst | None:
    """The credits of one member; None where it has none or they could add nothing."""
    rule = volume_type.burst_rule
    if rule is None:
        return None
    sustained = member_iops if rule.kind == "iops" else member_throughput
    baseline = sustained(volume_type, volume)
    size_tib = volume.size_bytes / TIB
    rate = rule.rate if rule.rate is not None else (rule.rate_per_tib or 0.0) * size_tib
    rate = _between(rate, None, rule.rate_max)
    if baseline is None or rate <= baseline:
        return None
    capacity = rule.capacity
    if capacity is None:
        capacity = (rule.capacity_per_tib or 0.0) * size_tib
    initial = 1.0 if volume.burst_credits is None else volume.burst_credits
    return Burst(
        rule.kind, capacity=capacity, refill_per_s=baseline, burst_rate=rate, initial=initial
    )


def burst_seconds(volume_type: VolumeType, volume: Volume) -> float | None:
    """How long full credits last at the burst rate; None where the volume has no burst."""
    volume = as_striped(volume_type, volume)
    burst = member_burst(volume_type, volume)
    if burst is None:
        return None
    return burst.capacity / (burst.burst_rate - burst.refill_per_s)


def member_restore(volume_type: VolumeType, volume: Volume) -> Restore | None:
    """How the data come that are in a snapshot; None where they are there from the start."""
    rule = volume_type.snapshot_rule
    if rule is None or not volume.from_snapshot or volume.fast_snapshot_restore:
        return None
    bought = volume.initialization_rate
    return Restore(
        block_bytes=rule.block_bytes,
        us_p50=rule.us_p50,
        us_p99=rule.us_p99,
        bytes_per_second=bought or rule.rate,
        background_bytes_per_second=bought,
    )


def device(volume_type: VolumeType, volume: Volume) -> Device:
    """The volume as the device model takes it; a provider's own stripe is a stripe."""
    volume = as_striped(volume_type, volume)
    return Device(
        name=volume.name,
        size_bytes=volume.total_bytes,
        stripes=volume.stripes,
        chunk_bytes=volume.chunk_bytes,
        member=Member(
            iops=member_iops(volume_type, volume),
            bytes_per_second=member_throughput(volume_type, volume),
            io_unit_bytes=volume_type.io_unit_bytes,
            latency=volume_type.latency_of(volume),
            burst=member_burst(volume_type, volume),
            mechanics=volume_type.mechanics_of(volume),
            restored=member_restore(volume_type, volume),
        ),
        uses_host_cap=not volume_type.is_local,
        has_volatile_cache=volume_type.has_volatile_cache,
    )
