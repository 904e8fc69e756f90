"""Charts as inline SVG: Vega-Lite through Altair, rendered here, so that the page needs no script.

Colours are the page's own custom properties, so that one SVG serves light and dark.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from markupsafe import Markup, escape

from pgstow.report import lettering
from pgstow.report.formatting import number

WIDTH, HEIGHT = 380, 230
SERIES = ("before", "observed", "predicted", "after")
_MOST_POINTS = 240  # of one line
PAGE = {name: f"var(--{name})" for name in (*SERIES, "ink", "muted", "rule", "paper")}
# For pictures outside a page, where there are no custom properties.
LIGHT = {
    "before": "#7c8794",
    "observed": "#7c8794",
    "predicted": "#8a5cc2",
    "after": "#0b7285",
    "ink": "#1d2329",
    "muted": "#5b6672",
    "rule": "#dfe3e8",
    "paper": "#ffffff",
}
Palette = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with what it shows in words."""

    title: str
    note: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar with its interval."""

    series: str
    value: float
    interval: tuple[float, float] | None = None


def throughput_over_time(
    runs: Mapping[str, tuple[Sequence[float], float]],
    predicted: tuple[float, float] | None,
    palette: Palette = PAGE,
) -> dict[str, Any]:
    """Throughput of each run as a line: ``runs`` has samples and seconds by series."""
    import altair as alt

    rows = [
        {"x": (index + 0.5) * seconds / len(samples), "tps": value, "series": series}
        for series, (samples, seconds) in runs.items()
        for index, value in thinned(samples)
    ]
    x = alt.X("x:Q", title="seconds of the run", axis=linear_axis(ticks=5, grid=False))
    y = alt.Y("tps:Q", title=None, axis=linear_axis(), scale=alt.Scale(zero=True))
    layers = []
    if predicted is not None:
        band = alt.Chart(alt.InlineData(values=[{"low": predicted[0], "high": predicted[1]}]))
        layers.append(
            band.mark_rect(color=palette["predicted"], opacity=0.16).encode(
                y=alt.Y("low:Q", title=None, axis=linear_axis()), y2="high:Q"
            )
        )
    lines = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.6)
    layers.append(lines.encode(x=x, y=y, color=_color(palette)))
    return finished(alt.layer(*layers), palette)


def bars(values: Sequence[Bar], palette: Palette = PAGE) -> dict[str, Any]:
    """Values as horizontal bars from zero, with their intervals as whiskers."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {
            "series": bar.series,
            "value": bar.value,
            "low": bar.interval[0] if bar.interval else None,
            "high": bar.interval[1] if bar.interval else None,
            "text": number(bar.value),
            "end": max(bar.value, bar.interval[1] if bar.interval else 0.0),
        }
        for bar in values
    ]
    base = alt.Chart(alt.InlineData(values=rows))
    furthest = max((row["end"] for row in rows), default=1.0) or 1.0
    y = alt.Y(
        "series:N",
        title=None,
        sort=list(SERIES),
        axis=alt.Axis(ticks=False, domain=False, minExtent=62),
    )
    scale = alt.Scale(domain=[0, furthest * 1.18], nice=False)
    x = alt.X("value:Q", title=None, axis=linear_axis(ticks=5), scale=scale)
    marks = base.mark_bar(size=26).encode(x=x, y=y, color=_color(palette))
    label = base.mark_text(align="left", dx=6, color=palette["ink"], fontSize=12).encode(
        x="end:Q", y=y, text="text:N"
    )
    return finished(alt.layer(marks, *whiskers(base, y, palette, 10), label), palette)


def whiskers(base: Any, y: Any, palette: Palette, size: float) -> list[Any]:
    """The interval of each row from its ``low`` to its ``high``, with a tick at both ends."""
    import altair as alt

    # Without the filter Vega would draw an unknown end at zero.
    known = base.transform_filter("isValid(datum.low)")
    spread = known.mark_rule(strokeWidth=1.3, color=palette["ink"]).encode(
        x=alt.X("low:Q"), x2="high:Q", y=y
    )
    ends = [
        known.mark_tick(thickness=1.3, size=size, color=palette["ink"]).encode(x=f"{end}:Q", y=y)
        for end in ("low", "high")
    ]
    return [spread, *ends]


def latencies(rows: Sequence[tuple[str, str, float]], palette: Palette = PAGE) -> dict[str, Any]:
    """Latencies (metric, series, ms) as dots on a logarithmic axis, a line a metric."""
    import altair as alt

    metrics = list(dict.fromkeys(metric for metric, _, _ in rows))
    known = [row for row in rows if row[2] > 0]
    data = [{"metric": metric, "series": series, "ms": ms} for metric, series, ms in known]
    base = alt.Chart(alt.InlineData(values=data))
    y = alt.Y(
        "metric:N",
        title=None,
        sort=metrics,
        axis=alt.Axis(ticks=False, domain=False, grid=True, minExtent=104),
    )
    values = [ms for _, _, ms in known] or [1.0]
    scale, axis = log_axis(min(values), max(values))
    x = alt.X("ms:Q", title="ms, logarithmic", scale=scale, axis=axis)
    span = base.mark_rule(color=palette["muted"], strokeWidth=1).encode(
        x=alt.X("min(ms):Q", title="ms, logarithmic"), x2="max(ms):Q", y=y
    )
    dots = base.mark_point(filled=True, size=85, opacity=1).encode(
        x=x, y=y, color=_color(palette), shape=_shape()
    )
    return finished(alt.layer(span, dots), palette)


def shares(samples: Mapping[str, Sequence[float]], palette: Palette = PAGE) -> dict[str, Any]:
    """The share of samples at most as long as each value, by series, on a logarithmic axis."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    for series, values in samples.items():
        ordered = sorted(value for value in values if value > 0)
        rows += [
            {"ms": value, "share": (index + 1) / len(ordered), "series": series}
            for index, value in thinned(ordered)
        ]
    found = [row["ms"] for row in rows] or [1.0]
    scale, axis = log_axis(min(found), max(found))
    lines = alt.Chart(alt.InlineData(values=rows)).mark_line(interpolate="step-after")
    y = alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=5))
    x = alt.X("ms:Q", title="ms, logarithmic", scale=scale, axis=axis)
    marked = lines.encode(x=x, y=y, color=_color(palette))
    return finished(alt.layer(marked), palette)


def thinned(values: Sequence[T], most: int = _MOST_POINTS) -> list[tuple[int, T]]:
    """At most so many values with their indices, the first and the last among them."""
    count = len(values)
    if count <= most:
        return list(enumerate(values))
    indices = {round(k * (count - 1) / (most - 1)) for k in range(most)}
    return [(index, values[index]) for index in sorted(indices)]


def to_svg(spec: Mapping[str, Any], title: str) -> Markup:
    """Render a chart for inlining: no XML namespaces, which HTML does not need."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[])
    svg = lettering.held(_TAG.sub(_without_names, svg))
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
    return Markup(svg)  # noqa: S704 - Vega escapes what it writes


_TAG = re.compile(r"<[a-z][^<>]*>")
_NAMES = re.compile(r'\s(?:xmlns(?::\w+)?|id)="[^"]*"')


def _without_names(tag: re.Match[str]) -> str:
    """A tag without namespaces, and without its id: two charts on one page could share it."""
    return _NAMES.sub("", tag[0])


def to_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """Render a chart as a picture; make its spec with the palette LIGHT."""
    import vl_convert

    wanted = {**spec, "background": "#ffffff"}
    return bytes(vl_convert.vegalite_to_png(wanted, scale=scale, allowed_base_urls=[]))


def _color(palette: Palette) -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(SERIES), range=[palette[name] for name in SERIES])
    return alt.Color("series:N", scale=scale, legend=None)


def _shape() -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(SERIES), range=["circle", "circle", "diamond", "square"])
    return alt.Shape("series:N", scale=scale, legend=None)


def linear_axis(ticks: int = 5, grid: bool = True) -> Any:
    """A linear axis in SI prefixes."""
    import altair as alt

    return alt.Axis(tickCount=ticks, grid=grid, labelExpr="format(datum.value, '~s')")


def log_axis(low: float, high: float) -> tuple[Any, Any]:
    """A logarithmic scale with ticks at 1, 2 and 5 of each decade, fewer over many."""
    import math

    import altair as alt

    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    inside = [tick for tick in ticks if low / 1.6 <= tick <= high * 1.6]
    scale = alt.Scale(type="log", domain=[low / 1.4, high * 1.4], nice=False)
    return scale, alt.Axis(values=inside, format="~g", labelOverlap=True)


ROWS = "rows"  # the data set of a chart whose rows are given to ``finished`` or ``composed``


def rows_alone() -> Any:
    """The data of a chart that gets its rows afterwards: Altair would check every value of them."""
    import altair as alt

    return alt.NamedData(ROWS)


def finished(
    chart: Any, palette: Palette, *, height: int = HEIGHT, rows: Sequence[Any] = ()
) -> dict[str, Any]:
    """The specification of a chart of one panel, in the page's look."""
    configured = chart.properties(
        width=WIDTH,
        height=height,
        background="transparent",
        padding=2,
        autosize={"type": "fit", "contains": "padding"},
    )
    return _with(configured.to_dict(), palette, rows)


def composed(chart: Any, palette: Palette, *, rows: Sequence[Any]) -> dict[str, Any]:
    """The specification of a chart of several panels, whose sizes are given."""
    configured = chart.properties(background="transparent", padding=2)
    return _with(configured.to_dict(), palette, rows)


def _with(spec: dict[str, Any], palette: Palette, rows: Sequence[Any]) -> dict[str, Any]:
    datasets = {"datasets": {ROWS: list(rows)}} if rows else {}
    return {**spec, **datasets, "config": _config(palette)}


def _config(palette: Palette) -> dict[str, Any]:
    font = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
    return {
        "font": font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": palette["muted"],
            "titleColor": palette["muted"],
            "titleFontWeight": "normal",
            "gridColor": palette["rule"],
            "domainColor": palette["rule"],
            "tickColor": palette["rule"],
            "labelFontSize": 11,
            "titleFontSize": 11,
            "labelLimit": 160,
        },
        "header": {"labelColor": palette["ink"], "labelFontSize": 11, "labelFontWeight": 600},
        "legend": {"labelColor": palette["ink"], "labelFontSize": 11, "symbolStrokeWidth": 2},
        "title": {"color": palette["ink"], "subtitleColor": palette["muted"], "fontSize": 13},
    }
