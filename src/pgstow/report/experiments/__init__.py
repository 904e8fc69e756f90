"""The page's part on experiments: what was compared, what it showed, what a study says of it."""

from pgstow.report.experiments.section import (
    ClaimOutcome,
    ExperimentSection,
    LevelComparison,
    MeasuredInterval,
    MeasuredSpread,
    MeasuredTreatment,
)

__all__ = [
    "ClaimOutcome",
    "ExperimentSection",
    "LevelComparison",
    "MeasuredInterval",
    "MeasuredSpread",
    "MeasuredTreatment",
]
