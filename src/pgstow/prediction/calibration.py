"""The model compared with the present layout, where the truth is known.

What the host itself adds to a device's latency (its filesystem, its system calls, the way through
its kernel) is in no catalog: it is what was observed less what the model says.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgstow.catalog.catalog import Catalog
from pgstow.model import Layout, Profile, Relation, RelationId
from pgstow.prediction.simulation import HostOverhead, simulate, totals_by_volume
from pgstow.prediction.workload import Workload

_CALM = 0.8  # below this use of its limits a device's requests hardly wait for each other
_FLUSHING = 0.85  # of the time: from here on the next flush is always waited for
_ROUNDS = 3
_SAMPLES_MIN = 100  # of commits, before their 99th percentile says anything
_NEGLIGIBLE = 0.05  # share of the data writes below which they say nothing of the WAL's waits
_SEED = 7  # not that of predictions, so that the residual is no mere echo


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The data writes that the WAL's writes wait behind, on one layout.

    ``share`` is the part of all data writes that goes to the WAL's volume; ``bytes_per_second``
    how fast that volume takes them at most, None: no limit is known.
    """

    share: float
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class CommitTail:
    """How far the observed 99th percentile of commits is over the simulated, on the present layout.

    Negative: the simulated one was too long.
    """

    excess_ms: float
    neighbours: Neighbours

    def on(self, other: Neighbours) -> float:
        """The excess elsewhere, in ms.

        Data writes come in bursts (checkpoints, the kernel's write-back) and a commit that meets
        one waits until the volume has taken it: longer on a slower volume, not at all on the WAL's
        own. An excess of a WAL that has its own volume already has other reasons, which go with it.
        """
        seen = self.neighbours
        if self.excess_ms <= 0 or seen.share < _NEGLIGIBLE:
            return self.excess_ms
        slower = 1.0
        if seen.bytes_per_second and other.bytes_per_second:
            slower = seen.bytes_per_second / other.bytes_per_second
        return self.excess_ms * other.share / seen.share * slower


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the host adds, and what the model misses on the present layout.

    ``residual`` is the relative error of TPS; ``tail`` the observed over the simulated 99th
    percentile of transactions; None, as of commits: the observed one is not known.
    """

    overhead: HostOverhead
    residual: float
    tail: float | None = None
    commit_tail: CommitTail | None = None


def calibrate(profile: Profile, workload: Workload, catalog: Catalog) -> Calibration:
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
        _commit_tail(profile, answer, neighbours(workload, profile.layout, relations, catalog)),
    )


def neighbours(
    workload: Workload,
    layout: Layout,
    relations: dict[RelationId, Relation],
    catalog: Catalog,
) -> Neighbours:
    """Which data writes go to the WAL's volume."""
    totals = totals_by_volume(workload, layout, relations)
    written = sum(one.writes for one in totals.values())
    wal = layout.volume(layout.postgres.wal)
    device = catalog.device(wal, layout.host)
    limits = [device.bytes_per_second] if device.bytes_per_second else []
    limits += [device.iops / device.write_cost_ratio * workload.write_bytes] if device.iops else []
    share = totals[wal.name].writes / written if written > 0 else 0.0
    return Neighbours(share, min(limits, default=None))


def _p99(samples_ms: Sequence[float]) -> float | None:
    """The 99th percentile; None of too few samples."""
    if len(samples_ms) < _SAMPLES_MIN:
        return None
    return sorted(samples_ms)[math.ceil(0.99 * len(samples_ms)) - 1]


def _commit_tail(
    profile: Profile, answer: Mapping[str, Any], seen: Neighbours
) -> CommitTail | None:
    observed_ms = _p99(profile.commit_ms)
    model_ms = (answer["commit_ms"] or {}).get("p99")
    if observed_ms is None or model_ms is None:
        return None
    return CommitTail(observed_ms - model_ms, seen)


def _ratio(observed_ms: float | None, simulated: Mapping[str, float | None] | None) -> float | None:
    model_ms = simulated["p99"] if simulated else None
    return observed_ms / model_ms if observed_ms and model_ms else None


def utilisation(device: dict[str, Any]) -> float:
    """The utilisation of the limit used most."""
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
    """The time between two flushes where one always follows the other."""
    flushes = profile.wal.syncs.mean
    if not profile.wal.sync_us or flushes <= 0:
        return 0.0
    busy_us = profile.wal.sync_us + (profile.wal.write_us or 0.0)
    share = flushes * busy_us / 1e6
    return max(0.0, 1e6 / flushes - busy_us) if share >= _FLUSHING else 0.0
