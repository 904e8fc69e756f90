"""Options that several commands share, so that they read the same everywhere."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from pgstow.model.errors import UserError


def finite(value: float | None) -> float | None:
    """Check an option's number: nan and inf are the user's mistake."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


Workspace = Annotated[
    Path,
    typer.Option(
        "--workspace", envvar="PGSTOW_WORKSPACE", help="The project file.", show_default=True
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Dsn = Annotated[
    str,
    typer.Option(
        "--dsn",
        "-d",
        help="Connection string, as psql takes it; else PGHOST, PGSERVICE, ~/.pgpass and so on.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="The profile to work from, by number or name (see observe --list); else the latest.",
    ),
]
CommitProbe = Annotated[
    float | None,
    typer.Option(
        "--commit-probe",
        metavar="RATE",
        min=0,
        max=100,  # more would be a load of its own
        callback=finite,
        help="Send RATE test commits per second, 100 at most, and time them (writes WAL).",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_Quantity = TypeVar("_Quantity")
DEFAULT_WORKSPACE = Path("pgstow.db")


def parse_seconds(text: str, option: str) -> float:
    """Read an option's duration; what is none is the user's mistake."""
    from pgstow.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def parse_quantity(text: str, option: str, parse: Callable[[str], _Quantity]) -> _Quantity:
    """Read an option's size or rate; what is none is the user's mistake."""
    try:
        return parse(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error
