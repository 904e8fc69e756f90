"""The model held against the present layout, where the truth is known.

What the host itself adds to a device's latency (its filesystem, its system calls, the way through
its kernel) is no catalog's to know: it is what was observed less what the model says.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgstow.model import Profile
from pgstow.prediction.simulation import DeviceCatalog, HostOverhead, simulate
from pgstow.prediction.workload import Workload

_CALM = 0.8  # below this use of its limits a device's requests hardly wait for each other
_FLUSHING = 0.85  # of the time: from here on the next flush is always waited for
_ROUNDS = 3
_SAMPLES_MIN = 100  # of commits, before their 99th percentile says anything
_SEED = 7  # not that of predictions, so that the residual is no mere echo


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the host adds, and what the model misses on the present layout.

    ``residual`` is the relative error of TPS; the tails are observed over simulated 99th
    percentiles, of transactions and of commits; None: the observed one is not known.
    """

    overhead: HostOverhead
    residual: float
    tail: float | None = None
    commit_tail: float | None = None


def calibrate(profile: Profile, workload: Workload, catalog: DeviceCatalog) -> Calibration:
    """Find the host's own part by the present layout's latencies, where no limit hides it."""
    relations = {relation.id: relation for relation in profile.server.relations}
    overhead = HostOverhead(handover_us=_handover_us(profile))
    for _ in range(_ROUNDS):
        answer = simulate(
            workload, profile.layout, relations, catalog, overhead=overhead, seed=_SEED
        )
        overhead = replace(
            overhead,
            read_us=_read_us(profile, answer, overhead.read_us),
            wal_sync_us=_wal_sync_us(profile, answer, overhead.wal_sync_us),
        )
    answer = simulate(workload, profile.layout, relations, catalog, overhead=overhead, seed=_SEED)
    observed = workload.transactions_per_second
    return Calibration(
        overhead,
        abs(answer["tps"] - observed) / observed,
        _ratio(profile.client_p99_ms, answer["latency_ms"]),
        _ratio(_p99(profile.commit_ms), answer["commit_ms"]),
    )


def _p99(samples_ms: Sequence[float]) -> float | None:
    """The 99th percentile; of fewer samples than it takes to tell None."""
    if len(samples_ms) < _SAMPLES_MIN:
        return None
    return sorted(samples_ms)[math.ceil(0.99 * len(samples_ms)) - 1]


def _ratio(observed_ms: float | None, simulated: Mapping[str, float | None] | None) -> float | None:
    model_ms = simulated["p99"] if simulated else None
    return observed_ms / model_ms if observed_ms and model_ms else None


def utilisation(device: dict[str, Any]) -> float:
    """The use of the limit that is nearest."""
    used: float = max(device["iops_utilisation"] or 0.0, device["bytes_utilisation"] or 0.0)
    return used


def _read_us(profile: Profile, answer: dict[str, Any], known_us: float) -> float:
    """The mean over the devices that were seen and calm, weighted by their reads."""
    if profile.host is None:
        return known_us
    simulated = {device["name"]: device for device in answer["devices"]}
    total = weight = 0.0
    for device in profile.host.devices:
        model = simulated.get(device.volume or "")
        if model is None or device.read_ms is None or model["read_ms"] is None:
            continue
        if utilisation(model) < _CALM:
            total += (device.read_ms - model["read_ms"]) * 1000 * device.reads.mean
            weight += device.reads.mean
    return max(0.0, known_us + total / weight) if weight > 0 else known_us


def _wal_sync_us(profile: Profile, answer: dict[str, Any], known_us: float) -> float:
    name = profile.layout.postgres.wal
    device = next(one for one in answer["devices"] if one["name"] == name)
    if not profile.wal.sync_us or not answer["wal_sync_us"] or utilisation(device) >= _CALM:
        return known_us
    observed_us = profile.wal.sync_us + (profile.wal.write_us or 0.0)
    simulated_us: float = answer["wal_sync_us"]
    return max(0.0, known_us + observed_us - simulated_us)


def _handover_us(profile: Profile) -> float:
    """What passes between two flushes where one always follows the other."""
    flushes = profile.wal.syncs.mean
    if not profile.wal.sync_us or flushes <= 0:
        return 0.0
    busy_us = profile.wal.sync_us + (profile.wal.write_us or 0.0)
    share = flushes * busy_us / 1e6
    return max(0.0, 1e6 / flushes - busy_us) if share >= _FLUSHING else 0.0
