"""The experiments of a workspace as a page shows them: each run's trials, and what they say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgstow.cli.bench_validity import warnings_of
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pgstow.catalog import Catalog
    from pgstow.model import Experiment, Trial
    from pgstow.model.statistics import LevelComparison, StudyOutcome
    from pgstow.report import ExperimentSection
    from pgstow.workspace import Workspace as Store

METRICS = ("tps", "p99_ms")  # those that levels are compared by


def sections_of(store: "Store", rules: "Catalog") -> "tuple[ExperimentSection, ...]":
    """Every run that has a trial, oldest first."""
    return tuple(
        section_of(store.runs.experiment(entry.id), store.runs.trials(entry.id), rules, entry.id)
        for entry in store.runs.list()
        if entry.trials
    )


def section_of(
    experiment: "Experiment", trials: "Sequence[Trial]", rules: "Catalog", run: int | None = None
) -> "ExperimentSection":
    """A run with its statistics, compared with its study, if it has one.

    Trials that may not be compared are shown, with a warning.
    """
    from pgstow.model import Warning
    from pgstow.report import ExperimentSection
    from pgstow.studies_file import read_study
    from pgstow.verification import experiments as statistics

    warnings = warnings_of(experiment, trials, rules)
    comparisons: tuple[LevelComparison, ...] = ()
    study: StudyOutcome | None = None
    try:
        comparisons = tuple(
            one
            for metric in METRICS
            for one in statistics.compare(experiment, trials, metric=metric)
        )
        if experiment.study is not None:
            study = statistics.hold_against(read_study(experiment.study), experiment, trials)
    except UserError as error:
        warnings = (Warning("not-compared", error.message, error.remedy), *warnings)
    return ExperimentSection(
        experiment=experiment,
        trials=tuple(trials),
        summaries=statistics.summaries(experiment, trials),
        comparisons=comparisons,
        warnings=warnings,
        run=run,
        study=study,
    )
