"""fio: a job's arguments, and what its JSON says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstow.emulate.bench.trials import FILE_BYTES, Job
from pgstow.host import programs
from pgstow.model.errors import HostError

_VERSION_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class FioResult:
    """What a job did, from its start to its end. Latencies in µs, from the call to its return.

    They are None where none were taken. With fdatasync they are of a write and its fdatasync:
    the sum of the two means, or medians.
    """

    iops: float
    bytes_per_s: float
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None


def version() -> str:
    """The version that is installed."""
    return programs.run(["fio", "--version"], timeout_s=_VERSION_TIMEOUT_S).strip()


def arguments(job: Job, files: Sequence[Path], *, seconds: float, seed: int) -> list[str]:
    """fio's arguments: the job on each of the files at once, each by a thread of its own."""
    options: dict[str, object] = {
        "output-format": "json",
        "group_reporting": 1,
        "time_based": 1,
        "norandommap": 1,
        "fallocate": "none",
        "randseed": seed,
        "ioengine": job.engine,
        "rw": job.pattern,
        "bs": job.block_bytes,
        "iodepth": job.depth,
        "direct": int(job.direct),
        "size": FILE_BYTES,
        "runtime": f"{seconds * 1000:.0f}ms",
    }
    if job.fdatasync:
        options["fdatasync"] = 1
    if job.read_percent is not None:
        options["rwmixread"] = job.read_percent
    if job.has_latencies:
        options |= {"lat_percentiles": 1, "clat_percentiles": 0, "percentile_list": "50:99"}
    else:
        options["gtod_reduce"] = 1
    shared = ["fio", "--thread", *(f"--{name}={value}" for name, value in options.items())]
    return [
        *shared,
        *(
            part
            for number, file in enumerate(files)
            for part in (f"--name=v{number}", f"--filename={file}")
        ),
    ]


def parse(text: str) -> FioResult:
    """Read fio's JSON, which may come after warnings; HostError where a job failed."""
    start = text.find("{")
    try:
        answer = json.loads(text[start:]) if start >= 0 else None
        if answer is None:
            raise HostError("fio printed no result", "run it by hand to see why")
        (job,) = answer["jobs"]
    except ValueError as error:
        raise HostError(f"fio printed no result that can be read: {error}") from error
    if job["error"]:
        raise HostError(f"fio failed with error {job['error']}: {text[:start].strip()}")
    sides = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
    if not sides:
        raise HostError("fio did nothing", "check whether the volume still answers")
    latencies = _latencies(sides[0]["lat_ns"], _sync(job)) if len(sides) == 1 else _NONE
    return FioResult(
        sum(side["iops"] for side in sides),
        float(sum(side["bw_bytes"] for side in sides)),
        *latencies,
    )


_NONE = (None, None, None)
_Latencies = tuple[float | None, float | None, float | None]


def _sync(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] = job["sync"]["lat_ns"] if "sync" in job else {}
    return found if found.get("N") else None


def _latencies(lat: Mapping[str, Any], sync: Mapping[str, Any] | None) -> _Latencies:
    if "percentile" not in lat:
        return _NONE
    p50, p99 = lat["percentile"]["50.000000"], lat["percentile"]["99.000000"]
    if sync is None:
        return lat["mean"] / 1e3, p50 / 1e3, p99 / 1e3
    both = sync["percentile"]["50.000000"] + p50
    return (lat["mean"] + sync["mean"]) / 1e3, both / 1e3, None
