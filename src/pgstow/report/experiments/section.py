"""What a section on an experiment is made of: the design, its trials, and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgstow.model import Experiment, Levels, Treatment, Trial, Warning
from pgstow.model.statistics import LevelComparison, StudyOutcome, TreatmentSummary


@dataclass(frozen=True, slots=True)
class ExperimentSection:
    """One run of an experiment with what its trials say.

    ``summaries`` and ``comparisons`` may be of treatments that have no trial yet; the page shows
    what there is. Of the comparisons those of throughput decide the verdict.
    """

    experiment: Experiment
    trials: tuple[Trial, ...]
    summaries: Sequence[TreatmentSummary] = ()
    comparisons: Sequence[LevelComparison] = ()
    warnings: tuple[Warning, ...] = ()
    run: int | None = None  # its number in the workspace
    study: StudyOutcome | None = None  # that it is held against

    @property
    def strata(self) -> tuple[Levels, ...]:
        """The combinations of all other factors' levels, in the experiment's order."""
        found = (stratum_of(self.experiment, one.levels) for one in self.experiment.treatments)
        return tuple(dict.fromkeys(found))

    @property
    def planned(self) -> int:
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

    def summary_of(self, treatment: Treatment) -> TreatmentSummary | None:
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
