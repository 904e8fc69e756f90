"""The sections as the template shows them, and their charts as pictures."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from pgstow.model import Levels, Provenance
from pgstow.model.statistics import StudyOutcome
from pgstow.report import charts
from pgstow.report import formatting as f
from pgstow.report.experiments import colours, study, tables, words
from pgstow.report.experiments.colours import LineStyle
from pgstow.report.experiments.figures import Figure, figures, styles_of
from pgstow.report.experiments.section import ExperimentSection
from pgstow.report.experiments.time_charts import Look

_MOST_OPEN = 3  # strata; of more, those after the first unfold where they are pressed
_PAGE = {name: f"var(--{name})" for name in (*colours.LEVELS, *colours.WAITS_LIGHT)}
ON_PAGE = Look({**charts.PAGE, **_PAGE})
AS_PICTURE = Look({**charts.LIGHT, **colours.LEVELS_LIGHT, **colours.WAITS_LIGHT}, has_legend=True)


def views(sections: Sequence[ExperimentSection]) -> list[dict[str, Any]]:
    """All that the template shows of each experiment, computed."""
    return [_view(index, section) for index, section in enumerate(sections, start=1)]


def pictures(sections: Sequence[ExperimentSection]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and specification of each chart, with a title and legend of its own."""
    for index, section in enumerate(sections, start=1):
        name = f"{index}-{_file_name(section.experiment.name)}"
        for number, stratum in enumerate(section.strata, start=1):
            part = f"{name}-{number}" if len(section.strata) > 1 else name
            for figure in figures(section, stratum, AS_PICTURE):
                # Title and legend are beside the plot, not taken from its room.
                own = {"title": _title(section, stratum, figure), "autosize": {"type": "pad"}}
                yield f"{part}-{figure.name}", {**figure.spec, **own}


def provenances(sections: Sequence[ExperimentSection]) -> list[tuple[str, Provenance]]:
    """Where each experiment's figures are from."""
    return [
        (f"Experiment {section.experiment.name}", _provenance(section))
        for section in sections
        if section.trials
    ]


def sentence(sections: Sequence[ExperimentSection]) -> str:
    """The result of a page that has nothing but experiments."""
    trials = sum(len(section.trials) for section in sections)
    return f"{f.counted(len(sections), 'experiment')}, {f.counted(trials, 'trial')}."


def _view(index: int, section: ExperimentSection) -> dict[str, Any]:
    experiment = section.experiment
    return {
        "id": f"experiment-{index}",
        "short": f.shortened(experiment.title, 40),
        "section": section,
        "design": words.design(section),
        "progress": words.progress(section),
        "builds": words.builds(section),
        "provenance": _provenance(section) if section.trials else None,
        "verdict": words.verdict(section),
        "warnings": section.all_warnings,
        "legend": [(level, _swatch(style)) for level, style in styles_of(section).items()],
        "compare": experiment.compare,
        "strata": [
            _stratum(section, stratum, number) for number, stratum in enumerate(section.strata)
        ],
        "factors": tables.other_factors(section),
        "rows": tables.level_rows(section),
        "has_prices": tables.has_prices(section),
        "study": _study(section.study) if section.study is not None else None,
    }


def _study(outcome: StudyOutcome) -> dict[str, Any]:
    return {
        "published": outcome.study,
        "columns": study.study_columns(outcome),
        "rows": study.study_rows(outcome),
        "claims": study.claim_rows(outcome),
        "sentence": study.sentence(outcome),
    }


def _stratum(section: ExperimentSection, stratum: Levels, number: int) -> dict[str, Any]:
    name = words.stratum_name(section, stratum)
    where = f", {name}" if name else ""
    return {
        "name": name,
        "is_open": len(section.strata) <= _MOST_OPEN or number == 0,
        "figures": [
            {
                "name": figure.name,
                "title": figure.title,
                "note": figure.note,
                "events": list(figure.events.items()),
                "svg": charts.to_svg(
                    figure.spec, f.visible((figure.alt_text or figure.note) + where)
                ),
            }
            for figure in figures(section, stratum, ON_PAGE)
        ],
    }


def _provenance(section: ExperimentSection) -> Provenance:
    emulated = section.experiment.target == "emulated"
    machines = dict.fromkeys(trial.build.machine for trial in section.trials)
    return Provenance(
        "measured on emulated volumes" if emulated else "measured",
        "; ".join(machines),
        (section.began_at or "")[:10],
    )


def _swatch(style: LineStyle) -> Markup:
    """A piece of the level's line, for the legend."""
    dashes = f' stroke-dasharray="{" ".join(map(str, style.dashes))}"' if style.dashes else ""
    return Markup(  # noqa: S704 - ours
        '<svg class="sample" width="26" height="10" aria-hidden="true">'
        f'<line x1="0" x2="26" y1="5" y2="5" stroke="var(--{style.colour})"{dashes}/></svg>'
    )


def _title(section: ExperimentSection, stratum: Levels, figure: Figure) -> dict[str, Any]:
    """A picture's title; text in an array is a line each, and never an expression."""
    where = words.stratum_name(section, stratum)
    under = [section.experiment.title, *([where] if where else [])]
    return {
        "text": [figure.title],
        "subtitle": [f.shortened(line, 60) for line in under],
        "anchor": "start",
        "frame": "group",
        "offset": 12,
    }


def _file_name(text: str) -> str:
    """A name that is safe as a file's."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60] or "experiment"
