"""Charts of figures by level: a row a level, with intervals. Labels are data, never expressions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgstow.report import charts
from pgstow.report import formatting as f
from pgstow.report.charts import Palette

_LABEL_PX = 118
_SHAPES = {"mean": "circle", "p99": "diamond"}


@dataclass(frozen=True, slots=True)
class Row:
    """A level's figure: the label, the name of its colour, the value and its interval."""

    label: str
    colour: str
    value: float
    interval: tuple[float, float] | None = None
    metric: str = ""

    @property
    def ends(self) -> tuple[float, ...]:
        """The value and the interval's ends."""
        return (self.value, *(self.interval or ()))


def bars(rows: Sequence[Row], palette: Palette) -> dict[str, Any]:
    """Values as bars from zero with whiskers, the figure written at the end."""
    import altair as alt

    base = alt.Chart(alt.InlineData(values=_data(rows, palette)))
    furthest = max((end for row in rows for end in row.ends), default=1.0) or 1.0
    y = _rows_axis()
    scale = alt.Scale(domain=[0, furthest * 1.2], nice=False)
    x = alt.X("value:Q", title=None, axis=charts.linear_axis(4), scale=scale)
    size = _row_height(rows)
    marks = base.mark_bar(size=size * 0.62).encode(x=x, y=y, color=_own_colour())
    label = base.mark_text(align="left", dx=6, color=palette["ink"], fontSize=11).encode(
        x="end:Q", y=y, text="text:N"
    )
    layers = [marks, *charts.whiskers(base, y, palette, size * 0.3), label]
    return charts.finished(alt.layer(*layers), palette, height=_height(rows))


def ratios(rows: Sequence[Row], palette: Palette) -> dict[str, Any]:
    """Ratios to the baseline as dots with whiskers about a line at 1."""
    import altair as alt

    low = min([1.0, *(end for row in rows for end in row.ends)])
    high = max([1.0, *(end for row in rows for end in row.ends)])
    if low > 0 and high / low > 3:
        scale, axis = charts.log_axis(low, high)
    else:
        space = max((high - low) * 0.06, 0.005)
        scale = alt.Scale(domain=[low - space, high + space], nice=False)
        axis = alt.Axis(tickCount=4, format="~g", labelOverlap=True)
    data = _data(rows, palette)
    base = alt.Chart(alt.InlineData(values=data))
    y = _rows_axis(grid=True)
    x = alt.X("value:Q", title=None, scale=scale, axis=axis)
    one = alt.Chart(alt.InlineData(values=[{"value": 1.0}])).mark_rule(
        color=palette["muted"], strokeDash=[3, 3]
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=_own_colour())
    layers = [one.encode(x=x), *charts.whiskers(base, y, palette, 8), dots]
    return charts.finished(alt.layer(*layers), palette, height=_height(rows))


def latencies(rows: Sequence[Row], palette: Palette) -> dict[str, Any]:
    """Latencies in ms on a logarithmic axis: each metric has its shape, a line joins a level's."""
    import altair as alt

    data = _data(rows, palette)
    ends = [end for row in rows for end in row.ends if end > 0]
    scale, axis = charts.log_axis(min(ends), max(ends))
    base = alt.Chart(alt.InlineData(values=data))
    y = _rows_axis(grid=True)
    title = "ms, logarithmic"
    x = alt.X("value:Q", title=title, scale=scale, axis=axis)
    span = base.mark_rule(color=palette["muted"], strokeWidth=0.8).encode(
        x=alt.X("min(value):Q", title=title), x2="max(value):Q", y=y
    )
    shape = alt.Shape(
        "metric:N",
        legend=None,
        scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
    )
    dots = base.mark_point(filled=True, size=62, opacity=1).encode(
        x=x, y=y, color=_own_colour(), shape=shape
    )
    layers = [span, *charts.whiskers(base, y, palette, 7), dots]
    return charts.finished(alt.layer(*layers), palette, height=_height(rows))


def labelled(names: Sequence[str], length: int = 22) -> dict[str, str]:
    """A short label for each name; no two names share one, nor is any empty.

    >>> labelled(["a-long-name-indeed-one", "a-long-name-indeed-two"], 11)
    {'a-long-name-indeed-one': 'a-lon…d-one', 'a-long-name-indeed-two': 'a-lon…d-two'}
    """
    found: dict[str, str] = {}
    for name in names:
        label = f.shortened(name, length).strip() or "(empty)"
        number = 1
        while label in found.values():
            number += 1
            label = f"{f.shortened(name, length - 3).strip()} ({number})"
        found[name] = label
    return found


def _data(rows: Sequence[Row], palette: Palette) -> list[dict[str, Any]]:
    indices = {label: index for index, label in enumerate(dict.fromkeys(r.label for r in rows))}
    return [
        {
            "label": row.label,
            "index": indices[row.label],
            "metric": row.metric,
            "colour": palette[row.colour],
            "value": row.value,
            "low": row.interval[0] if row.interval else None,
            "high": row.interval[1] if row.interval else None,
            "end": max(row.ends),
            "text": f.number(row.value),
        }
        for row in rows
        if math.isfinite(row.value)
    ]


def _rows_axis(grid: bool = False) -> Any:
    import altair as alt

    axis = alt.Axis(
        ticks=False,
        domain=False,
        grid=grid,
        minExtent=54,
        labelLimit=_LABEL_PX,
        labelPadding=5,
        labelOverlap=False,
    )
    order = alt.EncodingSortField("index", op="min")
    return alt.Y("label:N", title=None, sort=order, axis=axis)


def _own_colour() -> Any:
    import altair as alt

    return alt.Color("colour:N", scale=None, legend=None)


def _row_height(rows: Sequence[Row]) -> float:
    count = len({row.label for row in rows})
    return 36.0 if count <= 4 else 26.0 if count <= 8 else 19.0


def _height(rows: Sequence[Row]) -> int:
    return round(_row_height(rows) * len({row.label for row in rows}) + 34)
