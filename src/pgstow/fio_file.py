"""Latencies from the JSON that fio writes: ``fio --output-format=json``."""

import json
from pathlib import Path
from typing import Any

from pgstow.model import LayoutError, MeasuredLatency


def read_latency(path: Path) -> MeasuredLatency:
    """Median and 99th percentile of the reads and writes that fio's jobs did.

    Of each direction the job with most requests counts; one without any is left out.
    """
    try:
        jobs = json.loads(path.read_text())["jobs"]
        reads, writes = _percentiles_us(jobs, "read"), _percentiles_us(jobs, "write")
    except OSError as error:
        raise LayoutError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        remedy = "write it with fio --output-format=json, with clat_percentiles on"
        raise LayoutError(f"{path} is not what fio writes as JSON", remedy) from error
    if reads is None and writes is None:
        raise LayoutError(f"{path} has neither reads nor writes", "let fio do some")
    return MeasuredLatency(*(reads or (None, None)), *(writes or (None, None)))


def _percentiles_us(jobs: list[dict[str, Any]], kind: str) -> tuple[float, float] | None:
    done = [job[kind] for job in jobs if job[kind]["total_ios"] > 0]
    if not done:
        return None
    most = max(done, key=lambda one: int(one["total_ios"]))["clat_ns"]["percentile"]
    found = {float(share): float(ns) / 1e3 for share, ns in most.items()}
    return found[50.0], found[99.0]
