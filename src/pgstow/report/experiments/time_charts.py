"""Charts of distributions and of what happened over the trials' seconds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgstow.report import charts
from pgstow.report import formatting as f
from pgstow.report.charts import Palette
from pgstow.report.experiments.colours import LineStyle
from pgstow.report.experiments.curves import Moment

MOST_TOGETHER = 4  # lines with bands in one panel; more are put beside each other
_FEW_LINES = 6  # of a distribution; more need room to be told apart
_ONE_COLUMN, _TWO_COLUMNS = 326, 146  # widths of panels
_SECONDS = "seconds of the trial"


@dataclass(frozen=True, slots=True)
class Look:
    """The colours of a medium, and whether a chart must bring its own legend."""

    palette: Palette
    has_legend: bool = False


def distributions(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    styles: Mapping[str, LineStyle],
    look: Look,
) -> dict[str, Any]:
    """The share of transactions below each latency, a line a level, on a logarithmic axis."""
    import altair as alt

    rows = [
        {"ms": ms, "share": share, "level": level}
        for level, points in curves.items()
        for ms, share in points
    ]
    every = [ms for points in curves.values() for ms, _ in points]
    scale, axis = charts.log_axis(min(every), max(every))
    x = alt.X("ms:Q", title="ms, logarithmic", scale=scale, axis=axis)
    shares = [0, 0.25, 0.5, 0.75, 0.99]
    y = alt.Y(
        "share:Q",
        title=None,
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", values=shares, labelOverlap=False),
    )
    lines = alt.Chart(charts.rows_alone()).mark_line(interpolate="step", strokeWidth=1.7)
    encoded = lines.encode(x=x, y=y, **_lines(curves, styles, look))
    height = charts.HEIGHT if len(curves) <= _FEW_LINES else 1.5 * charts.HEIGHT
    return charts.finished(alt.layer(encoded), look.palette, height=round(height), rows=rows)


def throughput(
    series: Mapping[str, Sequence[Moment]], styles: Mapping[str, LineStyle], look: Look
) -> dict[str, Any]:
    """Median throughput with its band: together while few, else a panel a level.

    In panels of their own, the first level's median is drawn behind each of the others.
    """
    if len(series) > MOST_TOGETHER:
        return _throughput_apart(series, styles, look.palette)
    import altair as alt

    rows = [row for level, moments in series.items() for row in _moments(level, moments)]
    base = alt.Chart(charts.rows_alone())
    x = alt.X("second:Q", title=_SECONDS, axis=charts.linear_axis(5, grid=False))
    y = alt.Y("median:Q", title=None, axis=charts.linear_axis(), scale=alt.Scale(zero=True))
    drawn = _lines(series, styles, look)
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=alt.Y("low:Q", title=None), y2="high:Q", color=drawn["color"]
    )
    return charts.finished(
        alt.layer(band, base.mark_line(strokeWidth=1.7).encode(x=x, y=y, **drawn)),
        look.palette,
        rows=rows,
    )


def _throughput_apart(
    series: Mapping[str, Sequence[Moment]], styles: Mapping[str, LineStyle], palette: Palette
) -> dict[str, Any]:
    import altair as alt

    first = next(iter(series.values()))
    rows = []
    for index, (level, moments) in enumerate(series.items()):
        colour = {"level": level, "index": index, "colour": palette[styles[level].colour]}
        rows += [{**row, **colour} for row in _moments(level, moments)]
        if index:
            rows += [{"second": m.second, "reference": m.median, **colour} for m in first]
    base = alt.Chart()
    x = alt.X("second:Q", title=None, axis=charts.linear_axis(3, grid=False))
    y = alt.Y("median:Q", title=None, axis=charts.linear_axis(3), scale=alt.Scale(zero=True))
    own = alt.Color("colour:N", scale=None, legend=None)
    reference = base.transform_filter("isValid(datum.reference)").mark_line(
        strokeWidth=1.1, color=palette["k0"]
    )
    measured = base.transform_filter("isValid(datum.median)")
    layers = alt.layer(
        reference.encode(x=x, y=alt.Y("reference:Q", title=None)),
        measured.mark_area(opacity=0.22).encode(
            x=x, y=alt.Y("low:Q", title=None), y2="high:Q", color=own
        ),
        measured.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=own),
        data=charts.rows_alone(),
    )
    return _panels(layers, rows, len(series), palette)


def sessions(
    panels: Mapping[str, tuple[float, Sequence[tuple[str, Sequence[float]]]]],
    colours: Mapping[str, str],
    look: Look,
) -> dict[str, Any]:
    """Sessions stacked by event, a panel a level: ``panels`` has the slice's seconds and values."""
    import altair as alt

    events = list(colours)
    rows = [
        {**row, "level": level, "index": index}
        for index, (level, (slice_s, stack)) in enumerate(panels.items())
        for row in _stacked(slice_s, stack)
    ]
    seconds = alt.Scale(nice=False)
    x = alt.X("second:Q", title=None, axis=charts.linear_axis(4, grid=False), scale=seconds)
    y = alt.Y("low:Q", title=None, axis=charts.linear_axis(3))
    scale = alt.Scale(
        domain=[f.visible(event) for event in events],
        range=[look.palette[colours[event]] for event in events],
    )
    layer = (
        alt.Chart()
        .mark_area(interpolate="step-after", stroke=look.palette["paper"], strokeWidth=0.3)
        .encode(
            x=x,
            y=y,
            y2="high:Q",
            color=alt.Color("event:N", scale=scale, legend=_legend() if look.has_legend else None),
        )
    )
    layers = alt.layer(layer, data=charts.rows_alone())
    return _panels(layers, rows, len(panels), look.palette)


def _stacked(
    slice_s: float, stack: Sequence[tuple[str, Sequence[float]]]
) -> Iterator[dict[str, Any]]:
    """Where each event's area begins and ends in each slice.

    Vega would put zeros wherever another panel has a slice and this one none.
    """
    slices = max((len(values) for _, values in stack), default=0)
    below = [0.0] * (slices + 1)
    for event, values in stack:
        for index, value in enumerate([*values, *values[-1:]]):
            low, below[index] = below[index], below[index] + value
            yield {
                "second": round(index * slice_s, 3),
                "low": round(low, 4),
                "high": round(below[index], 4),
                "event": f.visible(event),
            }


def _panels(layers: Any, rows: Sequence[Any], count: int, palette: Palette) -> dict[str, Any]:
    """Small multiples with common axes: below each other while few, else in two columns."""
    import altair as alt

    columns = 1 if count <= MOST_TOGETHER else 2
    width = _ONE_COLUMN if columns == 1 else _TWO_COLUMNS
    height = {1: 190, 2: 92}.get(count, 66) if columns == 1 else 58
    header = alt.Header(title=None, labelLimit=width, labelAnchor="start", labelPadding=3)
    facet = alt.Facet(
        "level:N", sort=alt.EncodingSortField("index", op="min"), header=header, title=None
    )
    made = layers.properties(width=width, height=height).facet(
        facet=facet, columns=columns, spacing=9
    )
    return charts.composed(made, palette, rows=rows)


def _moments(level: str, moments: Sequence[Moment]) -> list[dict[str, Any]]:
    return [
        {"second": m.second, "median": m.median, "low": m.low, "high": m.high, "level": level}
        for m in moments
    ]


def _lines(levels: Mapping[str, object], styles: Mapping[str, LineStyle], look: Look) -> Any:
    """Colour and dashes by level."""
    import altair as alt

    names = list(levels)
    colours = [look.palette[styles[name].colour] for name in names]
    dashes = [list(styles[name].dashes) or [1, 0] for name in names]
    legend = _legend() if look.has_legend else None
    return {
        "color": alt.Color(
            "level:N", scale=alt.Scale(domain=names, range=colours), legend=legend, sort=names
        ),
        "strokeDash": alt.StrokeDash(
            "level:N", scale=alt.Scale(domain=names, range=dashes), legend=legend, sort=names
        ),
    }


def _legend() -> Any:
    import altair as alt

    return alt.Legend(title=None, orient="bottom", columns=3, labelLimit=120)
