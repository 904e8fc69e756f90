"""Consoles on which text is only text: every character that could act on a terminal is written out.

Names of relations, texts of servers and of files pass here, whatever command prints them. Rich's
own styling is apart from the text (in a segment's style), so it stays. Nothing is cut: a table that
is wider than the terminal puts its names on lines of their own.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pgstow.cli.names import printable

_UNBOUNDED = 10_000  # columns: as wide as it needs
_PROSE = 12  # columns: narrower, sentences cannot be read
_INDENT = 2


class Terminal(Console):
    """A console without markup, emoji codes or highlighting, and with no control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        self.is_bounded = self.is_terminal or os.environ.get("COLUMNS", "").isdigit()

    def on_broken_pipe(self) -> None:
        """Leave it to the program's end, as when anything else is written to nobody."""
        raise BrokenPipeError

    def print(self, *objects: Any, crop: bool = False, **how: Any) -> None:
        """Print; a line that is too long is left to the terminal to wrap."""
        try:
            super().print(*objects, crop=crop, **how)
        except OSError as error:
            error.filename = error.filename or f"standard {'error' if self.stderr else 'output'}"
            raise

    def render_str(self, text: str, **how: Any) -> Text:
        """A text before it is laid out, so that what is written out has its width."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """All that is printed, at the last: what no one wrote out before."""
        options = options or self.options
        found: Iterable[Segment] = super().render(renderable, options)
        # A table without a header is a progress bar's grid or a few totals.
        if isinstance(renderable, Table) and renderable.show_header and not self._fits(renderable):
            found = self._whole(renderable, options)
        for segment in found:
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def _needed(self, table: Table, *, wraps: bool) -> int:
        """The columns that a table needs, with or without breaking its sentences."""
        options = self.options.update(max_width=_UNBOUNDED)
        total = 0
        for column in table.columns:
            cells = (column.header, *column.cells)
            widest = max(Measurement.get(self, options, cell).maximum for cell in cells)
            widest = max(widest, column.min_width or 0)
            total += widest if column.no_wrap or not wraps else min(widest, _PROSE)
        between = table.padding[1] + table.padding[3] + (1 if table.box else 0)
        return total + between * len(table.columns)

    def _fits(self, table: Table) -> bool:
        return self.is_bounded and self._needed(table, wraps=True) <= self.width

    def _whole(self, table: Table, options: ConsoleOptions) -> Iterator[Segment]:
        """A table too wide for its place: names above their figures; else as wide as it is."""
        figures = _without_names(table)
        room = options.max_width - _INDENT
        lines: list[list[Segment]] = []
        if self.is_bounded and figures.columns and self._needed(figures, wraps=False) <= room:
            rendered = super().render(figures, options.update(width=room))
            lines = list(Segment.split_lines(rendered))
        if len(lines) != table.row_count + 1:
            yield from super().render(table, options.update(width=self._needed(table, wraps=False)))
            return
        names = table.columns[0]
        for name, line in zip((names.header, *names.cells), lines, strict=True):
            yield from super().render(name, options.update(no_wrap=True, overflow="ignore"))
            yield Segment(" " * _INDENT)
            yield from line
            yield Segment.line()
        if table.caption:
            yield from super().render(table.caption, options)


def _without_names(table: Table) -> Table:
    """The columns but for the first, without lines around them."""
    made = Table(box=None, pad_edge=False, header_style=table.header_style)
    for column in table.columns[1:]:
        made.add_column(column.header, justify=column.justify, no_wrap=True)
    rows = zip(*(column.cells for column in table.columns[1:]), strict=True)
    for row in rows if made.columns else ():
        made.add_row(*row)
    return made
