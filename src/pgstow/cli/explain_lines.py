"""A predicted layout as text, in the manner of EXPLAIN: a tree with its figures in brackets."""

from typing import TYPE_CHECKING

from pgstow.cli.names import fitted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgstow.model import LatencyMs, Measurement, Prediction, Profile, Volume, VolumeLoad
    from pgstow.model.statistics import Comparison
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
            yield from _share(share, loads[volume.name], width)
        if not held.shares:
            yield "        ->  nothing"


def observed_lines(observed: "Measurement", comparisons: "Sequence[Comparison]") -> "Iterator[str]":
    """What was observed; beside what was predicted where that is of the same layout."""
    speed = observed.performance
    if not comparisons:
        yield (
            f"Observed on the server's own layout: tps={speed.tps:,.0f}; transaction"
            f" {_latency(speed.latency_ms)}; commit {_latency(speed.commit_ms)}"
        )
    else:
        yield f"{'Held against the observed:':<32}{'observed':>12}{'predicted':>12}{'error':>10}"
        for one in comparisons:
            if one.measured is None or one.predicted is None or one.unit == "$":
                continue
            error = "" if one.error_pct is None else f"{one.error_pct:+,.0f} %"
            missed = "  missed" if one.is_missed else ""
            cells = f"{_figure(one.measured, one.unit):>12}{_figure(one.predicted, one.unit):>12}"
            yield f"  {_title(one.metric):<30}{cells}{error:>10}{missed}"
    yield (
        "iops: device operations at the predicted speed. observed: blocks per second that"
        f" PostgreSQL counted at {speed.tps:,.0f} TPS; the page cache, read-ahead and merging are"
        " between the two."
    )
    yield "Next: pgstow explain --why RELATION, or pgstow plan --tps 2x"


def _title(metric: str) -> str:
    """The figure's name within a line: only an abbreviation begins with a capital."""
    from pgstow.model.statistics import PERFORMANCE_METRICS

    title = "TPS" if metric == "tps" else PERFORMANCE_METRICS[metric].title
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _figure(value: float, unit: str) -> str:
    if unit == "per second":
        return f"{value:,.0f}"
    return f"{value:,.0f} {unit}" if unit == "µs" else f"{value:,.2f} {unit}"


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


def _share(share: "Share", load: "VolumeLoad", width: int | None) -> "Iterator[str]":
    """What is on a volume, and what it asks, on a second line where one is short."""
    tail = f"  ({' '.join(_figures(share, load))})"
    if share.name is None:
        what = f"{share.relations:,} more relations" if share.relations else share.kind
        yield f"        ->  {what[0].upper()}{what[1:]}{tail}"
        return
    head = f"        ->  {share.kind.capitalize()} "
    if width is None or len(head) + len(tail) + len(shown(share.name)) <= width:
        yield f"{head}{fitted(share.name, None)}{tail}"
        return
    yield f"{head}{fitted(share.name, max(_LEAST_NAME, width - len(head)))}"
    yield f"            {tail.strip()}"


def _figures(share: "Share", load: "VolumeLoad") -> "list[str]":
    from pgstow.units import format_size

    figures = [f"partitions={share.relations:,}"] if share.relations > 1 and share.name else []
    figures.append(f"iops={_count(share.iops)}")
    if share.observed_blocks is not None:
        figures.append(f"observed={_count(share.observed_blocks)}")
    operations = load.reads + load.writes
    if operations > 0:
        part = min(share.iops / operations, 1.0)
        figures.append(f"of volume={'<1%' if 0 < part < 0.01 else f'{part:.0%}'}")
    if share.size_bytes is not None:
        figures.append(f"size={format_size(share.size_bytes)}")
    if share.density is not None and share.relations:
        figures.append(f"iops/GiB={_count(share.density)}")
    return figures


def _count(value: float) -> str:
    """A rate with as many digits as it is worth; what is more than nothing is not shown as 0.

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
