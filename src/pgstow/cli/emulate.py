"""``pgstow emulate``: a layout's volumes out of memory on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options, output
from pgstow.cli.main import app
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.emulate import Action, EmulatorStatus, VolumeStatus

commands = typer.Typer(
    help="Make a layout's volumes out of memory, as real mounts that behave like the cloud's.",
    no_args_is_help=True,
)
app.add_typer(commands, name="emulate")

StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir", envvar="PGSTOW_EMULATOR", help="Where the emulator keeps what it made."
    ),
]
_DEFAULT_STATE_DIR = Path("/run/pgstow/emulator")


@commands.command("up")
def up(
    layout_file: Annotated[Path, typer.Argument(metavar="LAYOUT", help="The layout's TOML file.")],
    *,
    state_dir: StateDir = _DEFAULT_STATE_DIR,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove volumes that the layout does not have.")
    ] = False,
    owner: Annotated[
        str | None, typer.Option(help="Who is to own the new filesystems, such as postgres.")
    ] = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Make and mount the volumes of a layout, or bring those that are up in line with it.

    Example: sudo pgstow emulate up layout.toml --owner postgres
    """
    from pgstow import catalog, emulate
    from pgstow import layout_file as files

    layout = files.read_layout(layout_file)
    rules = catalog.load()
    devices = [rules.device(volume) for volume in layout.volumes]
    cap = rules.host_cap(layout.host)
    if dry_run:
        missing = emulate.check_requirements(volume.filesystem for volume in layout.volumes)
        actions = emulate.plan_up(layout, devices, cap, state_directory=state_dir, prune=prune)
        output.print_warnings(missing)
        if json:
            output.print_json({"actions": actions, "missing": missing})
        else:
            _print_actions(actions, "Nothing to do: all is as the layout says.")
        return
    with output.progress("Making volumes") as update:
        status = emulate.up(
            layout,
            devices,
            cap,
            state_directory=state_dir,
            prune=prune,
            owner=owner,
            progress=update,
        )
    _print_status(status, json)


@commands.command("down")
def down(
    state_dir: StateDir = _DEFAULT_STATE_DIR,
    force: Annotated[
        bool, typer.Option("--force", help="Unmount even what is in use; its users get errors.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Unmount and remove every emulated volume, with all that is on them.

    Cleans up after a killed or crashed emulator too. Example: sudo pgstow emulate down
    """
    from pgstow import emulate

    cleanup = emulate.down(state_dir, force=force)
    output.print_warnings(cleanup.warnings)
    if json:
        output.print_json(cleanup)
    else:
        for action in cleanup.actions or ["Nothing was up."]:
            output.console().print(action, markup=False)


@commands.command("status")
def status(state_dir: StateDir = _DEFAULT_STATE_DIR, json: options.Json = False) -> None:
    """Show the volumes that are up and what they have done.

    Example: sudo pgstow emulate status --json
    """
    from pgstow import emulate

    _print_status(emulate.read_status(state_dir), json)


@commands.command("limits")
def limits(
    switch: Annotated[str, typer.Argument(metavar="on|off")],
    state_dir: StateDir = _DEFAULT_STATE_DIR,
    json: options.Json = False,
) -> None:
    """Switch limits and latencies of all volumes on or off, as for loading data quickly.

    Example: sudo pgstow emulate limits off
    """
    from pgstow import emulate

    if switch not in ("on", "off"):
        raise UserError(f"{switch!r} is neither on nor off", "write pgstow emulate limits off")
    _print_status(emulate.set_limits(state_dir, switch == "on"), json)


def _print_actions(actions: "Sequence[Action]", otherwise: str) -> None:
    console = output.console()
    for action in actions:
        console.print(action.text, markup=False)
    if not actions:
        console.print(otherwise)


def _print_status(status: "EmulatorStatus", json: bool) -> None:
    output.print_warnings(status.warnings)
    if json:
        output.print_json(status)
        return
    console = output.console()
    for action in status.actions:
        if action.kind == "keep":
            console.print(action.text, markup=False)
    if not status.volumes:
        console.print("No emulated volumes are up.")
        return
    console.print(_table(_VOLUMES, [_volume_row(volume) for volume in status.volumes]))
    if status.is_running:
        console.print()
        console.print(_table(_TRAFFIC, [_traffic_row(volume) for volume in status.volumes]))
        console.print()
    console.print(_summary(status), markup=False)


# Title and alignment of each column.
_VOLUMES = (
    ("volume", "left"),
    ("type", "left"),
    ("size", "right"),
    ("limits", "left"),
    ("mount", "left"),
    ("device", "left"),
)
_TRAFFIC = (
    ("volume", "left"),
    ("in memory", "right"),
    ("reads", "right"),
    ("writes", "right"),
    ("flushes", "right"),
    ("mean read", "right"),
    ("mean write", "right"),
)


def _table(columns: "tuple[tuple[str, str], ...]", rows: "Sequence[list[str]]") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _volume_row(volume: "VolumeStatus") -> list[str]:
    from pgstow.emulate import describe_limits
    from pgstow.units import format_size

    limits = describe_limits(volume.device)
    return [
        volume.name,
        volume.type,
        format_size(volume.size_bytes),
        f"off ({limits})" if volume.limits_enabled is False else limits,
        f"{volume.mount} ({volume.filesystem})" if volume.is_mounted else "not mounted",
        volume.loop_device or "none",
    ]


def _traffic_row(volume: "VolumeStatus") -> list[str]:
    from pgstow.units import format_size

    counts = (volume.reads, volume.writes, volume.flushes)
    return [
        volume.name,
        "?" if volume.resident_bytes is None else format_size(volume.resident_bytes),
        *("?" if count is None else f"{count:,}" for count in counts),
        _mean(volume.read_us_mean),
        _mean(volume.write_us_mean),
    ]


def _mean(microseconds: float | None) -> str:
    from pgstow.units import format_duration

    return "–" if microseconds is None else format_duration(microseconds / 1e6)


def _summary(status: "EmulatorStatus") -> str:
    if not status.is_running:
        return "The server has ended."
    parts = [f"server pid {status.pid}"]
    if status.host_cap is not None:
        from pgstow.emulate import describe_cap

        parts.append(f"host cap {describe_cap(status.host_cap)}")
    parts.append(f"{status.compensation_us:.0f} µs taken off for the way to the server and back")
    return "; ".join(parts)
