"""The table of an experiment's comparisons, as rows of text."""

from dataclasses import dataclass

from pgstow.model import Treatment
from pgstow.model.statistics import Spread
from pgstow.report import formatting as f
from pgstow.report.experiments import words
from pgstow.report.experiments.section import ExperimentSection


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One treatment: its figures with intervals, and how it compares with its baseline."""

    strata: tuple[str, ...]  # the other factors' levels
    level: str
    trials: int
    tps: str
    tps_interval: str
    ratio: str
    ratio_interval: str
    p99: str
    p99_ratio: str
    usd_month: str
    usd_per_1000_tps: str
    verdict: str
    is_baseline: bool
    is_better: bool | None  # None: there is nothing to judge


def level_rows(section: ExperimentSection) -> tuple[LevelRow, ...]:
    """Every treatment, stratum by stratum, the baseline first."""
    return tuple(
        _level_row(section, treatment)
        for stratum in section.strata
        for treatment in section.treatments_in(stratum)
    )


def other_factors(section: ExperimentSection) -> tuple[str, ...]:
    """The factors that are not compared and have several levels."""
    return tuple(one for one in words.varied(section) if one != section.experiment.compare)


def has_prices(section: ExperimentSection) -> bool:
    """Whether any treatment's price is known."""
    return any(one.usd_month is not None for one in section.summaries)


def _level_row(section: ExperimentSection, treatment: Treatment) -> LevelRow:
    experiment = section.experiment
    summary = section.summary_of(treatment)
    found = section.comparison_of(treatment)
    p99 = section.comparison_of(treatment, "p99_ms")
    level = treatment.level(experiment.compare)
    is_baseline = level == experiment.baseline
    verdict = found.verdict if found is not None and found.ratio is not None else f.UNKNOWN
    tps = summary.tps if summary else None
    return LevelRow(
        strata=tuple(treatment.level(factor) for factor in other_factors(section)),
        level=level,
        trials=summary.trials if summary else 0,
        tps=f.number(tps.mean if tps else None),
        tps_interval=_interval(tps),
        ratio=words.ratio(found.ratio) if found else "",
        ratio_interval=words.span(found.ratio_interval) if found else "",
        p99=_milliseconds(summary.p99_ms if summary else None),
        p99_ratio=words.ratio(p99.ratio) if p99 is not None and p99.ratio is not None else "",
        usd_month=f.usd(summary.usd_month if summary else None),
        usd_per_1000_tps=f.usd(summary.usd_per_1000_tps if summary else None),
        verdict="baseline" if is_baseline else verdict,
        is_baseline=is_baseline,
        is_better={"higher": True, "lower": False}.get(verdict),
    )


def _interval(spread: Spread | None) -> str:
    if spread is None or spread.interval is None:
        return ""
    return f"{f.number(spread.interval.low)} to {f.number(spread.interval.high)}"


def _milliseconds(spread: Spread | None) -> str:
    return f.milliseconds(spread.mean if spread else None)
