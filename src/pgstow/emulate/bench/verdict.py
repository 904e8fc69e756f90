"""What the samples say: medians, spread, deviation from the model, bars met; and who is nearer."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pgstow.emulate.bench.rows import Bar, Row

OURS = "pgstow"
PEER_CPU_RATIO = 4.0  # at least so many times the peers' IOPS per CPU-second


@dataclass(frozen=True, slots=True)
class Measured:
    """One row on one subject. ``deviation`` is a share of what the model says; None: it does not.

    ``passed`` is None where there is no bar.
    """

    subject: str
    samples: tuple[float, ...]
    deviation: float | None
    passed: bool | None
    cannot: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        """Of the samples."""
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        """Of the samples."""
        return min(self.samples)

    @property
    def most(self) -> float:
        """Of the samples."""
        return max(self.samples)

    @property
    def spread(self) -> float:
        """From least to most, as a share of the median."""
        return (self.most - self.least) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Compared:
    """pgstow beside a peer on one job.

    ``is_closer`` to the model; None where the model says nothing. ``cpu_ratio`` is pgstow's IOPS
    per server CPU-second over the peer's.
    """

    key: str
    peer: str
    deviation: float | None
    peer_deviation: float | None
    is_closer: bool | None
    cpu_ratio: float | None

    @property
    def has_cpu_ratio(self) -> bool:
        """Whether the ratio is as the bar asks."""
        return self.cpu_ratio is not None and self.cpu_ratio >= PEER_CPU_RATIO


def judge(
    row: Row, subject: str, samples: Sequence[float], cannot: tuple[str, ...] = ()
) -> Measured:
    """Median, deviation and verdict of one row.

    >>> from pgstow.emulate.bench.rows import GP2_BURST
    >>> judged = judge(GP2_BURST, "pgstow", [1990.0, 2010.0, 2030.0])
    >>> judged.deviation, judged.passed
    (0.005, True)
    """
    median = statistics.median(samples)
    deviation = None if not row.wanted else round(median / row.wanted - 1, 9)
    passed = meets(row.bar, median, row.wanted)
    return Measured(subject, tuple(samples), deviation, passed, cannot)


def meets(bar: Bar, value: float, wanted: float | None) -> bool | None:
    """Whether a value keeps to a bar; None: there is none."""
    match bar.kind:
        case "at least":
            return value >= bar.value
        case "at most":
            return value <= bar.value
        case "within":
            assert wanted is not None, "a bar around nothing"
            return abs(value - wanted) <= bar.value
        case "within share":
            assert wanted is not None, "a bar around nothing"
            return abs(value - wanted) <= bar.value * wanted
        case "none":
            return None


def compare(
    row: Row, ours: Measured, peer: Measured, cpu: tuple[float | None, float | None]
) -> Compared:
    """pgstow beside a peer; ``cpu`` are the IOPS per CPU-second of both."""
    is_closer = None
    if ours.deviation is not None and peer.deviation is not None:
        is_closer = abs(ours.deviation) < abs(peer.deviation)
    mine, other = cpu
    ratio = None if not mine or not other else mine / other
    return Compared(row.key, peer.subject, ours.deviation, peer.deviation, is_closer, ratio)
