"""The storage's validity: borrowed speed, data not there yet, work put off, data in memory."""

from collections.abc import Collection, Mapping
from statistics import fmean

from pgstow.model import Device, DeviceUse, HostCap, HostSpec, Trial, Volume
from pgstow.units import MIB, format_duration, format_size, parse_duration
from pgstow.verification.experiments.case import Case, Finding

_BEYOND = 1.05  # of what is sustained; what is less is the kernel's counting
_CHECKPOINT_TIMEOUT_S = 300.0  # PostgreSQL's default
_WAL_RECORDS_PER_TRANSACTION = 0.1  # below, what WAL there is comes from the background


def volume_burst(
    case: Case, *, burst_s: Mapping[Volume, float | None], devices: Mapping[Volume, Device]
) -> Finding | None:
    """Credits of a volume that pay for the measured time: by what it was measured to do.

    Only where its devices were not measured does the layout say how long its credits last.
    """
    layout = case.treatment.layout
    found, windows = [], []
    for volume in layout.volumes if layout else ():
        full = burst_s.get(volume)
        if full is None:
            continue
        used = _credits_used(case, volume, devices.get(volume))
        if used is not None:
            found.append((used, volume))
        else:
            credits = 1.0 if volume.burst_credits is None else volume.burst_credits
            windows.append((full * credits, volume))
    if found:
        (share, text), volume = max(found, key=lambda one: one[0][0])
        if share > _BEYOND:
            what = f"volume {volume.name} ({volume.type}) {text}: credits paid for the rest"
            return Finding(share, what)
    if not windows:
        return None
    window_s, volume = max(windows, key=lambda one: one[0])
    return _burst(case, f"the burst of volume {volume.name} ({volume.type})", window_s)


def _credits_used(case: Case, volume: Volume, device: Device | None) -> tuple[float, str] | None:
    """A volume's load relative to what it sustains, by device counters, and as text."""
    measured = [
        (
            sum(one.reads_per_s + one.writes_per_s for one in used),
            sum(one.read_bytes_per_s + one.write_bytes_per_s for one in used),
        )
        for trial in case.trials
        if (used := _devices_of(trial, {volume.name}))
    ]
    if not measured or device is None or device.member.burst is None:
        return None
    sustained = device.member.burst.refill_per_s * device.stripes
    iops, rate = (fmean(values) for values in zip(*measured, strict=True))
    if device.member.burst.kind == "iops":
        return iops / sustained, f"did {iops:,.0f} operations/s and sustains {sustained:,.0f}"
    # Each operation that is not part of a longer one costs a whole unit.
    taken = max(rate, iops * device.member.io_unit_bytes)
    text = f"was asked up to {taken / MIB:,.0f} MiB/s of credits and sustains"
    return taken / sustained, f"{text} {sustained / MIB:,.0f}"


def _devices_of(trial: Trial, names: Collection[str]) -> tuple[DeviceUse, ...]:
    return tuple(one for one in trial.instruments.devices or () if one.volume in names)


def instance_burst(
    case: Case,
    *,
    burst_s: Mapping[HostSpec, float | None],
    devices: Mapping[Volume, Device],
    caps: Mapping[HostSpec, HostCap],
) -> Finding | None:
    """An instance's burst above its own baseline in the measured time: by what was measured."""
    layout = case.treatment.layout
    host = layout.host if layout else None
    full = burst_s.get(host) if host else None
    if layout is None or host is None or full is None:
        return None
    cap = caps.get(host)
    remote = {v.name for v in layout.volumes if v in devices and devices[v].uses_host_cap}
    measured = [
        sum(one.reads_per_s + one.writes_per_s for one in used)
        for trial in case.trials
        if (used := _devices_of(trial, remote))
    ]
    if measured and cap is not None and cap.iops is not None:
        iops = fmean(measured)
        if iops <= _BEYOND * cap.iops:
            return None
        text = f"did {iops:,.0f} operations/s and sustains {cap.iops:,.0f}"
        return Finding(iops / cap.iops, f"instance {host.instance} {text}: its burst paid the rest")
    # An emulated host bursts only where the layout says so; a real one does by itself.
    unsaid = 0.0 if case.experiment.target == "emulated" else 1.0
    fraction = unsaid if host.burst_credits is None else host.burst_credits
    return _burst(case, f"the burst of instance {host.instance}", full * fraction)


def _burst(case: Case, what: str, window_s: float) -> Finding | None:
    schedule = case.treatment.schedule
    end_s = schedule.warm_up_s + schedule.duration_s
    if window_s <= schedule.warm_up_s:
        return None
    lasts = f"lasts at least {format_duration(window_s)} at full speed"
    if window_s >= end_s:
        text = f"{what} {lasts}, the trial {format_duration(end_s)}: it measures the burst alone"
    else:
        text = f"{what} {lasts}: it can end within the trial of {format_duration(end_s)}"
    return Finding(window_s, text)


def lazy_loading(case: Case) -> Finding | None:
    """A volume whose data come from a snapshot as they are first touched."""
    layout = case.treatment.layout
    names = [
        volume.name
        for volume in (layout.volumes if layout else ())
        if volume.from_snapshot and not volume.fast_snapshot_restore
    ]
    if not names:
        return None
    plural = "s" if len(names) > 1 else ""
    return Finding(
        len(names),
        f"volume{plural} {', '.join(names)}: data come from a snapshot when they are first touched",
    )


def no_checkpoint(case: Case) -> Finding | None:
    """A load that writes, measured for less than the time between checkpoints, and none seen."""
    timeout_s = _checkpoint_timeout_s(case)
    duration_s = case.treatment.schedule.duration_s
    if timeout_s is None or duration_s >= timeout_s or not _writes(case):
        return None
    seen = (trial.instruments.checkpoints for trial in case.trials)
    if any(one is not None and one.timed + one.requested > 0 for one in seen):
        return None
    return Finding(
        timeout_s / duration_s,
        f"no checkpoint in a trial of {format_duration(duration_s)}, with one every "
        f"{format_duration(timeout_s)} at the latest: their writes are not in the figures",
    )


def _checkpoint_timeout_s(case: Case) -> float | None:
    """The server's setting, or PostgreSQL's default; None where it cannot be read."""
    layout = case.treatment.layout
    settings = dict(layout.postgres.settings if layout else ()) | dict(
        case.treatment.server.settings
    )
    text = settings.get("checkpoint_timeout")
    if text is None:
        return _CHECKPOINT_TIMEOUT_S
    try:
        return float(text) if text.strip().isdigit() else float(parse_duration(text))
    except ValueError:
        return None


def _writes(case: Case) -> bool:
    """Whether the transactions themselves write WAL; not known is no."""
    return any(
        trial.instruments.wal.records > _WAL_RECORDS_PER_TRANSACTION * trial.outcome.transactions
        for trial in case.trials
        if trial.instruments.wal is not None
    )


def in_memory(case: Case, *, memory_bytes: int | None) -> Finding | None:
    """Data that the server's memory holds, so that reads ask nothing of the storage."""
    memory = case.treatment.server.memory_bytes or memory_bytes
    sizes = [
        trial.instruments.database_bytes
        for trial in case.trials
        if trial.instruments.database_bytes is not None
    ]
    if memory is None or not sizes or max(sizes) >= memory:
        return None
    size = max(sizes)
    return Finding(
        memory / max(size, 1),
        f"the database ({format_size(size)}) is smaller than memory ({format_size(memory)}): "
        "reads are served from there",
    )
