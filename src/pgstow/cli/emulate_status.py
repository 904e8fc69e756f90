"""What ``pgstow emulate`` shows of volumes: tables for people, JSON for programs."""

from typing import TYPE_CHECKING

from pgstow.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from pgstow.emulate import Action, EmulatorStatus, Lost, ServerFault, VolumeStatus


def print_actions(actions: "Sequence[Action]", otherwise: str) -> None:
    console = output.console()
    for action in actions:
        console.print(action.text, markup=False)
    if not actions:
        console.print(otherwise)


def print_status(status: "EmulatorStatus", json: bool) -> None:
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
    if status.faults:
        console.print(fault_table(status.faults))
        console.print()
    for line in _notes(status):
        console.print(line, markup=False, soft_wrap=True)
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
_FAULTS = (
    ("fault", "right"),
    ("kind", "left"),
    ("volumes", "left"),
    ("state", "left"),
    ("until", "left"),
)
_TRAFFIC = (
    ("volume", "left"),
    ("in use", "right"),
    ("reads", "right"),
    ("writes", "right"),
    ("flushes", "right"),
    ("mean read", "right"),
    ("mean write", "right"),
)


def _table(columns: "tuple[tuple[str, str], ...]", rows: "Sequence[list[str]]") -> "Table":
    made = output.table([title for title, _ in columns], rows)
    for column, (_, side) in zip(made.columns, columns, strict=True):
        column.justify = "right" if side == "right" else "left"
    return made


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


def fault_table(faults: "Sequence[ServerFault]") -> "Table":
    """Faults, one a row."""
    return _table(_FAULTS, [_fault_row(fault) for fault in faults])


def _fault_row(fault: "ServerFault") -> list[str]:
    from pgstow.emulate import describe_fault
    from pgstow.units import format_duration

    waits = fault.state == "waiting"
    ends = "cleared" if fault.ends_in_s is None else f"in {format_duration(fault.ends_in_s)}"
    return [
        str(fault.id),
        describe_fault(fault.fault),
        "all" if fault.volumes is None else ", ".join(fault.volumes),
        f"in {format_duration(fault.starts_in_s)}" if waits else "active",
        ends,
    ]


def describe_lost(lost: "Lost") -> str:
    """What a power loss took from a volume."""
    from pgstow.units import format_size

    if not lost.unflushed_writes:
        return f"{lost.name}: lost nothing: all that was written had been flushed"
    return (
        f"{lost.name}: lost {lost.lost_writes:,} of {lost.unflushed_writes:,} unflushed writes,"
        f" {format_size(lost.lost_bytes)} of {format_size(lost.unflushed_bytes)}"
    )


def _notes(status: "EmulatorStatus") -> "Iterator[str]":
    """What is out of the ordinary: modifications under way, losses, writes at risk, files."""
    from pgstow.units import format_duration, format_size

    for volume in status.volumes:
        if volume.modification is not None:
            change = volume.modification
            yield (
                f"{volume.name}: optimising, {change.progress:.0%} done, complete in"
                f" {format_duration(change.ends_in_s)}; modified {volume.modifications_24h} of 4"
                " times in 24 h"
            )
        elif volume.modifications_24h:
            yield f"{volume.name}: modified {volume.modifications_24h} of 4 times in 24 h"
        if volume.is_limited_by_emulator:
            late = format_duration((volume.late_us_mean or 0.0) / 1e6)
            yield (
                f"{volume.name}: limited by the emulator: answers came {late} late on average;"
                " what was measured says nothing of the volume"
            )
        if volume.burst_balance_percent is not None:
            yield f"{volume.name}: {volume.burst_balance_percent:.1f} % of its burst credits left"
        if volume.volatile:
            writes, size = volume.unflushed_writes or 0, format_size(volume.unflushed_bytes or 0)
            yield f"{volume.name}: volatile; {writes:,} writes, {size}, are not flushed yet"
        if volume.backing.path is not None:
            kept = ", kept at down" if volume.backing.keep else ""
            yield f"{volume.name}: in {volume.backing.path}{kept}"
    for fault in status.faults:
        yield from (f"fault {fault.id}: {describe_lost(lost)}" for lost in fault.lost)


def _summary(status: "EmulatorStatus") -> str:
    if not status.is_running:
        return "The server has ended."
    parts = [f"server pid {status.pid}"]
    if status.host_cap is not None:
        from pgstow.emulate import describe_cap

        parts.append(f"host cap {describe_cap(status.host_cap)}")
    if status.metrics_port is not None:
        parts.append(f"metrics at http://127.0.0.1:{status.metrics_port}/metrics")
    if status.compensation is not None:
        read_us, write_us = status.compensation.read_us, status.compensation.write_us
        parts.append(f"the way there and back, {read_us:.0f} µs for reads and {write_us:.0f} µs")
        parts[-1] += " for writes, is taken off"
    return "; ".join(parts)
