"""Predict speed and price of any layout from a profile."""

from dataclasses import replace
from typing import Any, Protocol

from pgstow.model import (
    HostCap,
    LatencyMs,
    Layout,
    Performance,
    Prediction,
    Price,
    Profile,
    Provenance,
    VolumeLoad,
    Warning,
)
from pgstow.prediction.simulation import DeviceCatalog, simulate
from pgstow.prediction.workload import Workload, workload_of

_BUSY = 0.9  # a resource used this much is what limits
_CALM = 0.7  # below this a flush hardly waits, so what it takes beyond the device is the host's
_ASSUMED_OVERHEAD_US = 60.0
_MODEL_ERROR = 0.12  # of TPS against emulated volumes, see docs/explanation/prediction.md
_LOGICAL_ERROR = 0.35  # where the page cache's share of the reads could not be seen


class PricedCatalog(DeviceCatalog, Protocol):
    """What prediction needs of the catalog, with prices."""

    def layout_price(self, layout: Layout) -> Price:
        """The price of every volume of a layout."""

    def price(self, volume: Any, host: Any) -> Price:
        """The price of one volume."""


def predict(
    profile: Profile, layout: Layout, catalog: PricedCatalog, *, clients: int | None = None
) -> Prediction:
    """Predict throughput, latency, utilisation and price of ``layout`` under ``profile``'s load.

    The load is closed: as many clients as were seen (or ``clients``), each asking again when it
    was answered and has thought for as long as it was seen to think.
    """
    workload = workload_of(profile)
    overhead_us, residual = _calibrate(profile, workload, catalog)
    if clients is not None:
        workload = replace(workload, clients=clients)
    answer = _simulated(profile, workload, layout, catalog, overhead_us)
    return _prediction(workload, layout, catalog, answer, residual)


def _simulated(
    profile: Profile,
    workload: Workload,
    layout: Layout,
    catalog: PricedCatalog,
    overhead_us: float,
) -> dict[str, Any]:
    relations = {relation.id: relation for relation in profile.server.relations}
    return simulate(workload, layout, relations, catalog, wal_overhead_us=overhead_us)


def _calibrate(profile: Profile, workload: Workload, catalog: PricedCatalog) -> tuple[float, float]:
    """Hold the model against the present layout, where the truth is known.

    Returns the host's own part of a WAL flush in µs and the relative error of the model's TPS.
    """
    overhead_us = _ASSUMED_OVERHEAD_US
    answer = _simulated(profile, workload, profile.layout, catalog, overhead_us)
    wal = next(
        device for device in answer["devices"] if device["name"] == profile.layout.postgres.wal
    )
    observed_us = profile.wal.sync_us
    if observed_us and answer["wal_sync_us"] and _utilisation(wal) < _CALM:
        overhead_us = max(0.0, overhead_us + observed_us - answer["wal_sync_us"])
    observed_tps = workload.transactions_per_second
    return overhead_us, abs(answer["tps"] - observed_tps) / observed_tps


def _prediction(
    workload: Workload,
    layout: Layout,
    catalog: PricedCatalog,
    answer: dict[str, Any],
    residual: float,
) -> Prediction:
    commit = answer["commit_ms"] or {"mean": None, "p99": None}
    latency = answer["latency_ms"]
    tps = answer["tps"]
    volumes = tuple(_volume_load(device, layout, catalog, answer) for device in answer["devices"])
    cap = catalog.host_cap(layout.host)
    host = _host_utilisation(answer, cap)
    error = (_MODEL_ERROR if workload.is_physical else _LOGICAL_ERROR) + min(residual, 0.5)
    return Prediction(
        layout=layout,
        performance=Performance(
            tps=tps,
            latency_ms=LatencyMs(latency["mean"], latency["p99"]),
            commit_ms=LatencyMs(commit["mean"], commit["p99"]),
            wal_sync_us=answer["wal_sync_us"],
            usd_month=catalog.layout_price(layout).usd_month,
            provenance=Provenance("predicted", "closed queueing network, simulated"),
            read_ms=LatencyMs(answer["read_ms"]["mean"], answer["read_ms"]["p99"]),
        ),
        tps_interval=(tps * max(0.0, 1 - error), tps * (1 + error)),
        volumes=volumes,
        host_utilisation=host,
        cpu_utilisation=answer["cpu_utilisation"],
        bottleneck=_bottleneck(volumes, host, answer["cpu_utilisation"]),
        warnings=_warnings(workload, residual),
    )


def _volume_load(
    device: dict[str, Any], layout: Layout, catalog: PricedCatalog, answer: dict[str, Any]
) -> VolumeLoad:
    volume = layout.volume(device["name"])
    limits = catalog.device(volume)
    utilisation = _utilisation(device)
    binding = "none"
    if utilisation >= _BUSY:
        by_iops = (device["iops_utilisation"] or 0.0) >= (device["bytes_utilisation"] or 0.0)
        binding = "iops" if by_iops else "throughput"
    elif utilisation > 0 and device is max(answer["devices"], key=lambda one: one["queue"]):
        binding = "latency"
    return VolumeLoad(
        volume=volume.name,
        reads=device["reads_per_s"],
        writes=device["writes_per_s"],
        bytes_per_second=device["bytes_per_s"],
        iops_limit=limits.iops,
        bytes_limit=limits.bytes_per_second,
        utilisation=utilisation,
        binding=binding,  # type: ignore[arg-type]
        read_ms=device["read_ms"],
        write_ms=device["write_ms"],
        usd_month=catalog.price(volume, layout.host).usd_month,
    )


def _utilisation(device: dict[str, Any]) -> float:
    return max(device["iops_utilisation"] or 0.0, device["bytes_utilisation"] or 0.0)


def _host_utilisation(answer: dict[str, Any], cap: HostCap) -> float | None:
    if cap.iops is None and cap.bytes_per_second is None:
        return None
    return max(answer["host_iops_utilisation"] or 0.0, answer["host_bytes_utilisation"] or 0.0)


def _bottleneck(volumes: tuple[VolumeLoad, ...], host: float | None, cpu: float) -> str:
    """Name what limits: the fullest resource if it is full, else the volume waited for most."""
    busiest = max(volumes, key=lambda volume: volume.utilisation)
    candidates = [(busiest.utilisation, f"volume {busiest.volume}: {busiest.binding}")]
    candidates += [(cpu, "cpu"), (host or 0.0, "host cap")]
    utilisation, name = max(candidates)
    if utilisation >= _BUSY:
        return name
    waited = next((v.volume for v in volumes if v.binding == "latency"), None)
    return f"volume {waited}: latency" if waited else "clients"


def _warnings(workload: Workload, residual: float) -> tuple[Warning, ...]:
    warnings = []
    if not workload.is_physical:
        warnings.append(
            Warning(
                "logical-reads",
                "the host could not be seen, so reads that the page cache served count as device "
                "reads",
                "observe on the server's own machine for a narrower interval",
            )
        )
    if residual > 0.25:
        warnings.append(
            Warning(
                "uncalibrated",
                f"the model misses the present layout's own TPS by {residual:.0%}",
                "tell the present volumes with --layout, or observe for longer",
            )
        )
    return tuple(warnings)
