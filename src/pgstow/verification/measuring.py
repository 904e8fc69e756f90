"""A measurement from a profile: speed, latency and the load of each volume of a layout."""

from collections.abc import Mapping, Sequence

import numpy as np

from pgstow.model import (
    Device,
    DeviceTraffic,
    LatencyMs,
    Layout,
    Measurement,
    Performance,
    Price,
    Profile,
    Provenance,
    VolumeLoad,
    Warning,
)

_FEWEST_FOR_P99 = 100  # with fewer, a 99th percentile is just the largest
_FULL = 0.9  # a limit used this much is what holds the volume back


def measurement(
    profile: Profile,
    layout: Layout,
    price: Price,
    *,
    devices: Mapping[str, Device] | None = None,
    volume_prices: Mapping[str, Price] | None = None,
    provenance: Provenance | None = None,
) -> Measurement:
    """What a profile measured of a layout.

    Mean latency is active sessions over throughput (Little's law); commit latency is the probe's.
    ``devices`` and ``volume_prices`` give limits and prices by volume name. ``provenance`` says
    whether the volumes were real or emulated; observed, where it is not given.
    """
    tps = profile.activity.transactions.mean
    mean_ms = profile.activity.active_sessions.mean / tps * 1000 if tps > 0 else None
    return Measurement(
        layout=layout,
        performance=Performance(
            tps=tps,
            latency_ms=LatencyMs(mean_ms, None),
            commit_ms=commit_latency(profile.commit_ms),
            wal_sync_us=profile.wal.sync_us,
            usd_month=price.usd_month,
            provenance=provenance
            or Provenance("observed", "PostgreSQL's statistics", profile.started_at[:10]),
            read_ms=_device_read_ms(profile),
        ),
        seconds=profile.seconds,
        tps_samples=profile.tps_samples,
        volumes=_loads(profile, layout, devices or {}, volume_prices or {}),
        warnings=(*profile.warnings, *_warnings(profile)),
    )


def commit_latency(samples_ms: Sequence[float]) -> LatencyMs:
    """Mean and 99th percentile of a probe's samples; a percentile of few samples is not known."""
    if not samples_ms:
        return LatencyMs(None, None)
    p99 = float(np.percentile(samples_ms, 99)) if len(samples_ms) >= _FEWEST_FOR_P99 else None
    return LatencyMs(float(np.mean(samples_ms)), p99)


def _device_read_ms(profile: Profile) -> LatencyMs | None:
    devices = [d for d in profile.host.devices if d.volume] if profile.host else []
    mean = _mean([(d.reads.mean, d.read_ms) for d in devices])
    return None if mean is None else LatencyMs(mean, None)


def _mean(weighted: Sequence[tuple[float, float | None]]) -> float | None:
    """The mean by weight; None where nothing is known."""
    known = [(weight, value) for weight, value in weighted if value is not None and weight > 0]
    total = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / total if total > 0 else None


def _loads(
    profile: Profile,
    layout: Layout,
    devices: Mapping[str, Device],
    prices: Mapping[str, Price],
) -> tuple[VolumeLoad, ...]:
    """The load of every volume whose block devices were seen."""
    seen: dict[str, list[DeviceTraffic]] = {}
    for traffic in profile.host.devices if profile.host else ():
        if traffic.volume is not None:
            seen.setdefault(traffic.volume, []).append(traffic)
    return tuple(
        _load(volume.name, seen[volume.name], devices.get(volume.name), prices.get(volume.name))
        for volume in layout.volumes
        if volume.name in seen
    )


def _load(
    name: str, traffic: Sequence[DeviceTraffic], device: Device | None, price: Price | None
) -> VolumeLoad:
    rate = sum(one.read_bytes.mean + one.write_bytes.mean for one in traffic)
    unit = device.member.io_unit_bytes if device else None
    weight = device.write_cost_ratio if device else 1.0
    operations = sum(
        _operations(one.reads.mean, one.read_bytes.mean, unit)
        + weight * _operations(one.writes.mean, one.write_bytes.mean, unit)
        for one in traffic
    )
    iops_limit = device.iops if device else None
    bytes_limit = device.bytes_per_second if device else None
    by_iops = operations / iops_limit if iops_limit else 0.0
    by_bytes = rate / bytes_limit if bytes_limit else 0.0
    utilisation = max(by_iops, by_bytes)
    return VolumeLoad(
        volume=name,
        reads=sum(one.reads.mean for one in traffic),
        writes=sum(one.writes.mean for one in traffic),
        bytes_per_second=rate,
        iops_limit=iops_limit,
        bytes_limit=bytes_limit,
        utilisation=utilisation,
        binding="none" if utilisation < _FULL else "iops" if by_iops >= by_bytes else "throughput",
        read_ms=_mean([(one.reads.mean, one.read_ms) for one in traffic]),
        write_ms=_mean([(one.writes.mean, one.write_ms) for one in traffic]),
        usd_month=price.usd_month if price else None,
    )


def _operations(count: float, size: float, unit: int | None) -> float:
    """Operations as the provider counts them, at the least: a large one is several."""
    return count if unit is None else max(count, size / unit)


def _warnings(profile: Profile) -> tuple[Warning, ...]:
    if 0 < len(profile.commit_ms) < _FEWEST_FOR_P99:
        return (
            Warning(
                "few-commit-samples",
                f"{len(profile.commit_ms)} timed commits are too few for a 99th percentile",
                f"observe until there are {_FEWEST_FOR_P99}",
            ),
        )
    return ()
