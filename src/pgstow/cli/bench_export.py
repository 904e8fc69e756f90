"""``pgstow bench export``: a run's trials for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from pgstow.cli import options
from pgstow.cli.bench_group import commands
from pgstow.cli.bench_show import find_run
from pgstow.model.errors import UserError

_FORMATS = ("csv", "json", "sql")


@commands.command()
def export(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A run's number, or an experiment's name; else the newest run."
        ),
    ] = None,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv, json or sql; else as the file's name ends, or csv."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where it is written; else to the standard output."),
    ] = None,
    workspace: options.Workspace = options.DEFAULT_WORKSPACE,
) -> None:
    """Write a run's trials as CSV (a row each), JSON (all there is) or SQL (for any database).

    Example: pgstow bench export striping --out striping.sql
    """
    from pgstow.cli.output import write_data
    from pgstow.cli.report import write_page
    from pgstow.report import exports
    from pgstow.workspace import Workspace

    requested = form or (out.suffix.removeprefix(".") if out is not None else "") or "csv"
    if requested not in _FORMATS:
        raise UserError(f"--format {requested!r} is not known", f"use {', '.join(_FORMATS)}")
    with Workspace.open(workspace, create=False) as store:
        number = find_run(store, run)
        experiment, trials = store.runs.experiment(number), store.runs.trials(number)
    if requested == "csv":
        text = exports.trials_csv(experiment, trials)
    elif requested == "json":
        text = exports.trials_json(experiment, trials)
    else:
        text = exports.trials_sql(experiment, trials)
    if out is None:
        write_data(text)
    else:
        write_page(out, text)
