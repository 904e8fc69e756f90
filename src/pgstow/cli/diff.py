"""``pgstow diff``: the steps from the live server to a layout, each with its cost and its undo."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.main import app
from pgstow.cli.names import shown
from pgstow.cli.options import DEFAULT_WORKSPACE, Dsn, Json, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from pgstow.catalog import Catalog
    from pgstow.model import Layout, Profile, ServerState, Step, Volume, Warning
    from pgstow.workspace import Workspace as Store

_TABLE_WIDTH = 140  # columns below which the table is hard to read
LayoutFile = Annotated[Path, typer.Argument(metavar="LAYOUT", help="The target layout (TOML).")]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Drop tablespaces pgstow made that the layout needs no more."),
]


@dataclass(frozen=True, slots=True)
class Migration:
    """The way from a server to a layout."""

    state: "ServerState"
    target_layout: "Layout"
    steps: "tuple[Step, ...]"
    warnings: "tuple[Warning, ...]"


@app.command()
def diff(
    layout: LayoutFile,
    dsn: Dsn = "",
    prune: Prune = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Show the steps that change the server to match LAYOUT, with lock, bytes, WAL, time and undo.

    Changes nothing. Example: pgstow diff planned.toml --dsn 'host=db1 dbname=shop'
    """
    from pgstow.cli.output import print_json, print_warnings
    from pgstow.cli.workspace import look_into

    with look_into(workspace) as store:
        found = migration(layout, dsn, store, prune=prune)
    if json:
        print_json(as_plain(found.steps, found.warnings))
        return
    print_warnings(found.warnings)
    print_steps(found.steps)


def migration(path: Path, dsn: str, store: "Store", *, prune: bool) -> Migration:
    """Read the layout and the server, and order the steps between them."""
    from pgstow.layout_file import read_layout
    from pgstow.postgres import read_state

    target_layout = read_layout(path)
    return between(read_state(dsn), target_layout, store, prune=prune)


def between(
    state: "ServerState", target_layout: "Layout", store: "Store", *, prune: bool = False
) -> Migration:
    """Order the steps from a state to a layout; the present one is the latest profile's."""
    from pgstow import catalog, migration

    offers = catalog.load()
    present = present_layout(state, target_layout, store)
    devices = [
        offers.device(volume, layout.host)
        for layout in (present, target_layout)
        for volume in layout.volumes
    ]
    limits = {one.name: migration.VolumeLimits(one.bytes_per_second, one.iops) for one in devices}
    profile = _profile_of(state, store)
    steps = migration.steps(
        state,
        present,
        target_layout,
        rates={name: one.bytes_per_second for name, one in limits.items() if one.bytes_per_second},
        prune=prune,
        made=_made_tablespaces(state, store),
        pressure=migration.Pressure.of(profile, limits) if profile else None,
    )
    remarks = migration.remarks(state, target_layout, steps)
    if profile is not None:
        remarks += tuple(_volume_remarks(profile.layout, target_layout, offers))
    return Migration(state, target_layout, steps, remarks)


def _volume_remarks(
    seen: "Layout", target_layout: "Layout", offers: "Catalog"
) -> "Iterator[Warning]":
    """Volumes that are to be others than were observed: nothing here changes them."""
    from pgstow.model import Warning

    had = {volume.name: volume for volume in seen.volumes}
    if seen.host.platform != target_layout.host.platform:  # what the seen volumes are is not stated
        return
    for volume in target_layout.volumes:
        if volume.name not in had:
            continue
        is_now = _as_bought(had[volume.name], seen, offers)
        is_to_be = _as_bought(volume, target_layout, offers)
        if is_now != is_to_be:
            yield Warning(
                "volume-differs",
                f"volume {volume.name} is to be {is_to_be}; when it was observed it was {is_now}",
                "change it at the provider (pgstow changes no volumes) and observe again",
            )


def _as_bought(volume: "Volume", layout: "Layout", offers: "Catalog") -> str:
    from pgstow.units import format_rate, format_size

    device = offers.device(volume, layout.host)
    stripes = f"{volume.stripes} × " if volume.stripes > 1 else ""
    parts = [f"{stripes}{volume.type} of {format_size(volume.size_bytes)}"]
    parts += [f"{device.iops:,.0f} IOPS"] if device.iops is not None else []
    parts += [format_rate(device.bytes_per_second)] if device.bytes_per_second is not None else []
    return ", ".join(parts)


def _made_tablespaces(state: "ServerState", store: "Store") -> frozenset[str]:
    """Those that pgstow made and that are where it made them: else they are of others by now."""
    made = store.journal.made_tablespaces(state.system_identifier)
    there = ((space.name, space.location) for space in state.tablespaces)
    return frozenset(name for name, location in there if made.get(name) == location)


def present_layout(state: "ServerState", target_layout: "Layout", store: "Store") -> "Layout":
    """This server's latest observed layout; without one, the target with nothing moved yet."""
    from dataclasses import replace

    profile = _profile_of(state, store)
    if profile is not None:
        return profile.layout
    placement = replace(target_layout.postgres, wal=target_layout.postgres.data, temp=())
    return replace(target_layout, postgres=placement, tablespaces=())


def _profile_of(state: "ServerState", store: "Store") -> "Profile | None":
    from pgstow.model import Profile

    profile = store.latest("profile", Profile)
    is_its = profile is not None and profile.server.system_identifier == state.system_identifier
    return profile if is_its else None


def format_time(steps: "Sequence[Step]") -> str:
    """How long steps take: on idle volumes, and beside the observed load where one is known."""
    from pgstow.units import format_duration

    idle = format_duration(sum(step.seconds for step in steps))
    loaded = format_duration(sum(step.seconds_loaded or step.seconds for step in steps))
    return f"about {idle}" if loaded == idle else f"{idle} to {loaded}"


def as_plain(steps: "Sequence[Step]", warnings: "Sequence[Warning]") -> dict[str, Any]:
    """The steps as JSON shows them."""
    return {
        "steps": list(steps),
        "totals": {
            "steps": len(steps),
            "bytes": sum(step.bytes for step in steps),
            "wal_bytes": sum(step.wal_bytes for step in steps),
            "seconds": sum(step.seconds for step in steps),
            "seconds_loaded": sum(step.seconds_loaded or step.seconds for step in steps),
            "needs_restart": any(step.needs_restart for step in steps),
        },
        "warnings": list(warnings),
    }


def print_steps(steps: "Sequence[Step]") -> None:
    """Print the table of steps and its totals."""
    from pgstow.cli.output import console
    from pgstow.units import format_size

    target = console()
    if not steps:
        target.print("Everything is placed as in the layout: nothing to do.")
        return
    if target.width >= _TABLE_WIDTH:
        target.print(_table(steps))
    else:
        for line in _blocks(steps):
            target.print(line, markup=False, soft_wrap=True)
    moved = format_size(sum(step.bytes for step in steps))
    wal = format_size(sum(step.wal_bytes for step in steps))
    time = format_time(steps)
    target.print(f"{len(steps)} step(s): {moved} to move, {wal} of WAL, {time}.")
    if any(step.needs_restart for step in steps):
        target.print("A step needs a restart of the server: it is executed only with --restart.")


def _table(steps: "Sequence[Step]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    from pgstow.units import format_size

    table = Table(show_lines=True)
    for title in ("#", "step", "lock", "bytes", "WAL", "time", "undo"):
        right = title in ("#", "bytes", "WAL", "time")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for number, step in enumerate(steps, 1):
        cells = (
            str(number),
            step.action,
            step.lock,
            format_size(step.bytes) if step.bytes else "",
            format_size(step.wal_bytes) if step.wal_bytes else "",
            format_time((step,)),
            step.undo,
        )
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _blocks(steps: "Sequence[Step]") -> list[str]:
    """The table where it would be too narrow to read: a few lines a step."""
    from pgstow.units import format_size

    lines = []
    for number, step in enumerate(steps, 1):
        amounts = [format_time((step,))]
        if step.bytes:
            amounts.append(f"{format_size(step.bytes)}, {format_size(step.wal_bytes)} of WAL")
        lines += [
            f"{number}. {shown(step.action)}",
            f"   lock: {shown(step.lock)}",
            f"   cost: {'; '.join(amounts)}",
            f"   undo: {shown(step.undo)}",
        ]
    return lines
