"""Credits and limits under a synthetic load in virtual time: a day of sixteen volumes in seconds.

The devices are those of the emulator. In steps, all requests of a step pass the same limits at
once; exactly, one after the other. docs/reference/load.md says what each mode leaves out.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pgstow import _native
from pgstow.model import Device, HostCap, LoadPlan, SyntheticLoad, UserError
from pgstow.prediction.replay import Exceeded


@dataclass(frozen=True, slots=True)
class PhaseForecast:
    """One of a volume's phases; ``index`` is its place among the load's phases.

    ``served_iops`` is what left the queues before the limits, ``exceeded_s`` how long requests
    waited before one of them.
    """

    index: int
    start_s: float
    end_s: float
    offered_iops: float
    served_iops: float
    wait_ms_mean: float | None
    wait_ms_max: float
    exceeded_s: float
    credits_percent_end: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """A volume over time, one value an interval; backlog and credits when the interval ended."""

    end_s: tuple[float, ...]
    offered_iops: tuple[float, ...]
    served_iops: tuple[float, ...]
    backlog: tuple[float, ...]
    wait_ms_mean: tuple[float | None, ...]
    exceeded_s: tuple[float, ...]
    credits_percent: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class VolumeForecast:
    """What one volume does. Credits of None: it has none."""

    name: str
    offered: float
    served: float
    bytes_per_request: float
    wait_ms_mean: float | None
    wait_ms_max: float
    latency_ms_mean: float | None
    exceeded_s: Exceeded
    credits_first_empty_s: float | None
    credits_empty_s: float
    phases: tuple[PhaseForecast, ...]
    series: Series


@dataclass(frozen=True, slots=True)
class HostCredits:
    """The host's burst credits when each interval ended; None where it has none."""

    end_s: tuple[float, ...]
    iops_percent: tuple[float | None, ...]
    throughput_percent: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """All volumes of a host."""

    duration_s: float
    volumes: tuple[VolumeForecast, ...]
    host_credits: HostCredits


def forecast(
    plan: LoadPlan,
    devices: Sequence[Device],
    host_cap: HostCap | None,
    *,
    seed: int = 1,
    exact: bool = False,
) -> Forecast:
    """Run a load on devices in virtual time; ``exact`` takes every request by itself.

    Raises UserError where the load names a volume that is not among the devices, or where the
    device model refuses.
    """
    index = {device.name: number for number, device in enumerate(devices)}
    for load in plan.loads:
        if load.volume not in index:
            what = f"the load names volume {load.volume!r}, which is not there"
            raise UserError(what, f"use one of: {', '.join(index)}")
    credits = {load.volume: load.credits for load in plan.loads}
    config = {
        "seed": seed,
        "mode": "requests" if exact else "steps",
        "duration_s": plan.duration_s,
        "step_s": plan.step_s,
        "interval_s": plan.interval_s,
        "host": _host(host_cap, plan.host_credits),
        "devices": [_device(device, credits.get(device.name)) for device in devices],
        "loads": [_load(load, index[load.volume]) for load in plan.loads],
    }
    try:
        answer = json.loads(_native.forecast(json.dumps(config)))
    except ValueError as error:
        raise UserError(str(error), "change the load or the layout") from None
    return Forecast(
        duration_s=plan.duration_s,
        volumes=tuple(_volume(one) for one in answer["volumes"]),
        host_credits=HostCredits(
            **{key: tuple(values) for key, values in answer["host_credits"].items()}
        ),
    )


def _host(cap: HostCap | None, credits: float | None) -> dict[str, Any] | None:
    if cap is None:
        return None
    return asdict(cap) | ({} if credits is None else {"burst_initial": credits})


def _device(device: Device, credits: float | None) -> dict[str, Any]:
    plain = asdict(device)
    burst = plain["member"]["burst"]
    if burst is not None and credits is not None:
        burst["initial"] = credits
    return plain


def _load(load: SyntheticLoad, device: int) -> dict[str, Any]:
    return {
        "device": device,
        "bytes": load.request_bytes,
        "read_share": load.read_share,
        "sequential": load.sequential,
        "arrivals": load.arrivals,
        "phases": [asdict(phase) for phase in load.phases],
    }


def _volume(answer: dict[str, Any]) -> VolumeForecast:
    parts: dict[str, Any] = {
        "exceeded_s": Exceeded(**answer["exceeded_s"]),
        "phases": tuple(PhaseForecast(**phase) for phase in answer["phases"]),
        "series": Series(**{key: tuple(values) for key, values in answer["series"].items()}),
    }
    return VolumeForecast(**(answer | parts))
