"""What measurements say: intervals, effects, predicted against measured, trials compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pgstow.model.experiment import Levels
from pgstow.model.provenance import Provenance
from pgstow.model.result import Performance
from pgstow.model.study import Claim, Study

MISSED_PCT = 25.0  # a prediction further off than this is a miss

EffectVerdict = Literal["higher", "lower", "no difference demonstrated", "too few samples"]
LevelVerdict = Literal["higher", "lower", "no difference demonstrated", "too few blocks"]
ClaimVerdict = Literal["holds", "does not hold", "not demonstrated"]
Method = Literal["t", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    samples: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Effect:
    """After over before. ``low`` and ``high`` of None: too few samples for an interval."""

    ratio: float
    low: float | None
    high: float | None
    confidence: float
    samples_before: int
    samples_after: int
    verdict: EffectVerdict

    @property
    def is_shown(self) -> bool:
        """Whether the data show that after differs from before."""
        return self.verdict in ("higher", "lower")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a layout as it was predicted and as it was measured; None: not known.

    ``error_pct`` is signed, of the measured value: +10 says that the prediction was 10 % too high.
    ``within_interval`` says whether the measured value is in the predicted interval;
    None where none was.
    """

    metric: str  # "tps", "latency_ms.mean", … as in the summary
    unit: str  # "per second", "ms", "µs", "$"
    predicted: float | None
    measured: float | None
    predicted_from: Provenance
    measured_from: Provenance
    interval: tuple[float, float] | None = None

    @property
    def error_pct(self) -> float | None:
        """How far the prediction was off, in percent of what was measured."""
        if self.predicted is None or not self.measured:
            return None
        return (self.predicted - self.measured) / self.measured * 100

    @property
    def within_interval(self) -> bool | None:
        """Whether the measured value is in the predicted interval."""
        if self.interval is None or self.measured is None:
            return None
        low, high = self.interval
        return low <= self.measured <= high

    @property
    def is_missed(self) -> bool:
        """Whether the prediction missed: by more than a quarter, or by its own interval."""
        error = self.error_pct
        return self.within_interval is False or (error is not None and abs(error) > MISSED_PCT)


@dataclass(frozen=True, slots=True)
class Spread:
    """One metric over a treatment's blocks. ``cv`` is the standard deviation over the mean.

    ``interval`` (Student's) says where the mean of this treatment is on this machine at such
    times. It is no means to compare treatments: what blocks have in common is still in it.
    """

    mean: float
    interval: Interval | None  # None: a single trial
    cv: float | None  # None: a single trial, or a mean of 0
    values: tuple[float, ...]  # in the blocks' order


@dataclass(frozen=True, slots=True)
class TreatmentSummary:
    """The results of a treatment's trials, and its price; None: not known."""

    levels: Levels
    trials: int
    tps: Spread | None
    mean_ms: Spread | None
    p50_ms: Spread | None
    p95_ms: Spread | None
    p99_ms: Spread | None
    usd_month: float | None
    usd_per_1000_tps: float | None
    tps_thirds: tuple[float, float, float] | None = None  # of a trial, means over the blocks


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """A level against the baseline in one stratum: where all other factors' levels are equal.

    ``ratio`` is the geometric mean of the blocks' ratios, level over baseline; None where a value
    is not above 0. ``p_value`` belongs to the ratio (where there is none, to the difference);
    ``p_adjusted`` is Holm's, over all comparisons made together, and decides the verdict. The
    intervals are each comparison's own, at ``confidence``.
    """

    metric: str
    unit: str
    stratum: Levels
    factor: str
    level: str
    baseline: str
    blocks: tuple[int, ...]  # complete pairs
    blocks_left_out: tuple[int, ...]  # those that lack one of the two
    baseline_values: tuple[float, ...]  # of each complete pair, in the blocks' order
    level_values: tuple[float, ...]
    ratio: float | None
    ratio_interval: Interval | None
    difference: float | None
    difference_interval: Interval | None
    p_value: float | None
    p_adjusted: float | None
    method: Method | None  # None: too few blocks for an interval
    confidence: float
    verdict: LevelVerdict

    @property
    def is_shown(self) -> bool:
        """Whether the data show that the level differs from the baseline."""
        return self.verdict in ("higher", "lower")

    @property
    def relative_half_width(self) -> float | None:
        """Half the ratio's interval, as a part of the ratio; None: not known."""
        found = self.ratio_interval
        return None if found is None else (found.high - found.low) / 2 / found.mean


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """The verdict on a claim. ``ratio`` is ``over`` over ``under``, paired by block.

    ``thirds`` are the ratios in the first, second and last third of the trials, of throughput
    alone: where they part, the ratio is a mean of regimes. ``is_published_inside`` is the strict
    reading, whether the interval holds the published ratio; None: there is no interval or none was
    published. ``is_limited`` says that some of its trials met the emulator's limit, not the
    volume's.
    """

    claim: Claim
    blocks: int  # that have both
    ratio: float | None
    ratio_interval: Interval | None
    verdict: ClaimVerdict
    thirds: tuple[float, float, float] | None = None
    is_limited: bool = False

    @property
    def is_published_inside(self) -> bool | None:
        """Whether the interval holds the published ratio."""
        found, published = self.ratio_interval, self.claim.ratio
        return None if found is None or published is None else found.low <= published <= found.high


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """``measured`` has the study's rows, and in each its columns; None: not measured."""

    study: Study
    measured: tuple[tuple[Spread | None, ...], ...]
    claims: tuple[ClaimOutcome, ...]


@dataclass(frozen=True, slots=True)
class PerformanceMetric:
    """A figure of a layout's speed or price: its name in the summary, and its title for people."""

    name: str
    unit: str
    title: str
    read: Callable[[Performance], float | None]


_METRICS: tuple[tuple[str, str, str, Callable[[Performance], float | None]], ...] = (
    ("tps", "per second", "Transactions per second", lambda p: p.tps),
    ("latency_ms.mean", "ms", "Transaction latency, mean", lambda p: p.latency_ms.mean),
    ("latency_ms.p99", "ms", "Transaction latency, p99", lambda p: p.latency_ms.p99),
    ("commit_ms.mean", "ms", "Commit latency, mean", lambda p: p.commit_ms.mean),
    ("commit_ms.p99", "ms", "Commit latency, p99", lambda p: p.commit_ms.p99),
    ("read_ms.mean", "ms", "Device read, mean", lambda p: p.read_ms.mean if p.read_ms else None),
    ("read_ms.p99", "ms", "Device read, p99", lambda p: p.read_ms.p99 if p.read_ms else None),
    ("wal_sync_us", "µs", "WAL flush", lambda p: p.wal_sync_us),
    ("dollars_month", "$", "Price per month", lambda p: p.usd_month),
    ("dollars_per_1000_tps", "$", "Price per 1,000 TPS", lambda p: p.usd_per_1000_tps),
)
PERFORMANCE_METRICS = {row[0]: PerformanceMetric(*row) for row in _METRICS}
