"""Predict speed and price of any layout from a profile."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pgstow.catalog.catalog import Catalog
from pgstow.model import (
    HostCap,
    HostSpec,
    LatencyMs,
    Layout,
    Performance,
    Prediction,
    Profile,
    Provenance,
    UserError,
    VolumeLoad,
    Warning,
)
from pgstow.prediction import errors
from pgstow.prediction.cache import CacheSize, with_cache
from pgstow.prediction.calibration import calibrate, neighbours, utilisation
from pgstow.prediction.simulation import HostOverhead, OpenLoad, Period, simulate
from pgstow.prediction.workload import Workload, workload_of

_BUSY = 0.9  # a resource used this much is what limits
_LOGICAL_ERROR = 0.35  # where the page cache's share of the reads could not be seen


class Predictor:
    """What is the same for every layout of one profile: its workload, and the host's own part."""

    def __init__(self, profile: Profile, catalog: Catalog) -> None:
        self._profile = profile
        self._catalog = catalog
        self._workload = workload_of(profile)
        self._calibration = calibrate(profile, self._workload, catalog)
        self._relations = {relation.id: relation for relation in profile.server.relations}

    @property
    def workload(self) -> Workload:
        """The demand of one transaction."""
        return self._workload

    def remembering(self, size: CacheSize) -> "Predictor":
        """The same with another memory: each relation's reads as such a cache would leave them."""
        other = copy(self)
        other._workload = with_cache(self._profile, self._workload, size)
        return other

    @property
    def overhead(self) -> HostOverhead:
        """What the observed host adds to its devices' latencies."""
        return self._calibration.overhead

    def predict(
        self,
        layout: Layout,
        *,
        clients: int | None = None,
        period: Period | None = None,
        cache: CacheSize | None = None,
        open_loads: Sequence[OpenLoad] = (),
    ) -> Prediction:
        """As :func:`predict`."""
        workload = on_host(self._workload, self._profile, layout.host, self._catalog)
        if clients is not None:
            workload = replace(workload, clients=clients)
        if cache is not None:
            workload = with_cache(self._profile, workload, cache)
        names = [volume.name for volume in layout.volumes]
        for load in open_loads:
            if load.volume not in names:
                raise UserError(
                    f"there is no volume {load.volume} for a load beside the clients'",
                    f"use {', '.join(names)}",
                )
        answer = simulate(
            workload,
            layout,
            self._relations,
            self._catalog,
            overhead=self._calibration.overhead,
            period=period,
            open_loads=open_loads,
        )
        return self._prediction(workload, layout, answer)

    def _prediction(self, workload: Workload, layout: Layout, answer: dict[str, Any]) -> Prediction:
        calibrated, catalog = self._calibration, self._catalog
        commit = answer["commit_ms"] or {"mean": None, "p99": None}
        latency = answer["latency_ms"]
        tps = answer["tps"]
        spreads = errors.spreads(is_tail_known=calibrated.tail is not None)
        p99_ms = _times(latency["p99"], calibrated.tail or errors.USUAL_TAIL)
        commit_p99_ms = _commit_p99_ms(commit, self._commit_excess_ms(workload, layout))
        volumes = tuple(
            _volume_load(device, layout, catalog, answer) for device in answer["devices"]
        )
        cap = catalog.host_cap(layout.host)
        host = _host_utilisation(answer, cap)
        unseen = 0.0 if workload.is_physical else _LOGICAL_ERROR
        more = unseen + min(calibrated.residual, 0.5)
        return Prediction(
            layout=layout,
            performance=Performance(
                tps=tps,
                latency_ms=LatencyMs(latency["mean"], p99_ms),
                commit_ms=LatencyMs(commit["mean"], commit_p99_ms),
                wal_sync_us=answer["wal_sync_us"],
                usd_month=catalog.layout_price(layout).usd_month,
                provenance=Provenance("predicted", "closed queueing network, simulated"),
                read_ms=LatencyMs(answer["read_ms"]["mean"], answer["read_ms"]["p99"]),
            ),
            tps_interval=spreads.tps.around(tps, more),
            p99_interval=None if p99_ms is None else spreads.p99.around(p99_ms, more),
            volumes=volumes,
            host_utilisation=host,
            cpu_utilisation=answer["cpu_utilisation"],
            bottleneck=_bottleneck(volumes, host, answer["cpu_utilisation"]),
            warnings=_warnings(workload, calibrated.residual),
        )

    def _commit_excess_ms(self, workload: Workload, layout: Layout) -> float:
        tail = self._calibration.commit_tail
        if tail is None:
            return 0.0
        return tail.on(neighbours(workload, layout, self._relations, self._catalog))


def on_host(workload: Workload, profile: Profile, host: HostSpec, catalog: Catalog) -> Workload:
    """The load on another instance: as many cores as that has, each as fast as the present ones."""
    cores = catalog.cores(host) if host.instance != profile.layout.host.instance else None
    return workload if cores is None else replace(workload, cores=cores)


def predict(
    profile: Profile,
    layout: Layout,
    catalog: Catalog,
    *,
    clients: int | None = None,
    period: Period | None = None,
    cache: CacheSize | None = None,
    open_loads: Sequence[OpenLoad] = (),
) -> Prediction:
    """Predict throughput, latency, utilisation and price of ``layout`` under ``profile``'s load.

    The load is closed: as many clients as were seen (or ``clients``), each asking again when it
    was answered and has thought for as long as it was seen to think. ``period`` is of which time
    after the layout's credits were as it says; without one, of as long as it takes to tell.
    ``cache`` asks for another memory size, ``open_loads`` are beside the clients' on the volumes.
    For several layouts of one profile a :class:`Predictor` calibrates once. Raises UserError where
    an open load's volume is not among the layout's.
    """
    found = Predictor(profile, catalog)
    return found.predict(layout, clients=clients, period=period, cache=cache, open_loads=open_loads)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _commit_p99_ms(commit: dict[str, float | None], excess_ms: float) -> float | None:
    """The simulated 99th percentile with its excess, never below the simulated mean."""
    if commit["p99"] is None:
        return None
    return max(commit["p99"] + excess_ms, commit["mean"] or 0.0)


def _volume_load(
    device: dict[str, Any], layout: Layout, catalog: Catalog, answer: dict[str, Any]
) -> VolumeLoad:
    volume = layout.volume(device["name"])
    limits = catalog.device(volume, layout.host)
    used = utilisation(device)
    binding = "none"
    if used >= _BUSY:
        by_iops = (device["iops_utilisation"] or 0.0) >= (device["bytes_utilisation"] or 0.0)
        binding = "iops" if by_iops else "throughput"
    elif used > 0 and device is max(answer["devices"], key=lambda one: one["queue"]):
        binding = "latency"
    return VolumeLoad(
        volume=volume.name,
        reads=device["reads_per_s"],
        writes=device["writes_per_s"],
        bytes_per_second=device["bytes_per_s"],
        iops_limit=limits.iops,
        bytes_limit=limits.bytes_per_second,
        utilisation=used,
        binding=binding,  # type: ignore[arg-type]
        read_ms=device["read_ms"],
        write_ms=device["write_ms"],
        usd_month=catalog.price(volume, layout.host).usd_month,
    )


def _host_utilisation(answer: dict[str, Any], cap: HostCap) -> float | None:
    if cap.iops is None and cap.bytes_per_second is None:
        return None
    return max(answer["host_iops_utilisation"] or 0.0, answer["host_bytes_utilisation"] or 0.0)


def _bottleneck(volumes: tuple[VolumeLoad, ...], host: float | None, cpu: float) -> str:
    """Name the bottleneck: the most used limit if it is full, else the volume waited for most."""
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
