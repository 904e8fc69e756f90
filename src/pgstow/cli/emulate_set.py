"""``pgstow emulate set``: modify a volume that is in use."""

from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options, output
from pgstow.cli.emulate import DEFAULT_STATE_DIR, StateDir, commands
from pgstow.cli.emulate_status import print_actions, print_status
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from pgstow.model import Volume


@commands.command("set")
def set_volume(
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="Its name in the layout.")],
    *,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Another type, such as io2.")
    ] = None,
    iops: Annotated[
        float | None,
        typer.Option(
            "--iops", metavar="N", callback=options.finite, help="Provisioned IOPS of one member."
        ),
    ] = None,
    throughput: Annotated[
        str | None,
        typer.Option("--throughput", metavar="RATE", help="Of one member, such as 250MiB/s."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="SIZE", help="Of one member, such as 200GiB; only larger."),
    ] = None,
    credits: Annotated[
        float | None,
        typer.Option(
            "--credits",
            metavar="FRACTION",
            min=0,
            max=1,
            help="Burst credits left, at once: from 0 (empty) to 1 (full).",
        ),
    ] = None,
    optimising: Annotated[
        str,
        typer.Option(
            "--optimising",
            metavar="TIME",
            help="How long the new limits are on their way; at the provider minutes to hours.",
        ),
    ] = "60s",
    now: Annotated[
        bool, typer.Option("--now", help="At once, and as often as you like: no provider's rules.")
    ] = False,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Modify a volume while it is in use, under the provider's rules.

    What is not named stays; a new type begins with the limits it comes with.
    The size grows at once and the filesystem with it; limits change over the
    optimising phase. Four in 24 hours are allowed, one at a time.

    Credits are set by themselves, and at once; no provider lets one do that.

    Example: sudo pgstow emulate set data --iops 6000 --throughput 250MiB/s --optimising 2min
    Example: sudo pgstow emulate set data --credits 0
    """
    from dataclasses import replace

    from pgstow import catalog, emulate
    from pgstow.emulate.state import unknown_volume
    from pgstow.units import Iops, parse_rate, parse_size

    changes = any(one is not None for one in (type, iops, throughput, size))
    if credits is not None:
        _set_credits(volume, credits, state_dir, alone=not changes, dry_run=dry_run, json=json)
        return
    if not changes:
        remedy = "name at least one of --type, --iops, --throughput, --size and --credits"
        raise UserError(f"there is nothing to set on {volume}", remedy)
    optimising_s = None if now else options.parse_seconds(optimising, "--optimising")
    layout = emulate.running_layout(state_dir)
    present = next((one for one in layout.volumes if one.name == volume), None)
    if present is None:
        raise unknown_volume(volume, (one.name for one in layout.volumes))
    changed = _of_type(present, type)
    if iops is not None:
        changed = replace(changed, iops=Iops(iops))
    if throughput is not None:
        changed = replace(
            changed, throughput=options.parse_quantity(throughput, "--throughput", parse_rate)
        )
    if size is not None:
        changed = replace(changed, size_bytes=options.parse_quantity(size, "--size", parse_size))
    rules = catalog.load()
    volumes = tuple(changed if one.name == volume else one for one in layout.volumes)
    rules.check(replace(layout, volumes=volumes))  # its warnings are of a placement made up here
    actions, status = emulate.modify_volume(
        changed,
        rules.device(changed, layout.host),
        state_directory=state_dir,
        optimising_s=optimising_s,
        dry_run=dry_run,
    )
    if json and dry_run:
        output.print_json({"actions": actions})
        return
    if not json:
        print_actions(actions, f"Nothing to do: {volume} is so already.")
    if not dry_run:
        print_status(status, json)


def _set_credits(
    volume: str, fraction: float, state_dir: "Path", *, alone: bool, dry_run: bool, json: bool
) -> None:
    from pgstow import emulate

    if not alone:
        remedy = "set --credits in a run of its own"
        raise UserError("credits are no part of a modification", remedy)
    text = f"fill the burst credits of {volume} to {fraction:.0%}"
    if dry_run:
        emulate.check_credits(state_dir, volume)
        if json:
            output.print_json({"actions": [{"kind": "credits", "text": text, "volume": volume}]})
        else:
            output.console().print(text, markup=False)
        return
    print_status(emulate.set_credits(state_dir, volume, fraction), json)


def _of_type(present: "Volume", type: str | None) -> "Volume":
    from dataclasses import replace

    if type is None or type == present.type:
        return present
    return replace(present, type=type, iops=None, throughput=None, burst_credits=None, latency=None)
