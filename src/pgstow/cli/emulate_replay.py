"""``pgstow emulate replay``: a recorded trace in virtual time, beside what was recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli import options, output
from pgstow.cli.emulate import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.model import Warning
    from pgstow.prediction.replay import LatencySummary, Replay


@commands.command("replay")
def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="What was recorded: CSV.")],
    layout_file: Annotated[
        Path | None,
        typer.Option("--layout", metavar="LAYOUT", help="Replay on this layout's volumes instead."),
    ] = None,
    credits: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            callback=options.finite,
            help="Share of burst credits at the start, for all volumes.",
        ),
    ] = None,
    closed_loop: Annotated[
        bool,
        typer.Option(
            "--closed-loop",
            help="Let requests follow the answers they followed, not the recording's clock.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the latencies drawn.")] = 1,
    json: options.Json = False,
) -> None:
    """Run a recorded trace again in virtual time, and compare; needs no root.

    Without --layout on the devices as they were recorded, which tells how true the emulator was;
    with it, what the same requests would have taken there. By the recording's
    clock, a volume that is too slow queues without end; clients that wait for
    answers ask less of it: --closed-loop.
    Example: pgstow emulate replay run.csv --layout cheaper.toml
    """
    from pgstow import trace_file
    from pgstow.prediction.replay import replay as run

    compensation: Any = None
    warnings: list[Warning] = []
    recording = None
    if layout_file is None or trace_file.has_recording(trace):
        recording = trace_file.read_recording(trace)
        compensation = recording.compensation
        warnings = _cut_short(recording.dropped)
    if layout_file is not None:
        devices, host = _of_layout(layout_file)
    else:
        assert recording is not None
        devices, host = recording.initial_devices(), recording.initial_host()
    if credits is not None:
        devices = [_with_credits(device, credits) for device in devices]
    output.print_warnings(warnings)
    result = run(
        trace, devices, host, compensation=compensation, seed=seed, closed_loop=closed_loop
    )
    if json:
        output.print_json(result)
    else:
        _print(result)


def _cut_short(dropped: int) -> "list[Warning]":
    from pgstow.model import Warning

    if not dropped:
        return []
    text = f"the recording was full: {dropped:,} requests came after it ended"
    return [Warning("trace-cut-short", text, "record for a shorter time")]


def _of_layout(path: Path) -> "tuple[list[dict[str, Any]], dict[str, Any] | None]":
    from dataclasses import asdict

    from pgstow import catalog
    from pgstow import layout_file as files

    layout = files.read_volumes(path)
    rules = catalog.load()
    devices = [asdict(rules.device(volume, layout.host)) for volume in layout.volumes]
    return devices, asdict(rules.host_cap(layout.host))


def _with_credits(device: "dict[str, Any]", share: float) -> "dict[str, Any]":
    burst = device["member"].get("burst")
    if burst is None:
        return device
    return {**device, "member": {**device["member"], "burst": {**burst, "initial": share}}}


def _print(result: "Replay") -> None:
    from pgstow.units import format_duration

    console = output.console()
    console.print(_table(result))
    console.print()
    for volume in result.volumes:
        if not volume.kinds:
            continue
        if volume.exceeded_s.any > 0:
            seconds = format_duration(volume.exceeded_s.any)
            console.print(f"{volume.name}: over a limit for {seconds}", markup=False)
        if volume.credits:
            left = f"{volume.credits[0][1]:.1f} % to {volume.credits[-1][1]:.1f} %"
            console.print(f"{volume.name}: credits from {left}", markup=False)
    took = f"{format_duration(result.recorded_s)} recorded"
    console.print(
        f"{result.requests:,} requests; {took}, {format_duration(result.replayed_s)} replayed"
    )


def _table(result: "Replay") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    titles = ("count", "mean", "p50", "p90", "p99", "p99.9", "max", "IOPS", "MB/s")
    for title in ("volume", "kind", ""):
        table.add_column(title)
    for title in titles:
        table.add_column(title, justify="right")
    for volume in result.volumes:
        for kind in volume.kinds:
            table.add_row(volume.name, kind.kind, "recorded", *_cells(kind.recorded))
            table.add_row("", "", "replayed", *_cells(kind.replayed))
            off = ["", _percent(kind.mean_difference), "", "", _percent(kind.p99_difference)]
            table.add_row("", "", "difference", *off)
    return table


def _cells(summary: "LatencySummary") -> "Sequence[str]":
    latencies = (
        summary.mean_us,
        summary.p50_us,
        summary.p90_us,
        summary.p99_us,
        summary.p999_us,
        summary.max_us,
    )
    return (
        f"{summary.count:,}",
        *(_latency(us) for us in latencies),
        f"{summary.iops:,.0f}",
        f"{summary.bytes_per_s / 1e6:,.1f}",
    )


def _latency(microseconds: float) -> str:
    from pgstow.units import format_duration

    return "0" if microseconds <= 0 else format_duration(microseconds / 1e6)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:+.1f} %"
