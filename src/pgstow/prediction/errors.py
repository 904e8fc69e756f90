"""How far predictions were from measurements; intervals are made from that.

The figures are written here by hand from ``benchmarks/prediction.py --fit``, which gets them from
recorded measurements on emulated volumes, each predicted from another layout's profile.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over predicted: the least and the largest of what was seen, but for 1 in 20."""

    low: float
    high: float

    def around(self, value: float, more: float = 0.0) -> tuple[float, float]:
        """The interval of a prediction; ``more`` is a relative error beyond what was seen there.

        >>> Spread(0.9, 1.2).around(1000.0)
        (900.0, 1200.0)
        """
        return value * self.low * max(0.0, 1 - more), value * self.high * (1 + more)


@dataclass(frozen=True, slots=True)
class Spreads:
    """Those of throughput and of the 99th percentile of transactions' latency."""

    tps: Spread
    p99: Spread


# benchmarks/data/prediction.json of 2026-11-21: two cores, PostgreSQL 18, Linux 6.18
USUAL_TAIL = 1.6  # the p99 that was measured over the simulated one, in the median
_TPS = Spread(0.88, 1.15)
_P99 = Spread(0.63, 1.77)
_P99_BY_USUAL_TAIL = Spread(0.55, 1.95)


def spreads(*, is_tail_known: bool) -> Spreads:
    """The spreads; wider where the p99 of the present layout was not known."""
    return Spreads(_TPS, _P99 if is_tail_known else _P99_BY_USUAL_TAIL)
