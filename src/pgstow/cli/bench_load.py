"""``pgstow bench load``, ``load-and-run``: an experiment's tables, on the servers that it names."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli import bench, options
from pgstow.cli.bench_group import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.experiment.targets import Load, ServerTarget
    from pgstow.experiment.trial import Tools
    from pgstow.model import Experiment

Replace = Annotated[bool, typer.Option("--replace", help="Drop existing tables of these names.")]


@commands.command()
def load(
    name: bench.Name,
    *,
    profile: bench.Profile = "quick",
    only: bench.Only = None,
    secret: bench.Secret = None,
    replace_tables: Replace = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Make an experiment's tables on the servers that it names, and run nothing.

    Example: pgstow bench load dlv.toml
    """
    experiment = bench.experiment_of(name, profile, only, None)
    target = bench.server_target(experiment, secret)
    if dry_run:
        _print(target.loads(experiment, replace=replace_tables), json, done=False)
        return
    made = _load(experiment, target, bench.tools_of(name), replace_tables)
    _print(made, json, done=True)


@commands.command("load-and-run")
def load_and_run(
    name: bench.Name,
    *,
    profile: bench.Profile = "quick",
    only: bench.Only = None,
    blocks: bench.Blocks = None,
    until: bench.Until = None,
    secret: bench.Secret = None,
    replace_tables: Replace = False,
    dry_run: options.DryRun = False,
    workspace: options.Workspace = options.DEFAULT_WORKSPACE,
    json: options.Json = False,
) -> None:
    """Make an experiment's tables on the servers that it names, then run it.

    Example: pgstow bench load-and-run dlv.toml --blocks 5
    """
    experiment = bench.experiment_of(name, profile, only, blocks)
    target, tools = bench.server_target(experiment, secret), bench.tools_of(name)
    half_width = bench.half_width_of(until)
    if dry_run:
        loads = target.loads(experiment, replace=replace_tables)
        if not json:
            _print(loads, json, done=False)
        bench.print_plan(experiment, (), json, loads=_plain(loads))
        return
    _load(experiment, target, tools, replace_tables)
    bench.run_to_end(bench.RunGoal(experiment, target, tools, half_width, True, workspace, json))


def _load(
    experiment: "Experiment", target: "ServerTarget", tools: "Tools", replace_tables: bool
) -> "tuple[Load, ...]":
    from pgstow.cli import output
    from pgstow.experiment.run_context import RunContext

    with output.error_console().status("looking at the servers") as shown:
        run_context = RunContext(shown.update)
        return target.load(experiment, tools.generator, run_context, replace=replace_tables)


def _plain(loads: "Sequence[Load]") -> list[dict[str, Any]]:
    return [
        {"server": one.server, "data": one.data, "dropped_tables": one.dropped} for one in loads
    ]


def _print(loads: "Sequence[Load]", json: bool, *, done: bool) -> None:
    from pgstow.cli import output

    if json:
        output.print_json({"done": done, "loads": _plain(loads)})
        return
    for one in loads:
        verb, gone = ("made", "dropped") if done else ("would make", "would drop")
        first = f"{gone} {', '.join(one.dropped)}; " if one.dropped else ""
        output.console().print(
            f"{one.server}: {first}{verb} {one.data}", markup=False, soft_wrap=True
        )
