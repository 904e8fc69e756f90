"""``pgstow emulate fault`` and ``volatile``: let volumes fail as real ones do."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli import options, output
from pgstow.cli.emulate import DEFAULT_STATE_DIR, StateDir, commands
from pgstow.cli.emulate_status import describe_lost, fault_table, print_status
from pgstow.cli.emulate_would import print_would, volumes_up
from pgstow.cli.names import count_of
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.emulate import Planned

faults = typer.Typer(
    help="Inject faults: power loss, stall, I/O errors, slowness, a vanished device, disk full.",
    no_args_is_help=True,
)
commands.add_typer(faults, name="fault")

Volumes = Annotated[
    list[str] | None,
    typer.Option("--volume", "-v", metavar="NAME", help="Only this volume; may be repeated."),
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="TIME", help="Begin after this time, such as 10s; else now."),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="TIME", help="End after this time, such as 5s; else when it is cleared."
    ),
]


@faults.command("power-loss")
def power_loss(
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            metavar="all|subset|reorder|torn",
            help="Which unflushed writes are lost: all; a random subset; a subset, with the rest"
            " reordered; a subset, with some torn at sectors.",
        ),
    ] = "all",
    sector: Annotated[
        str, typer.Option("--sector", metavar="512|4096", help="Where torn writes tear.")
    ] = "512",
    seed: Annotated[int, typer.Option("--seed", help="The same seed loses the same.")] = 0,
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Lose what was not flushed, then fail every request until cleared: the power is off.

    Needs pgstow emulate volatile on, before what is to be lost is written. Example:
    sudo pgstow emulate fault power-loss --loss torn --sector 4096
    """
    if sector not in ("512", "4096"):
        raise UserError(f"--sector: {sector!r} is no sector's size", "use 512 or 4096")
    chosen = {"kind": "power-loss", "loss": loss, "sector_bytes": int(sector), "seed": seed}
    _inject(chosen, volume, (after, for_), Where(state_dir, dry_run, json))


@faults.command("stall")
def stall(
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Answer nothing until it ends.

    Example: sudo pgstow emulate fault stall --volume wal --for 5s
    """
    _inject({"kind": "stall"}, volume, (after, for_), Where(state_dir, dry_run, json))


@faults.command("error")
def error(
    operations: Annotated[
        str,
        typer.Option("--operations", metavar="LIST", help="Of read, write, flush; with commas."),
    ] = "read,write",
    offset: Annotated[
        str, typer.Option("--offset", metavar="SIZE", help="Where on the volume it begins.")
    ] = "0",
    length: Annotated[
        str | None, typer.Option("--length", metavar="SIZE", help="How far; else to the end.")
    ] = None,
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Fail what touches a range of the volume with EIO.

    Example: sudo pgstow emulate fault error --operations read --offset 1GiB --length 1MiB
    """
    chosen: dict[str, Any] = {"kind": "error", "operations": operations.split(",")}
    chosen |= {"offset": offset} | ({} if length is None else {"length": length})
    _inject(chosen, volume, (after, for_), Where(state_dir, dry_run, json))


@faults.command("slow")
def slow(
    factor: Annotated[
        float,
        typer.Option("--factor", callback=options.finite, help="What latencies are multiplied by."),
    ],
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Multiply latencies; limits stay.

    Example: sudo pgstow emulate fault slow --factor 10 --after 1min --for 30s
    """
    _inject(
        {"kind": "slow", "factor": factor}, volume, (after, for_), Where(state_dir, dry_run, json)
    )


@faults.command("disappear")
def disappear(
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Fail every request, as of a volume that was detached.

    Example: sudo pgstow emulate fault disappear --volume data
    """
    _inject({"kind": "disappear"}, volume, (after, for_), Where(state_dir, dry_run, json))


@faults.command("full")
def full(
    volume: Volumes = None,
    after: After = None,
    for_: For = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Fail writes to blocks that hold nothing yet with ENOSPC: what backs the volume is full.

    Example: sudo pgstow emulate fault full --volume data
    """
    _inject({"kind": "full"}, volume, (after, for_), Where(state_dir, dry_run, json))


@faults.command("schedule")
def schedule(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A TOML file with a list of faults.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only read the file; nothing need be up.")
    ] = False,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Hand over a list of faults, each with its kind, at, for and volumes.

    Example: sudo pgstow emulate fault schedule faults.toml
    """
    from pgstow import emulate

    planned = emulate.read_schedule(file)
    if check:
        if json:
            output.print_json(planned)
        else:
            output.console().print(f"{file}: {count_of(len(planned), 'fault')}", soft_wrap=True)
        return
    _hand_over(planned, Where(state_dir, dry_run, json))


@faults.command("list")
def list_faults(state_dir: StateDir = DEFAULT_STATE_DIR, json: options.Json = False) -> None:
    """Show the faults that are active or wait for their time.

    Example: sudo pgstow emulate fault list
    """
    from pgstow import emulate

    found = emulate.read_status(state_dir).faults
    if json:
        output.print_json(found)
    elif found:
        output.console().print(fault_table(found))
    else:
        output.console().print("No faults.")


@faults.command("clear")
def clear(
    fault_id: Annotated[
        int | None,
        typer.Argument(metavar="ID", help="Which fault; without it all, and those that wait."),
    ] = None,
    remount: Annotated[
        bool,
        typer.Option(
            "--remount",
            help="Then mount the volumes anew, as a reboot would: a filesystem that met errors has"
            " shut down. Nobody may be using them.",
        ),
    ] = False,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """End a fault, or all of them; after a power loss the power is back.

    Example: sudo pgstow emulate fault clear --remount
    """
    from pgstow import emulate

    if dry_run:
        present = emulate.read_status(state_dir).faults
        chosen = [one for one in present if fault_id in (None, one.id)]
        lines = [f"end fault {one.id}: {emulate.describe_fault(one.fault)}" for one in chosen]
        names = [volume.name for volume in volumes_up(state_dir)] if remount else []
        print_would([*lines, *(f"mount volume {name} anew" for name in names)], json)
        return
    emulate.clear_faults(state_dir, fault_id, remount=remount)
    print_status(emulate.read_status(state_dir), json)


@commands.command("volatile")
def volatile(
    switch: Annotated[str, typer.Argument(metavar="on|off")],
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Keep what is written but not flushed losable, for power losses; EBS itself has no such cache.

    Example: sudo pgstow emulate volatile on
    """
    from pgstow import emulate

    if switch not in ("on", "off"):
        raise UserError(f"{switch!r} is neither on nor off", "write pgstow emulate volatile on")
    if dry_run:
        names = [volume.name for volume in volumes_up(state_dir)]
        print_would([f"switch volatile of {name} {switch}" for name in names], json)
        return
    print_status(emulate.set_volatile(state_dir, switch == "on"), json)


def _inject(
    chosen: dict[str, Any],
    volumes: list[str] | None,
    times: tuple[str | None, str | None],
    where: "Where",
) -> None:
    from pgstow import emulate

    after, for_ = times
    planned = emulate.Planned(
        emulate.parse_fault(chosen, "--"),
        tuple(volumes) if volumes else None,
        0.0 if after is None else options.parse_seconds(after, "--after"),
        None if for_ is None else options.parse_seconds(for_, "--for"),
    )
    _hand_over([planned], where)


@dataclass(frozen=True, slots=True)
class Where:
    """The emulator that is concerned, and how to answer."""

    state_dir: Path
    dry_run: bool
    json: bool


def _would_inject(one: "Planned", state_dir: Path) -> str:
    from pgstow import emulate
    from pgstow.units import format_duration

    names = ", ".join(volume.name for volume in volumes_up(state_dir, one.volumes))
    after = f" in {format_duration(one.after_s)}" if one.after_s else ""
    until = "until cleared" if one.for_s is None else f"for {format_duration(one.for_s)}"
    return f"inject {emulate.describe_fault(one.fault)} into {names}{after}, {until}"


def _hand_over(planned: "Sequence[Planned]", where: Where) -> None:
    from pgstow import emulate

    if where.dry_run:
        print_would([_would_inject(one, where.state_dir) for one in planned], where.json)
        return
    state_dir = where.state_dir
    injected = emulate.inject(state_dir, planned)
    if where.json:
        output.print_json(injected)
        return
    console = output.console()
    for one in injected:
        for lost in one.lost:
            console.print(describe_lost(lost), markup=False, soft_wrap=True)
    numbers = {one.id for one in injected}
    present = [f for f in emulate.read_status(state_dir).faults if f.id in numbers]
    if present:
        console.print(fault_table(present))
