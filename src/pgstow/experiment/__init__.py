"""Put a server under a designed load and say what it did."""

from pgstow.experiment.pgbench import RunningWorkload, Sample, run, start
from pgstow.experiment.workload import (
    LatencySummary,
    Script,
    ScriptResult,
    WorkloadResult,
    WorkloadSpec,
)

__all__ = [
    "LatencySummary",
    "RunningWorkload",
    "Sample",
    "Script",
    "ScriptResult",
    "WorkloadResult",
    "WorkloadSpec",
    "run",
    "start",
]
