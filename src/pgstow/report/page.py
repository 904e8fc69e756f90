"""The page: a document's parts, drawn and tabled, put into the template."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import jinja2
from markupsafe import Markup

from pgstow.model import Layout, Measurement, Prediction, Provenance, VolumeLoad
from pgstow.report import charts, figures, headline, tables
from pgstow.report import formatting as f
from pgstow.report.contents import Item, contents
from pgstow.report.diagram import Drawing, draw
from pgstow.report.document import ReportDocument
from pgstow.report.experiments import view
from pgstow.report.heat import Scale

_BRIEF = 90  # characters
_WIDE, _NARROW = 580.0, 340.0  # one drawing for wide pages, one for telephones


def render(document: ReportDocument) -> str:
    """One HTML file that loads nothing: styles, script and drawings are in it.

    A content security policy lets no script run but the page's own, whatever a name contains.
    """
    script, style = _asset("report.js"), _asset("report.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html")
        .render(
            document=document,
            script=Markup(script),  # noqa: S704 - ours
            style=Markup(style),  # noqa: S704 - ours
            policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
            **_parts(document),
        )
    )


def render_pngs(document: ReportDocument) -> dict[str, bytes]:
    """The page's charts as pictures, by name, for a terminal or a README."""
    specs = (*figures.specs(document, charts.LIGHT), *view.pictures(document.experiments))
    return {name: charts.to_png(spec) for name, spec in specs}


def _asset(name: str) -> str:
    return resources.files("pgstow").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    written: dict[str, Callable[..., str]] = {
        "number": f.number,
        "size": f.size,
        "usd": f.usd,
        "percent": f.percent,
        "duration": f.duration,
        "moment": f.moment,
        "brief": _brief,
        "whole": _whole,
    }
    environment.filters.update(written)
    return environment


def _brief(text: str) -> str:
    """The beginning of a warning, for one line."""
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF].rsplit(' ', 1)[0]} …"


def _whole(text: str) -> Markup:
    """A file's text with its line ends; nothing else in it hides."""
    return Markup("\n").join(f.visible(line) for line in text.splitlines())


def _shown(value: object) -> object:
    """What the template prints: text on one line in which nothing hides; then it is escaped."""
    return value if isinstance(value, Markup) else f.visible(str(value))


def _parts(document: ReportDocument) -> dict[str, Any]:
    """All that the template shows, computed."""
    before, after = document.layout_before, document.layout_after
    profile = document.profile
    stored = {layout: contents(layout, profile) for layout in (before, after) if layout is not None}
    scale = Scale.of(
        item.density or 0.0 for items in stored.values() for one in items.values() for item in one
    )
    relations = tables.relation_rows(profile, before, after, scale) if profile else ()
    origins = tables.origins(document)
    return {
        "cards": headline.cards(document),
        "sentence": headline.sentence(document),
        "drawings": _drawings(document, stored, scale),
        "heats": _legend(scale),
        "charts": figures.drawn(document),
        "series": tuple(figures.series(document)),
        "comparisons": tables.comparison_rows(document.comparisons),
        "volume_rows": _volume_rows(document),
        "held_back": tables.limits_text(document.promised) if document.promised else "",
        "prices": _prices(document),
        "reasons": tables.reason_rows(document.plan.reasons) if document.plan else (),
        "steps": tables.step_rows(document.steps),
        "relations": relations[: tables.MOST_RELATIONS],
        "hidden": relations[tables.MOST_RELATIONS :],
        "origins": origins,
        "origin_numbers": _numbers(origins),
        "warnings": _warnings(document),
        "experiments": view.views(document.experiments),
    }


def _numbers(origins: Sequence[tuple[str, Provenance]]) -> dict[Provenance, int]:
    """The row of each provenance in the table at the page's end, for tags to point at."""
    found: dict[Provenance, int] = {}
    for number, (_, provenance) in enumerate(origins, start=1):
        found.setdefault(provenance, number)
    return found


def _volume_rows(document: ReportDocument) -> tuple[tables.VolumeRow, ...]:
    """The volumes' loads as predicted, beside those of the same layout as measured."""
    measured = document.after or (None if document.promised else document.before)
    if measured is None or document.expected is None or not document.comparisons:
        return ()
    return tables.volume_rows(document.expected.volumes, measured.volumes)


def _drawings(
    document: ReportDocument, stored: dict[Layout, dict[str, tuple[Item, ...]]], scale: Scale
) -> list[dict[str, Any]]:
    """Each layout in both widths; bytes of a pixel and heat are the same in all."""
    in_all = max(
        (sum(i.size_bytes for items in one.values() for i in items) for one in stored.values()),
        default=0.0,
    )
    present = document.before or (document.plan.present if document.plan else None)
    wanted = document.after or document.promised
    found = []
    for layout, name, shown, prices in (
        (document.layout_before, "Before", present, document.prices_before),
        (document.layout_after, _made(document), wanted, document.prices_after),
    ):
        if layout is None:
            continue
        title = name if document.layout_after else "Present layout"
        loads: dict[str, VolumeLoad] = {v.volume: v for v in shown.volumes} if shown else {}
        drawing = Drawing(
            layout=layout,
            items=stored[layout],
            loads=loads,
            prices={one.volume: one.price.usd_month for one in prices},
            scale=scale,
            bytes_in_all=in_all,
            title=title,
        )
        found.append(
            {
                "title": title,
                "provenance": shown.performance.provenance if shown else None,
                "speed": _speed(shown),
                "total": tables.price_total(prices) if prices else None,
                "wide": draw(drawing, _WIDE),
                "narrow": draw(drawing, _NARROW),
            }
        )
    return found


def _speed(shown: Measurement | Prediction | None) -> str:
    """At which throughput a drawing's loads are."""
    return "" if shown is None else f"loads at {f.number(shown.performance.tps)} TPS"


def _legend(scale: Scale) -> list[tuple[int, str]]:
    """Class and range of each heat."""
    if not scale.bounds:
        return []
    bounds = [f.number(bound) for bound in scale.bounds]
    ranges = [f"< {bounds[0]}"]
    ranges += [f"{low} – {high}" for low, high in pairwise(bounds)]
    ranges += [f"≥ {bounds[-1]}"]
    return [(0, "none"), *enumerate(ranges, start=1)]


def _made(document: ReportDocument) -> str:
    """What the other layout is called."""
    if document.after is not None:
        return "After"
    return "Applied, not measured yet" if document.applied is not None else "Planned"


def _prices(document: ReportDocument) -> list[dict[str, Any]]:
    made = _made(document)
    found = []
    for title, layout, prices in (
        (
            "Before" if document.layout_after else "Present",
            document.layout_before,
            document.prices_before,
        ),
        (made, document.layout_after, document.prices_after),
    ):
        if layout is not None and prices:
            rows = tables.price_rows(layout, prices)
            found.append({"title": title, "rows": rows, "total": tables.price_total(prices)})
    return found


def _warnings(document: ReportDocument) -> tuple[Any, ...]:
    """Every warning once, wherever it was given."""
    sources = [document.warnings]
    parts = (document.profile, document.before, document.after, document.expected, document.plan)
    sources += [part.warnings for part in parts if part is not None]
    return tuple(dict.fromkeys(warning for source in sources for warning in source))
