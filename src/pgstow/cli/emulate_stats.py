"""``pgstow emulate stats`` and ``pgstow emulate trace``: what emulated volumes have done."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options, output
from pgstow.cli.emulate import DEFAULT_STATE_DIR, StateDir, commands
from pgstow.cli.emulate_would import print_would, volumes_up
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.emulate.statistics import LogPage, VolumeMetrics


@commands.command("stats")
def stats(
    *,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Show CloudWatch's metrics for each interval, such as 5s."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N intervals; else at Ctrl-C.")
    ] = None,
    histogram: Annotated[
        bool, typer.Option("--histogram", help="Show the latency histograms too.")
    ] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print Prometheus's text format.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show what the volumes have done, in the terms of CloudWatch and of the EBS NVMe log page.

    Without --interval: the sums since each volume was made. The same is served over HTTP by
    pgstow emulate up --metrics PORT. Example: sudo pgstow emulate stats --interval 5s
    """
    from pgstow.emulate import metrics, statistics, watch

    if interval is not None:
        _print_intervals(state_dir, options.parse_seconds(interval, "--interval"), count, json)
        return
    present = watch.read_statistics(state_dir)
    if prometheus:
        output.write_data(metrics.exposition(present).decode())
        return
    pages = [statistics.log_page(volume) for volume in present.volumes]
    if json:
        output.print_json(pages)
        return
    _print_pages(pages)
    if histogram:
        for page in pages:
            _print_histogram(page)


def _print_intervals(state_dir: Path, seconds: float, count: int | None, json: bool) -> None:
    from pgstow.emulate import watch

    if seconds <= 0:
        raise UserError("--interval must be longer than nothing", "write --interval 5s")
    for volumes in watch.watch(state_dir, seconds, count):
        if json:
            output.print_json(volumes)
        else:
            _print_metrics(volumes)


def _print_pages(pages: "Sequence[LogPage]") -> None:
    from pgstow.units import format_size

    columns = (
        "volume",
        "reads",
        "writes",
        "read",
        "written",
        "read p50",
        "p99",
        "write p50",
        "p99",
    )
    rows = []
    for page in pages:
        found = (page.read_us_p50, page.read_us_p99, page.write_us_p50, page.write_us_p99)
        latencies = [_time(microseconds) for microseconds in found]
        bytes_ = (format_size(page.total_read_bytes), format_size(page.total_write_bytes))
        counts = (f"{page.total_read_ops:,}", f"{page.total_write_ops:,}")
        rows.append([page.name, *counts, *bytes_, *latencies])
    console = output.console()
    console.print(output.table(columns, rows))
    exceeded = (
        "volume",
        "beyond its IOPS",
        "throughput",
        "beyond the instance's IOPS",
        "throughput",
        "answers late by",
    )
    rows = [
        [
            page.name,
            _time(page.ebs_volume_performance_exceeded_iops),
            _time(page.ebs_volume_performance_exceeded_tp),
            _time(page.ec2_instance_ebs_performance_exceeded_iops),
            _time(page.ec2_instance_ebs_performance_exceeded_tp),
            _time(page.late_us_mean),
        ]
        for page in pages
    ]
    console.print()
    console.print(output.table(exceeded, rows))


def _time(microseconds: float | None) -> str:
    from pgstow.units import format_duration

    if microseconds is None:
        return "–"
    return "0" if microseconds == 0 else format_duration(microseconds / 1e6)


_BAR = 40


def _print_histogram(page: "LogPage") -> None:
    console = output.console()
    kinds = (("reads", page.read_io_latency_histogram), ("writes", page.write_io_latency_histogram))
    for kind, bins in kinds:
        most = max((one.count for one in bins), default=0)
        if not most:
            continue
        console.print(f"\n{page.name}, {kind}", markup=False)
        first = next(index for index, one in enumerate(bins) if one.count)
        for one in bins[first:]:
            below = "more" if one.high_us is None else f"under {_time(one.high_us)}"
            bar = "█" * round(one.count / most * _BAR)
            console.print(f"{below:>15} {one.count:>12,} {bar}", markup=False)


def _print_metrics(volumes: "Sequence[VolumeMetrics]") -> None:
    columns = ("volume", "IOPS", "MB/s", "queue", "read ms", "write ms", "idle", "burst", "beyond")
    rows = []
    for volume in volumes:
        metrics = volume.metrics
        beyond = [text for name, text in _CHECKS if metrics[name]]
        if volume.is_limited_by_emulator:
            late = f", answers {_time(volume.late_us)} late" if volume.late_us else ""
            beyond = [f"limited by the emulator{late}"]
        rows.append(
            [
                volume.name,
                f"{metrics['VolumeAvgIOPS']:,.0f}",
                f"{metrics['VolumeAvgThroughput'] / 1e6:,.1f}",
                f"{metrics['VolumeQueueLength']:,.1f}",
                _number(metrics.get("VolumeAvgReadLatency"), ".2f"),
                _number(metrics.get("VolumeAvgWriteLatency"), ".2f"),
                f"{metrics['VolumeIdleTime'] / volume.seconds:.0%}",
                _number(metrics.get("BurstBalance"), ".1f", "%"),
                ", ".join(beyond) or "–",
            ]
        )
    output.console().print(output.table(columns, rows))


_CHECKS = (
    ("VolumeIOPSExceededCheck", "IOPS"),
    ("VolumeThroughputExceededCheck", "throughput"),
    ("InstanceEBSIOPSExceededCheck", "instance's IOPS"),
    ("InstanceEBSThroughputExceededCheck", "instance's throughput"),
    ("VolumeStalledIOCheck", "stalled"),
)


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"


trace = typer.Typer(help="Record every request to emulated volumes.", no_args_is_help=True)
commands.add_typer(trace, name="trace")


@trace.command("start")
def start(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new CSV file.")],
    *,
    volume: Annotated[
        list[str] | None, typer.Option("--volume", help="Only this volume; may be repeated.")
    ] = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Begin to record every request into a file, to be run again by pgstow emulate replay.

    Example: sudo pgstow emulate trace start /var/tmp/trace.csv --volume data
    """
    from pgstow.emulate import watch

    if dry_run:
        names = [one.name for one in volumes_up(state_dir, volume)]
        print_would([f"record {', '.join(names)} to {file}"], json)
        return
    watch.start_recording(state_dir, file, volume or None)
    if json:
        output.print_json({"file": str(file), "volumes": volume})
    else:
        output.console().print(f"Recording to {file}.")


@trace.command("stop")
def stop(*, state_dir: StateDir = DEFAULT_STATE_DIR, json: options.Json = False) -> None:
    """End the recording and wait until its file is whole.

    Example: sudo pgstow emulate trace stop
    """
    from pgstow.emulate import watch

    recorded = watch.stop_recording(state_dir)
    if json:
        output.print_json(recorded)
        return
    text = f"{recorded.records:,} requests recorded"
    if recorded.dropped:
        text += f"; {recorded.dropped:,} came faster than the disk took them and are missing"
    output.console().print(f"{text}.")
