"""One self-contained page from values: no network, no clock; names of relations are hostile."""

from pgstow.report.document import (
    ReportDocument,
    StepOutcome,
    VolumePrice,
)
from pgstow.report.experiments.section import ExperimentSection
from pgstow.report.exports import trials_csv, trials_json, trials_sql
from pgstow.report.page import render, render_pngs

__all__ = [
    "ExperimentSection",
    "ReportDocument",
    "StepOutcome",
    "VolumePrice",
    "render",
    "render_pngs",
    "trials_csv",
    "trials_json",
    "trials_sql",
]
