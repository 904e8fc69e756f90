"""A predicted layout as text, in the manner of EXPLAIN: a tree with its figures in brackets."""

from typing import TYPE_CHECKING

from pgstow.cli.names import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgstow.model import LatencyMs, Prediction, Profile, Volume, VolumeLoad
    from pgstow.planning import Contents, Share

_LEAST_NAME = 24  # columns: less of a name says nothing


def lines(
    prediction: "Prediction", profile: "Profile", *, width: int | None = None
) -> "Iterator[str]":
    """A prediction as text; ``width`` columns are there for it, None: as many as it needs."""
    from pgstow import planning

    yield from _head(prediction)
    loads = {load.volume: load for load in prediction.volumes}
    for held in planning.contents(prediction, profile):
        volume = prediction.layout.volume(held.volume)
        yield from _volume(volume, loads[volume.name], held)
        for share in held.shares:
            yield _share(share, loads[volume.name], width)
        if not held.shares:
            yield "        ->  nothing"


def _head(prediction: "Prediction") -> "Iterator[str]":
    from pgstow.units import format_usd

    speed, layout = prediction.performance, prediction.layout
    where = " ".join(
        part for part in (layout.host.platform, layout.host.instance, layout.host.region) if part
    )
    low, high = prediction.tps_interval
    yield (
        f"Layout on {where}  (tps={speed.tps:,.0f} [{low:,.0f}..{high:,.0f}]"
        f" price={format_usd(speed.usd_month)}/month"
        f" per 1000 tps={format_usd(speed.usd_per_1000_tps)})"
    )
    yield f"  Latency: transaction {_latency(speed.latency_ms)}; commit {_latency(speed.commit_ms)}"
    yield f"  Limit: {prediction.bottleneck}"
    if prediction.cpu_utilisation is not None:
        yield f"  CPU: {prediction.cpu_utilisation:.0%} busy"
    if prediction.host_utilisation is not None:
        yield f"  Instance storage cap: {prediction.host_utilisation:.0%} used"


def _volume(volume: "Volume", load: "VolumeLoad", held: "Contents") -> "Iterator[str]":
    from pgstow.units import format_size, format_usd

    stripes = f"{volume.stripes} × " if volume.stripes > 1 else ""
    yield (
        f"  ->  Volume {volume.name}: {stripes}{volume.type} {format_size(volume.size_bytes)}"
        f" at {fitted(volume.mount, None)}  (price={format_usd(load.usd_month)}"
        f" utilisation={load.utilisation:.0%} limit={load.binding})"
    )
    yield f"        Load: {_load(load)}"
    space = held.used_bytes / volume.total_bytes
    times = [
        f"{name} {value:.2f} ms"
        for name, value in (("read", load.read_ms), ("write", load.write_ms))
        if value
    ]
    used = f"{format_size(held.used_bytes)} of {format_size(volume.total_bytes)} ({space:.0%})"
    yield f"        Space: {used}" + (f"; latency: {', '.join(times)}" if times else "")


def _load(load: "VolumeLoad") -> str:
    """Operations and bytes a second, each of its limit."""
    from pgstow.units import MIB, format_rate

    operations = load.reads + load.writes
    text = f"{operations:,.0f} IOPS ({load.reads:,.0f} reads, {load.writes:,.0f} writes)"
    if load.iops_limit:
        text += f" of {load.iops_limit:,.0f}"
    text += f", {load.bytes_per_second / MIB:,.1f} MiB/s"
    if load.bytes_limit:
        text += f" of {format_rate(load.bytes_limit)}"
    return text


def _share(share: "Share", load: "VolumeLoad", width: int | None) -> str:
    """One line of what lies on a volume: what it is, and what it asks."""
    from pgstow.units import format_size

    operations = load.reads + load.writes
    figures = [f"iops={_count(share.iops)}"]
    if operations > 0:
        part = min(share.iops / operations, 1.0)
        figures.append(f"of volume={'<1%' if 0 < part < 0.01 else f'{part:.0%}'}")
    if share.size_bytes is not None:
        figures.append(f"size={format_size(share.size_bytes)}")
    if share.density is not None and share.relations:
        figures.append(f"iops/GiB={_count(share.density)}")
    tail = f"  ({' '.join(figures)})"
    if share.name is None:
        what = f"{share.relations:,} more relations" if share.relations else share.kind
        return f"        ->  {what[0].upper()}{what[1:]}{tail}"
    kind = share.kind.capitalize()
    head = f"        ->  {kind} "
    room = None if width is None else max(_LEAST_NAME, width - len(head) - len(tail))
    return f"{head}{fitted(share.name, room)}{tail}"


def _count(value: float) -> str:
    """A rate with as many digits as it is worth; what is not nothing is not said to be 0.

    >>> _count(1234.5), _count(12.34), _count(0.5), _count(0.0001), _count(0.0)
    ('1,234', '12.3', '0.50', '<0.01', '0')
    """
    if value == 0:
        return "0"
    if value < 0.01:
        return "<0.01"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _latency(latency: "LatencyMs") -> str:
    if latency.mean is None:
        return "not known"
    p99 = "" if latency.p99 is None else f", p99 {latency.p99:.2f} ms"
    return f"mean {latency.mean:.2f} ms{p99}"
