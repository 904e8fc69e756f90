"""Workloads of experiments: the makers of their data and the programs that send their load."""

from pathlib import Path

from pgstow.experiment.generator import Generator, Progress, Running
from pgstow.experiment.workloads.go_tpc import GoTpc
from pgstow.experiment.workloads.pgbench import Pgbench
from pgstow.experiment.workloads.pgbench_run import RunningPgbench, Sample, start
from pgstow.experiment.workloads.ready import NAMES
from pgstow.experiment.workloads.scripts import Script, WorkloadSpec
from pgstow.experiment.workloads.sysbench import Sysbench
from pgstow.model.experiment import DataChoice, WorkloadChoice

__all__ = [
    "NAMES",
    "Generator",
    "Progress",
    "Running",
    "RunningPgbench",
    "Sample",
    "Script",
    "WorkloadSpec",
    "generator",
    "start",
]


def generator(
    choice: WorkloadChoice,
    data: DataChoice,
    *,
    bindir: Path | None = None,
    scripts_directory: Path | None = None,
) -> Generator:
    """The load generator of a workload on its data; UserError where there is none.

    ``bindir`` is where pgbench is (None: on PATH), ``scripts_directory`` where scripts' relative
    paths begin (None: the current directory).
    """
    program = choice.name.partition(":")[0]
    if program == GoTpc.program:
        return GoTpc.of(choice, data)
    if program == Sysbench.program:
        return Sysbench.of(choice, data)
    return Pgbench.of(choice, data, bindir=bindir, scripts_directory=scripts_directory)
