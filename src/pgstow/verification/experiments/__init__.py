"""Statistics of an experiment: spread, paired comparison, precision, validity checks. Pure."""

from pgstow.verification.experiments.comparison import compare
from pgstow.verification.experiments.metrics import METRICS, Metric
from pgstow.verification.experiments.precision import needed_blocks
from pgstow.verification.experiments.studies import LIMITED_BY_EMULATOR, hold_against
from pgstow.verification.experiments.summary import summaries
from pgstow.verification.experiments.validity import validity_checks

__all__ = [
    "LIMITED_BY_EMULATOR",
    "METRICS",
    "Metric",
    "compare",
    "hold_against",
    "needed_blocks",
    "summaries",
    "validity_checks",
]
