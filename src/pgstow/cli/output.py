"""What reaches the terminal: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from pgstow.model import Warning


def console() -> "Console":
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False)


def error_console() -> "Console":
    """The console for progress, warnings and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a value of the model (or plain data) as JSON."""
    from pydantic import TypeAdapter

    plain = TypeAdapter(Any).dump_python(value, mode="json")
    json.dump(plain, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_warnings(warnings: "Iterable[Warning]") -> None:
    """Print warnings to standard error, one a line."""
    from rich.markup import escape

    target = error_console()
    for warning in warnings:
        remedy = f"; {warning.remedy}" if warning.remedy else ""
        target.print(f"[yellow]warning:[/] {escape(warning.message + remedy)}", soft_wrap=True)


def table(columns: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> "Table":
    """A plain table: names at the left, and numbers at the right of all other columns."""
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for number, title in enumerate(columns):
        made.add_column(title, justify="right" if number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


@contextmanager
def progress(title: str) -> "Iterator[Callable[[float, float], None]]":
    """Show a bar with the time left; yields ``update(done, total)``."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    target = error_console()
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
