"""``pgstow emulate``: a layout's volumes on this machine, of memory or files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from pgstow.cli import options, output
from pgstow.cli.emulate_status import print_actions, print_status
from pgstow.cli.emulate_would import print_would, volumes_up
from pgstow.cli.main import app
from pgstow.cli.names import shown
from pgstow.cli.output import is_answered
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pgstow.emulate import Choice

# In the order of the work; what is not named comes last.
_ORDER = ("up", "status", "stats", "limits", "set", "volatile", "fault", "down")


class _InOrder(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Commands in the order a person uses them."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda n: _ORDER.index(n) if n in _ORDER else len(_ORDER))


commands = typer.Typer(
    cls=_InOrder,
    help="Make a layout's volumes on this machine: real mounts that behave like the cloud's.",
    no_args_is_help=True,
)
app.add_typer(commands, name="emulate")

StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir", envvar="PGSTOW_EMULATOR", help="Where the emulator keeps what it made."
    ),
]
DEFAULT_STATE_DIR = Path("/run/pgstow/emulator")
_NOTHING = "Nothing to do: all is as the layout says."
# What the catalog warns of and one will see on emulated volumes; the rest is of buying.
_WARNINGS = ("host-cap-iops", "host-cap-throughput")


@commands.command("up")
def up(
    layout_file: Annotated[Path, typer.Argument(metavar="LAYOUT", help="The layout's TOML file.")],
    *,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove volumes that the layout does not have.")
    ] = False,
    owner: Annotated[
        str | None, typer.Option(help="Who is to own the new filesystems, such as postgres.")
    ] = None,
    backing: Annotated[
        str | None,
        typer.Option(
            "--backing",
            metavar="memory|file[:DIRECTORY]",
            help="What new volumes are made of.",
            show_default="memory",
        ),
    ] = None,
    keep_files: Annotated[
        bool,
        typer.Option("--keep-files", help="Leave the files at down, and use existing ones."),
    ] = False,
    thin: Annotated[
        bool,
        typer.Option("--thin", help="Volumes may be larger than what there is to make them of."),
    ] = False,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve /metrics for Prometheus and /stats.json on 127.0.0.1; 0 takes any port.",
        ),
    ] = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Make and mount the volumes of a layout, or bring those that are up in line with it.

    Examples: sudo pgstow emulate up layout.toml --owner postgres;
    sudo pgstow emulate up layout.toml --backing file:/var/tmp/volumes
    """
    from pgstow import catalog, emulate
    from pgstow import layout_file as files

    layout = files.read_volumes(layout_file)
    choice = _choice(backing, keep_files, state_dir)
    rules = catalog.load()
    warnings = [one for one in rules.check(layout) if one.code in _WARNINGS]
    devices = [rules.device(volume, layout.host) for volume in layout.volumes]
    cap = rules.host_cap(layout.host)
    if dry_run:
        missing = emulate.check_requirements(volume.filesystem for volume in layout.volumes)
        actions = emulate.plan_up(
            layout,
            devices,
            cap,
            state_directory=state_dir,
            prune=prune,
            choice=choice,
            thin=thin,
        )
        output.print_warnings((*warnings, *missing))
        if json:
            output.print_json({"actions": actions, "missing": missing})
        else:
            print_actions(actions, _NOTHING)
        return
    with output.progress("Making volumes") as update:
        status = emulate.up(
            layout,
            devices,
            cap,
            state_directory=state_dir,
            prune=prune,
            owner=owner,
            choice=choice,
            thin=thin,
            metrics_port=metrics,
            progress=update,
        )
    output.print_warnings(warnings)
    if not (json or status.actions):
        output.console().print(_NOTHING)
    print_status(status, json)


def _choice(backing: str | None, keep_files: bool, state_dir: Path) -> "Choice | None":
    from pgstow import emulate

    if backing == "memory" or (backing is None and not keep_files):
        if keep_files:
            remedy = "drop one of them, or use --backing file:DIRECTORY"
            raise UserError("--keep-files does not go with --backing memory", remedy)
        return None if backing is None else emulate.Choice()
    kind, colon, directory = (backing or "file").partition(":")
    if kind != "file" or (colon and not directory):
        what = f"--backing: {backing!r} is neither memory nor file nor file:DIRECTORY"
        raise UserError(what, "write it like file:/var/tmp/volumes")
    path = Path(directory).absolute() if directory else emulate.default_directory(state_dir)
    return emulate.Choice(path, keep_files)


@commands.command("down")
def down(
    state_dir: StateDir = DEFAULT_STATE_DIR,
    force: Annotated[
        bool, typer.Option("--force", help="Unmount even what is in use; its users get errors.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete files that were to be kept, too.")
    ] = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Unmount and remove every emulated volume, with all that is on them.

    Where one is in use nothing is changed, and who uses it is named. On a terminal it
    asks first. Cleans up after a killed or crashed emulator too.

    Example: sudo pgstow emulate down --dry-run
    """
    from pgstow import emulate

    if dry_run:
        print_would(emulate.plan_down(state_dir, force=force, purge=purge), json)
        return
    if not yes and is_answered():
        doomed = emulate.plan_down(state_dir, force=force, purge=purge)
        for line in doomed:
            output.error_console().print(shown(line), soft_wrap=True)
        if doomed and not output.confirm("Remove these with all that is on them?"):
            raise typer.Exit(1)
    cleanup = emulate.down(state_dir, force=force, purge=purge)
    output.print_warnings(cleanup.warnings)
    if json:
        output.print_json(cleanup)
    else:
        for action in cleanup.actions or ["Nothing was up."]:
            output.console().print(action, markup=False)


@commands.command("status")
def status(state_dir: StateDir = DEFAULT_STATE_DIR, json: options.Json = False) -> None:
    """Show the volumes that are up and what they have done.

    Example: sudo pgstow emulate status --json
    """
    from pgstow import emulate

    print_status(emulate.read_status(state_dir), json)


@commands.command("limits")
def limits(
    switch: Annotated[str, typer.Argument(metavar="on|off")],
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Switch limits and latencies of all volumes on or off, as for loading data quickly.

    Example: sudo pgstow emulate limits off
    """
    from pgstow import emulate

    if switch not in ("on", "off"):
        raise UserError(f"{switch!r} is neither on nor off", "write pgstow emulate limits off")
    if dry_run:
        names = [volume.name for volume in volumes_up(state_dir)]
        print_would([f"switch limits and latencies of {name} {switch}" for name in names], json)
        return
    print_status(emulate.set_limits(state_dir, switch == "on"), json)
