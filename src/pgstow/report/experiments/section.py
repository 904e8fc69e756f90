"""What a section on an experiment is made of: the design, its trials, and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pgstow.model import Claim, Experiment, Levels, Study, Treatment, Trial, Warning


class MeasuredInterval(Protocol):
    """Where a figure lies, as often as ``confidence`` says."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""

    @property
    def confidence(self) -> float:
        """How often such an interval holds the truth."""


class MeasuredSpread(Protocol):
    """One metric of a treatment over its blocks."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def interval(self) -> MeasuredInterval | None:
        """Of the mean; None: there are too few blocks."""


class MeasuredTreatment(Protocol):
    """What a treatment's trials gave; None: not known."""

    @property
    def levels(self) -> Levels:
        """Which treatment it is."""

    @property
    def trials(self) -> int:
        """How many there are."""

    @property
    def tps(self) -> MeasuredSpread | None:
        """Transactions per second."""

    @property
    def mean_ms(self) -> MeasuredSpread | None:
        """Mean latency."""

    @property
    def p50_ms(self) -> MeasuredSpread | None:
        """Median latency."""

    @property
    def p95_ms(self) -> MeasuredSpread | None:
        """Latency's 95th percentile."""

    @property
    def p99_ms(self) -> MeasuredSpread | None:
        """Latency's 99th percentile."""

    @property
    def usd_month(self) -> float | None:
        """Its price."""

    @property
    def usd_per_1000_tps(self) -> float | None:
        """The monthly price of 1,000 transactions per second."""


class LevelComparison(Protocol):
    """A level against the baseline where all other factors' levels are equal, paired by block."""

    @property
    def metric(self) -> str:
        """``tps``, ``p99_ms``, …"""

    @property
    def stratum(self) -> Levels:
        """The other factors' levels."""

    @property
    def level(self) -> str:
        """The compared factor's level."""

    @property
    def blocks(self) -> tuple[int, ...]:
        """Those that have both."""

    @property
    def ratio(self) -> float | None:
        """Level over baseline."""

    @property
    def ratio_interval(self) -> MeasuredInterval | None:
        """Of the ratio; None: there are too few blocks."""

    @property
    def confidence(self) -> float:
        """Of the interval and the verdict."""

    @property
    def verdict(self) -> str:
        """``higher``, ``lower``, ``no difference demonstrated`` or ``too few blocks``."""


class MeasuredClaim(Protocol):
    """What became of a study's claim."""

    @property
    def claim(self) -> Claim:
        """What the study says."""

    @property
    def blocks(self) -> int:
        """How many have both treatments."""

    @property
    def ratio(self) -> float | None:
        """What was measured."""

    @property
    def ratio_interval(self) -> MeasuredInterval | None:
        """Of what was measured."""

    @property
    def verdict(self) -> str:
        """``holds``, ``does not hold`` or ``not demonstrated``."""

    @property
    def thirds(self) -> tuple[float, float, float] | None:
        """The ratio in the first, second and last third of the trials; None: not known."""

    @property
    def is_published_inside(self) -> bool | None:
        """Whether the interval holds the published ratio; None: not known."""

    @property
    def is_limited(self) -> bool:
        """Whether some of its trials met the emulator's limit."""


class MeasuredStudy(Protocol):
    """A published study, and what was measured of it."""

    @property
    def study(self) -> Study:
        """What was published."""

    @property
    def measured(self) -> Sequence[Sequence[MeasuredSpread | None]]:
        """The published table's rows, and in each its columns."""

    @property
    def claims(self) -> Sequence[MeasuredClaim]:
        """What the study says of one metric or another."""


@dataclass(frozen=True, slots=True)
class ExperimentSection:
    """One run of an experiment with what its trials say.

    ``summaries`` and ``comparisons`` may be of treatments that have no trial yet; the page shows
    what there is. Of the comparisons those of throughput decide the verdict.
    """

    experiment: Experiment
    trials: tuple[Trial, ...]
    summaries: Sequence[MeasuredTreatment] = ()
    comparisons: Sequence[LevelComparison] = ()
    warnings: tuple[Warning, ...] = ()
    run: int | None = None  # its number in the workspace
    study: MeasuredStudy | None = None  # that it is held against

    @property
    def strata(self) -> tuple[Levels, ...]:
        """The combinations of all other factors' levels, in the experiment's order."""
        found = (stratum_of(self.experiment, one.levels) for one in self.experiment.treatments)
        return tuple(dict.fromkeys(found))

    @property
    def wanted(self) -> int:
        """How many trials the design has."""
        return self.experiment.blocks * len(self.experiment.treatments)

    @property
    def began_at(self) -> str | None:
        """When the first trial began; None: none has ended yet."""
        return min((trial.began_at for trial in self.trials), default=None)

    @property
    def all_warnings(self) -> tuple[Warning, ...]:
        """The section's and the trials', each once."""
        given = (warning for trial in self.trials for warning in trial.warnings)
        return tuple(dict.fromkeys((*self.warnings, *given)))

    def treatments_in(self, stratum: Levels) -> tuple[Treatment, ...]:
        """The treatments of a stratum, the baseline first."""
        experiment = self.experiment
        found = [
            one for one in experiment.treatments if stratum_of(experiment, one.levels) == stratum
        ]
        return tuple(
            sorted(found, key=lambda one: one.level(experiment.compare) != experiment.baseline)
        )

    def trials_of(self, treatment: Treatment) -> tuple[Trial, ...]:
        """The treatment's trials, by block."""
        found = (trial for trial in self.trials if trial.levels == treatment.levels)
        return tuple(sorted(found, key=lambda trial: trial.block))

    def summary_of(self, treatment: Treatment) -> MeasuredTreatment | None:
        """The treatment's summary."""
        return next((one for one in self.summaries if one.levels == treatment.levels), None)

    def comparison_of(self, treatment: Treatment, metric: str = "tps") -> LevelComparison | None:
        """The treatment against its baseline; None for the baseline itself."""
        stratum = stratum_of(self.experiment, treatment.levels)
        level = treatment.level(self.experiment.compare)
        return next(
            (
                one
                for one in self.comparisons
                if (one.metric, one.stratum, one.level) == (metric, stratum, level)
            ),
            None,
        )


def stratum_of(experiment: Experiment, levels: Levels) -> Levels:
    """The levels of all factors but the compared one."""
    return tuple(pair for pair in levels if pair[0] != experiment.compare)
