"""The page's part on experiments: what was compared, what it showed, what a study says of it."""

from pgstow.report.experiments.section import (
    ExperimentSection,
    LevelComparison,
    MeasuredClaim,
    MeasuredInterval,
    MeasuredSpread,
    MeasuredStudy,
    MeasuredTreatment,
)

__all__ = [
    "ExperimentSection",
    "LevelComparison",
    "MeasuredClaim",
    "MeasuredInterval",
    "MeasuredSpread",
    "MeasuredStudy",
    "MeasuredTreatment",
]
