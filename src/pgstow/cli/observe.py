"""``pgstow observe``: sample a live server for a while, and keep the profile."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.names import count_of, shown
from pgstow.cli.options import DEFAULT_WORKSPACE, CommitProbe, Dsn, Json, Workspace, parse_seconds
from pgstow.model.errors import PgstowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from pgstow.model import Profile, Volume
    from pgstow.workspace import Workspace as Store

_TOP = 15


@app.command()
def observe(
    dsn: Dsn = "",
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long to sample.")] = "60s",
    interval: Annotated[str, typer.Option(metavar="TIME", help="How often to sample.")] = "5s",
    layout: Annotated[
        Path | None, typer.Option(help="A layout file that says what the volumes are.")
    ] = None,
    commit_probe: CommitProbe = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the profile, such as before-move.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the workspace's profiles; observe nothing.")
    ] = False,
    merge: Annotated[
        str | None,
        typer.Option(metavar="PROFILE,PROFILE…", help="Merge existing profiles into one."),
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Sample what a live server's relations and WAL ask of its disks.

    Needs a role with pg_monitor. Reads only, unless --commit-probe is given. Ctrl-C ends it early
    and keeps what was seen.

    Examples: pgstow observe --dsn "host=db1 user=monitor dbname=shop" --duration 10min;
    pgstow observe --list; pgstow observe --merge morning,evening --name day
    """
    if listing or merge is not None:
        _from_workspace(workspace, merge, name, json=json)
        return
    from pgstow import observe as stage
    from pgstow import verification
    from pgstow.cli.output import console, print_json, print_warnings, progress
    from pgstow.cli.profiles import free_name
    from pgstow.cli.workspace import open_workspace
    from pgstow.layout_file import read_layout

    given = read_layout(layout) if layout is not None else None
    duration_s, interval_s = (
        parse_seconds(duration, "--duration"),
        parse_seconds(interval, "--interval"),
    )
    # Opened first: an hour of samples must not end at a file that cannot be written.
    with open_workspace(workspace, create=True) as store:
        called = free_name(store, name)
        with interruptible() as stop, progress("observing") as update:
            profile = stage.observe(
                dsn,
                duration_s=duration_s,
                interval_s=min(interval_s, duration_s),
                layout=given,
                emulated=emulated_volumes(),
                commit_probe_per_s=commit_probe,
                clock=time.monotonic,
                sleep=time.sleep,
                progress=update,
                stop=stop,
            )
        number = store.add("profile", profile, called)
    if json:
        print_json(profile)
        return
    _print(profile, console())
    print_warnings((*profile.warnings, *verification.unexplained_warnings(profile)))
    _say_next(number, called)


def _from_workspace(path: Path, merge: str | None, name: str | None, *, json: bool) -> None:
    """List the profiles there are, or make one of several."""
    from pgstow.cli import profiles
    from pgstow.cli.output import console, print_json
    from pgstow.cli.workspace import open_workspace

    with open_workspace(path) as store:
        if merge is None:
            rows = _list_rows(store)
            if json:
                print_json(rows)
            elif rows:
                console().print(_list_table(rows))
            else:
                console().print("The workspace holds no profile; run pgstow observe.")
            return
        called = profiles.free_name(store, name)
        profile = profiles.merge(store, merge.split(","))
        number = store.add("profile", profile, called)
    if json:
        print_json(profile)
        return
    _print(profile, console())
    _say_next(number, called)


def _list_rows(store: "Store") -> "list[dict[str, object]]":
    """Every profile with what tells it from the others."""
    from pgstow.cli.loop import loop_of
    from pgstow.cli.profiles import profile_of

    entries = store.list("profile")
    if not entries:
        return []
    found = loop_of(store)
    roles = {found.before.id: "before"} if found.before is not None else {}
    roles |= {found.after.id: "after"} if found.after is not None else {}
    rows: list[dict[str, object]] = []
    for entry in entries:
        profile = profile_of(store, entry)
        tps = profile.activity.transactions.mean
        active = profile.activity.active_sessions.mean
        rows.append(
            {
                "number": entry.id,
                "name": entry.name,
                "started_at": profile.started_at,
                "seconds": profile.seconds,
                "tps": tps,
                "latency_ms": active / tps * 1000 if tps > 0 else None,
                "relations": len(profile.server.relations),
                "volumes": [volume.name for volume in profile.layout.volumes],
                "system_identifier": profile.server.system_identifier,
                "report": roles.get(entry.id),
            }
        )
    return rows


def _list_table(rows: "Sequence[dict[str, object]]") -> "Table":
    """The list for people; ``report`` says what the page takes a profile for."""
    from rich.table import Table
    from rich.text import Text

    from pgstow.units import format_duration

    made = Table(box=None, pad_edge=False)
    for title in ("#", "name", "observed", "for", "TPS", "latency", "volumes", "in the report"):
        right = title in ("#", "for", "TPS", "latency")
        made.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        latency, volumes = row["latency_ms"], row["volumes"]
        assert isinstance(volumes, list)
        cells = (
            str(row["number"]),
            str(row["name"] or ""),
            str(row["started_at"])[:16].replace("T", " "),
            format_duration(float(str(row["seconds"]))),
            f"{row['tps']:,.0f}",
            "" if latency is None else f"{latency:,.2f} ms",
            ", ".join(volumes),
            str(row["report"] or ""),
        )
        made.add_row(*(Text(shown(cell)) for cell in cells))
    return made


def _say_next(number: int, name: str | None) -> None:
    from pgstow.cli.output import console

    called = f" ({name})" if name else ""
    console().print(
        f"Kept as profile {number}{called}; next: pgstow explain, or pgstow plan --tps 2x",
        markup=False,
        soft_wrap=True,
    )


def emulated_volumes() -> "tuple[Volume, ...]":
    """The emulated volumes that are up and mounted; none where their record cannot be read."""
    import os

    from pgstow import emulate

    directory = os.environ.get("PGSTOW_EMULATOR", str(emulate.DEFAULT_STATE_DIRECTORY))
    try:
        return tuple(one.volume for one in emulate.emulated_volumes(Path(directory)))
    except (OSError, PgstowError):
        return ()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a request to stop; the second one interrupts at once."""
    import signal

    requests = 0

    def request_stop(_number: int, _frame: object) -> None:
        nonlocal requests
        requests += 1
        if requests > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, request_stop)
    try:
        yield lambda: requests > 0
    finally:
        signal.signal(signal.SIGINT, before)


def _print(profile: "Profile", target: "Console") -> None:
    from pgstow.units import format_duration

    databases = count_of(len(profile.server.databases), "database")
    target.print(
        f"PostgreSQL {profile.server.version}, {databases},"
        f" {len(profile.server.relations)} relations; {profile.samples} samples"
        f" over {format_duration(profile.seconds)}"
    )
    target.print(_totals(profile))
    if profile.host is not None:
        target.print(_devices(profile))
    if profile.demands:
        target.print(_relations(profile))


def _totals(profile: "Profile") -> "Table":
    from pgstow.model import Rate
    from pgstow.units import format_rate, format_size

    def each(rate: Rate) -> tuple[str, str]:
        spread = "" if rate.stdev is None else f"± {rate.stdev:,.1f}"
        return f"{rate.mean:,.1f}", spread

    def size(rate: Rate) -> tuple[str, str]:
        spread = "" if rate.stdev is None else f"± {format_size(rate.stdev)}"
        return format_rate(rate.mean), spread

    table = _table("Per second", ">Mean", ">Spread")
    activity, wal, background = profile.activity, profile.wal, profile.background
    table.add_row("Transactions", *each(activity.transactions))
    table.add_row("  that write", *each(activity.write_transactions))
    table.add_row("Sessions at work (mean)", *each(activity.active_sessions))
    table.add_row("WAL", *size(wal.bytes))
    table.add_row("WAL flushes", *each(wal.syncs))
    table.add_row("WAL full-page images", *each(wal.full_page_images))
    table.add_row("Blocks written: checkpointer", *each(background.checkpointer))
    table.add_row("Blocks written: background writer", *each(background.background_writer))
    table.add_row("Blocks written: backends", *each(background.backends))
    table.add_row("Temporary files", *size(background.temp_bytes))
    if profile.host is not None:
        table.add_row(
            f"CPU cores at work (of {profile.host.cores})", *each(profile.host.busy_cores)
        )
    if wal.sync_us is not None:
        table.add_row("One WAL flush", f"{wal.sync_us:,.0f} µs", "")
    if profile.commit_ms:
        times = sorted(profile.commit_ms)
        p99 = times[min(len(times) - 1, round(0.99 * len(times)))]
        mean = sum(times) / len(times)
        table.add_row("One commit (probe)", f"{mean:.2f} ms", f"p99 {p99:.2f} ms")
    return table


def _devices(profile: "Profile") -> "Table":
    from pgstow.units import format_rate

    assert profile.host is not None
    # iostat's words: who looks at disks knows them
    table = _table("Volume", "Device", ">r/s", ">w/s", ">f/s", ">Read", ">Written")
    for column in (">r_await", ">w_await", ">aqu-sz"):
        _column(table, column)
    for device in profile.host.devices:
        if device.volume is None:
            continue
        table.add_row(
            device.volume,
            shown(device.device),
            f"{device.reads.mean:,.0f}",
            f"{device.writes.mean:,.0f}",
            "" if device.flushes is None else f"{device.flushes.mean:,.0f}",
            format_rate(device.read_bytes.mean),
            format_rate(device.write_bytes.mean),
            "" if device.read_ms is None else f"{device.read_ms:.2f}",
            "" if device.write_ms is None else f"{device.write_ms:.2f}",
            f"{device.queue.mean:.1f}",
        )
    return table


@dataclass
class _Asked:
    """What a relation, with its TOAST, or a parent's partitions on one volume ask for."""

    name: str
    volume: str
    relations: int = 0
    size_bytes: int = 0
    reads: float = 0.0
    scanned_bytes: float = 0.0
    writes: float = 0.0
    is_used: bool = False  # whether there is a demand, though the cache may have served it whole

    @property
    def blocks(self) -> float:
        from pgstow.units import BLOCK_BYTES

        return self.reads + self.scanned_bytes / BLOCK_BYTES + self.writes


def _asked(profile: "Profile") -> list[_Asked]:
    """The busiest first."""
    names = profile.server.shown_as()
    demands = {demand.relation: demand for demand in profile.demands}
    found: dict[tuple[str, str], _Asked] = {}
    for relation in profile.server.relations:
        volume = profile.layout.volume_of(relation.owner).name
        name = str(names[relation.id][0])
        one = found.setdefault((volume, name), _Asked(name, volume))
        one.relations += relation.owner == relation.id
        one.size_bytes += relation.size_bytes
        demand = demands.get(relation.id)
        if demand is not None:
            one.is_used = True
            one.reads += demand.random_reads.mean
            one.scanned_bytes += demand.sequential_read_bytes.mean
            one.writes += demand.block_writes.mean
    return sorted((one for one in found.values() if one.is_used), key=lambda one: -one.blocks)


def _relations(profile: "Profile") -> "Table":
    """The busiest relations."""
    from pgstow.units import format_rate, format_size

    ranked = _asked(profile)
    total = sum(one.blocks for one in ranked) or 1.0
    table = _table("Relation", ">Size", ">Reads/s", ">Scanned", ">Writes/s", ">Share", "Volume")
    for one in ranked[:_TOP]:
        parts = f" ({one.relations} partitions)" if one.relations > 1 else ""
        table.add_row(
            f"{shown(one.name)}{parts}",
            format_size(one.size_bytes),
            f"{one.reads:,.0f}",
            format_rate(one.scanned_bytes) if one.scanned_bytes else "",
            f"{one.writes:,.0f}",
            f"{one.blocks / total:.1%}",
            shown(one.volume),
        )
    if len(ranked) > _TOP:
        table.caption = f"and {len(ranked) - _TOP} more; --json has them all"
    return table


def _table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        _column(table, column)
    return table


def _column(table: "Table", title: str) -> None:
    """Add a column; a title that begins with > is of figures, set to the right."""
    name = title.removeprefix(">")
    table.add_column(
        name,
        justify="right" if title != name else "left",
        no_wrap=True,
        overflow="fold",
    )
