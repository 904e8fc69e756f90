"""What measurements say: predicted against measured, and whether a change had an effect. Pure."""

from pgstow.verification.comparison import METRICS, Comparison, compare, errors_pct
from pgstow.verification.effect import Effect, Interval, effect, mean_interval
from pgstow.verification.measuring import measurement

__all__ = [
    "METRICS",
    "Comparison",
    "Effect",
    "Interval",
    "compare",
    "effect",
    "errors_pct",
    "mean_interval",
    "measurement",
]
