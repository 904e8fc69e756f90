"""``pgstow bench list``: what experiments there are, and what was run of them."""

from typing import TYPE_CHECKING

from pgstow.cli import options
from pgstow.cli.bench_group import commands

if TYPE_CHECKING:
    from pgstow.workspace import RunEntry


@commands.command("list")
def list_runs(
    *,
    workspace: options.Workspace = options.DEFAULT_WORKSPACE,
    json: options.Json = False,
) -> None:
    """List the experiments that pgstow comes with, and the workspace's runs.

    Example: pgstow bench list
    """
    from pgstow.cli import output
    from pgstow.experiment_file import experiment_names, read_experiment
    from pgstow.workspace import Workspace

    known = [read_experiment(name) for name in experiment_names()]
    runs: tuple[RunEntry, ...] = ()
    if workspace.exists():
        with Workspace.open(workspace, create=False) as store:
            runs = store.runs.list()
    if json:
        names = [{"name": one.name, "title": one.title, "factors": one.factors} for one in known]
        output.print_json({"experiments": names, "runs": [_as_plain(one) for one in runs]})
        return
    console = output.console()
    rows = [[one.name, ", ".join(one.factors), one.title] for one in known]
    table = output.table(("experiment", "factors", "what"), rows)
    for column in table.columns[1:]:
        column.justify = "left"
    console.print(table)
    if runs:
        console.print()
        console.print(
            output.table(("run", "experiment", "profile", "trials", "began"), map(_cells, runs))
        )


def _as_plain(entry: "RunEntry") -> dict[str, object]:
    """The run for ``--json``, where the number of planned trials is ``wanted``."""
    from dataclasses import asdict

    plain = asdict(entry)
    return plain | {"wanted": plain.pop("planned")}


def _cells(entry: "RunEntry") -> list[str]:
    trials = f"{entry.trials}" if entry.is_complete else f"{entry.trials} of {entry.planned}"
    return [str(entry.id), entry.name, entry.profile, trials, entry.created_at[:16]]
