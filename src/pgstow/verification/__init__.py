"""Predicted against measured values, and whether a change had an effect. Pure."""

from pgstow.verification.comparison import (
    compare,
    errors_pct,
    missed_warnings,
)
from pgstow.verification.effect import effect, mean_interval
from pgstow.verification.explained import Written, unexplained_warnings, written
from pgstow.verification.measuring import measurement

__all__ = [
    "Written",
    "compare",
    "effect",
    "errors_pct",
    "mean_interval",
    "measurement",
    "missed_warnings",
    "unexplained_warnings",
    "written",
]
