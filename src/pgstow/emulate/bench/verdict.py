"""What the samples say: medians, spread, deviation from the model, bars met; and who is nearer."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgstow.emulate.bench.rows import Criterion, Row

OURS = "pgstow"
FIO_BIN = 1 / 64  # fio's histogram has 64 bins for each doubling (stat.h, FIO_IO_U_PLAT_BITS)
PEER_CPU_RATIO = 4.0  # at least so many times the peers' IOPS per CPU-second

Nearness = Literal["closer", "even", "farther"]


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

    ``nearness`` says whether pgstow is closer to the model; "even" where the difference is finer
    than what was measured resolves, None where the model says nothing. ``cpu_ratio`` is pgstow's
    IOPS per server CPU-second over the peer's.
    """

    key: str
    peer: str
    deviation: float | None
    peer_deviation: float | None
    nearness: Nearness | None
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


def meets(bar: Criterion, value: float, expected: float | None) -> bool | None:
    """Whether a value keeps to a bar; None: there is none."""
    match bar.kind:
        case "at least":
            return value >= bar.value
        case "at most":
            return value <= bar.value
        case "within":
            assert expected is not None, "a bar around nothing"
            return abs(value - expected) <= bar.value
        case "within share":
            assert expected is not None, "a bar around nothing"
            return abs(value - expected) <= bar.value * expected
        case "none":
            return None


def resolution(row: Row) -> float:
    """The finest difference that a row can tell, as a share of what the model says.

    One request more or less while rates are counted; one of the bins of fio's histogram.
    """
    if row.trial is None or not row.wanted:
        return 0.0
    job = row.trial.job
    match row.figure:
        case "iops":
            return 1 / (row.wanted * job.duration_s)
        case "bytes_per_s":
            return job.block_bytes / (row.wanted * job.duration_s)
        case _:
            return FIO_BIN


def compare(
    row: Row, ours: Measured, peer: Measured, cpu: tuple[float | None, float | None]
) -> Compared:
    """pgstow beside a peer; ``cpu`` are the IOPS per CPU-second of both."""
    nearness: Nearness | None = None
    if ours.deviation is not None and peer.deviation is not None:
        ahead = abs(peer.deviation) - abs(ours.deviation)
        nearness = "closer" if ahead > 0 else "farther"
        if abs(ahead) <= resolution(row):
            nearness = "even"
    mine, other = cpu
    ratio = None if not mine or not other else mine / other
    return Compared(row.key, peer.subject, ours.deviation, peer.deviation, nearness, ratio)
