"""All that reaches the terminal: results on standard output, everything else on standard error.

No other module prints. What is printed has no control characters but line ends and rich's own
styling, whoever wrote the text: a server's relations, a file, a command line.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgstow.cli.names import printable, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from pgstow.model import Warning


def console() -> "Console":
    """The console for results; what it prints is text, never markup."""
    from pgstow.cli.terminal import Terminal

    return Terminal()


def error_console() -> "Console":
    """The console for progress, warnings and errors."""
    from pgstow.cli.terminal import Terminal

    return Terminal(stderr=True)


def print_error(text: str) -> None:
    """One line of the program's own on standard error, whatever is in the text."""
    sys.stderr.write(f"pgstow: {shown(' '.join(text.split()))}\n")


def print_traceback(text: str) -> None:
    """A traceback, for who asked for it."""
    sys.stderr.write(printable(text.rstrip("\n")) + "\n")


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except OSError as error:
        error.filename = "standard output"
        raise


def print_plain(line: str) -> None:
    """One line of results, where nothing is to be laid out and rich need not be read."""
    _write(shown(line) + "\n")


def print_json(value: Any) -> None:
    """Print a value of the model (or plain data) as JSON."""
    from pydantic import TypeAdapter

    plain = TypeAdapter(Any).dump_python(value, mode="json")
    text = json_text(plain)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # another way to write it down would not be JSON
        text = json.dumps(plain, indent=2)
    _write(text + "\n")


def json_text(plain: Any) -> str:
    """Plain data as JSON; characters that could act on a terminal are written as ``\\uXXXX``."""
    text = json.dumps(plain, indent=2, ensure_ascii=False)
    return re.sub(r"[^\n\x20-\x7e]", _in_json, text)


def _in_json(found: "re.Match[str]") -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def write_data(data: str) -> None:
    """Write data for other programs as it is; for a person's terminal without what acts on it."""
    _write(printable(data) if sys.stdout.isatty() else data)


def is_answered() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty()


def confirm(question: str) -> bool:
    """Ask, on standard error; nobody there to answer is the user's mistake."""
    import typer

    from pgstow.model.errors import UserError

    if not is_answered():
        raise UserError("nobody is there to confirm", "give --yes, or look with --dry-run")
    return typer.confirm(shown(question), err=True)


def print_warnings(warnings: "Iterable[Warning]") -> None:
    """Print warnings to standard error, one a line."""
    found = tuple(warnings)
    if not found:
        return  # and rich need not be read
    from rich.text import Text

    target = error_console()
    for warning in found:
        remedy = f"; {warning.remedy}" if warning.remedy else ""
        text = shown(warning.message + remedy)
        target.print(Text.assemble(("warning:", "yellow"), " ", text), soft_wrap=True)


_NEVER_BROKEN = 24  # columns; wider cells may be sentences


def table(columns: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> "Table":
    """A plain table: names at the left, and numbers at the right of all other columns."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    cells = [[shown(cell) for cell in row] for row in rows]
    for number, title in enumerate(columns):
        is_short = all(len(row[number]) <= _NEVER_BROKEN for row in cells)
        made.add_column(
            title,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=not number or is_short,
        )
    for row in cells:
        made.add_row(*row)
    return made


@contextmanager
def progress(title: str) -> "Iterator[Callable[[float, float], None]]":
    """Show a bar with the time left; yields ``update(done, total)``."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    target = error_console()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
