"""``pgstow emulate forecast``: how long credits last under a load, in virtual time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options, output
from pgstow.cli.emulate import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.prediction.forecast import Forecast, HostCredits, VolumeForecast

_CHART_COLUMNS = 54
_BARS = " ▁▂▃▄▅▆▇█"
_PHASES_SHOWN = 24
_LIMITS = {
    "volume_iops": "its IOPS",
    "volume_throughput": "its throughput",
    "host_iops": "the host's IOPS",
    "host_throughput": "the host's throughput",
}


@commands.command("forecast")
def forecast(
    layout_file: Annotated[Path, typer.Argument(metavar="LAYOUT", help="The layout's TOML file.")],
    load_file: Annotated[
        Path, typer.Option("--load", metavar="FILE", help="What each volume is asked: TOML.")
    ],
    exact: Annotated[
        bool, typer.Option("--exact", help="Take every request by itself; slow for long loads.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of offsets, arrivals and latencies.")] = 1,
    json: options.Json = False,
) -> None:
    """Say when credits end, what is served then, and how long limits throttle; needs no root.

    Runs the emulator's device model in virtual time: a day takes about a second.
    Example: pgstow emulate forecast layout.toml --load day.toml
    """
    from pgstow import catalog
    from pgstow import layout_file as files
    from pgstow import load_file as loads
    from pgstow.prediction.forecast import forecast as run

    layout = files.read_volumes(layout_file)
    plan = loads.read_load(load_file)
    rules = catalog.load()
    devices = [rules.device(volume, layout.host) for volume in layout.volumes]
    result = run(plan, devices, rules.host_cap(layout.host), seed=seed, exact=exact)
    if json:
        output.print_json(result)
        return
    asked = {load.volume for load in plan.loads}
    for volume in result.volumes:
        if volume.name in asked:
            _print_volume(volume, result)
    _print_host(result.host_credits)


def _print_volume(volume: "VolumeForecast", result: "Forecast") -> None:
    from pgstow.units import format_duration, format_rate

    console = output.console()
    rate = volume.served * volume.bytes_per_request / result.duration_s
    wait = "" if volume.wait_ms_mean is None else f", mean wait {_ms(volume.wait_ms_mean)}"
    served = f"{volume.served:,.0f} of {volume.offered:,.0f} requests served"
    console.print(f"{volume.name}: {served}, {format_rate(rate)}{wait}", markup=False)
    exceeded = volume.exceeded_s
    if exceeded.any <= 0:
        console.print("  no limit was exceeded")
    else:
        each = [
            f"{text} {format_duration(getattr(exceeded, key))}"
            for key, text in _LIMITS.items()
            if getattr(exceeded, key) > 0
        ]
        total = format_duration(exceeded.any)
        console.print(f"  throttled for {total}: {', '.join(each)}", markup=False)
    if any(percent is not None for percent in volume.series.credits_percent):
        console.print(f"  {_credits(volume)}", markup=False)
        for line in _chart(volume.series.credits_percent, result.duration_s):
            console.print(f"  {line}", markup=False)
    console.print()
    console.print(_phase_table(volume))
    console.print()


def _credits(volume: "VolumeForecast") -> str:
    from pgstow.units import format_duration

    if volume.credits_first_empty_s is None:
        least = min(percent for percent in volume.series.credits_percent if percent is not None)
        return f"credits last; at least {least:.1f} % is left"
    first = format_duration(volume.credits_first_empty_s)
    return f"credits end after {first}; none for {format_duration(volume.credits_empty_s)} in all"


def _chart(percents: "Sequence[float | None]", duration_s: float) -> list[str]:
    """Credits over time as one line of bars, and its axis."""
    from pgstow.units import format_duration

    count = min(_CHART_COLUMNS, len(percents))
    bars = ""
    for column in range(count):
        part = percents[column * len(percents) // count : (column + 1) * len(percents) // count]
        known = [percent for percent in part if percent is not None]
        level = 0 if not known else round(min(known) / 100 * (len(_BARS) - 1))
        bars += "_" if level == 0 else _BARS[level]
    end = format_duration(duration_s)
    axis = "0" + end.rjust(count - 1) if count > len(end) else f"0 to {end}"
    return [f"{bars} BurstBalance, 0 to 100 %", axis]


def _phase_table(volume: "VolumeForecast") -> "Table":
    from rich.table import Table

    from pgstow.units import format_duration

    table = Table(box=None, pad_edge=False)
    for title in ("from", "to", "asked IOPS", "served IOPS", "mean wait", "throttled", "credits"):
        table.add_column("  " + title if title == "from" else title, justify="right")
    for phase in volume.phases[:_PHASES_SHOWN]:
        credits = phase.credits_percent_end
        table.add_row(
            format_duration(phase.start_s) if phase.start_s else "0",
            format_duration(phase.end_s),
            f"{phase.offered_iops:,.0f}",
            f"{phase.served_iops:,.0f}",
            "–" if phase.wait_ms_mean is None else _ms(phase.wait_ms_mean),
            format_duration(phase.exceeded_s) if phase.exceeded_s else "–",
            "–" if credits is None else f"{credits:.1f} %",
        )
    if len(volume.phases) > _PHASES_SHOWN:
        table.add_row(f"… {len(volume.phases) - _PHASES_SHOWN} more: --json")
    return table


def _print_host(credits: "HostCredits") -> None:
    from pgstow.units import format_duration

    for what, percents in (
        ("IOPS", credits.iops_percent),
        ("throughput", credits.throughput_percent),
    ):
        known = [percent for percent in percents if percent is not None]
        if not known:
            continue
        empty = next(
            (at for at, left in zip(credits.end_s, percents, strict=True) if (left or 0) < 0.01),
            None,
        )
        end = "lasts" if empty is None else f"ends by {format_duration(empty)}"
        text = f"the host's burst of {what} {end}; at least {min(known):.1f} % is left"
        output.console().print(text, markup=False)


def _ms(milliseconds: float) -> str:
    from pgstow.units import format_duration

    return format_duration(milliseconds / 1e3) if milliseconds > 0 else "0"
