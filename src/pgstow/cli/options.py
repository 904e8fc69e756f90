"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

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
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

DEFAULT_WORKSPACE = Path("pgstow.db")
