"""Measure how true emulated volumes are to their model on this machine, and beside what else."""

from pgstow.emulate.bench.plan import BenchPlan, make_plan
from pgstow.emulate.bench.report import BenchReport, RowResult
from pgstow.emulate.bench.rows import Row
from pgstow.emulate.bench.run import (
    DEFAULT_DIRECTORY,
    installed_peers,
    known_peers,
    missing_of,
    run,
)
from pgstow.emulate.bench.verdict import PEER_CPU_RATIO, Compared, Measured, Nearness

__all__ = [
    "DEFAULT_DIRECTORY",
    "PEER_CPU_RATIO",
    "BenchPlan",
    "BenchReport",
    "Compared",
    "Measured",
    "Nearness",
    "Row",
    "RowResult",
    "installed_peers",
    "known_peers",
    "make_plan",
    "missing_of",
    "run",
]
