"""``pgstow explain``: what a layout would do under the observed load, as a tree."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgstow.model import LatencyMs, Prediction, Profile, Volume, VolumeLoad


@app.command()
def explain(
    layout: Annotated[
        Path | None, typer.Argument(help="A layout file; without it, the server's own layout.")
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Predict throughput, latency, utilisation and price of a layout.

    Example: pgstow explain layout.toml
    """
    from dataclasses import replace

    from pgstow import catalog, prediction
    from pgstow.cli.catalog_sources import age_warnings
    from pgstow.cli.output import console, print_json, print_warnings
    from pgstow.cli.workspace import latest_profile, open_workspace
    from pgstow.layout_file import read_layout

    with open_workspace(workspace) as store:
        profile = latest_profile(store)
        wanted = profile.layout if layout is None else read_layout(layout)
        rules = catalog.load()
        warnings = rules.check(wanted)
        predicted = prediction.predict(profile, wanted, rules)
        old = age_warnings(rules, wanted.host)
        predicted = replace(predicted, warnings=(*predicted.warnings, *old))
        store.add("prediction", predicted)
    if json:
        print_json(predicted)
        return
    target = console()
    for line in lines(predicted, profile):
        target.print(line, markup=False, soft_wrap=True)
    print_warnings((*predicted.warnings, *warnings))


def lines(prediction: "Prediction", profile: "Profile") -> "Iterator[str]":
    """A prediction as text, in the manner of EXPLAIN: a tree with the costs in brackets."""
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
    yield f"  Latency: transaction {_ms(speed.latency_ms)}, commit {_ms(speed.commit_ms)}"
    yield f"  Limit: {prediction.bottleneck}"
    if prediction.cpu_utilisation is not None:
        yield f"  CPU: {prediction.cpu_utilisation:.0%} busy"
    if prediction.host_utilisation is not None:
        yield f"  Instance storage cap: {prediction.host_utilisation:.0%} used"
    loads = {load.volume: load for load in prediction.volumes}
    for volume in layout.volumes:
        yield from _volume_lines(volume, loads[volume.name], prediction, profile)


def _volume_lines(
    volume: "Volume", load: "VolumeLoad", prediction: "Prediction", profile: "Profile"
) -> "Iterator[str]":
    from pgstow.prediction import places
    from pgstow.units import format_rate, format_size, format_usd

    stripes = f"{volume.stripes} × " if volume.stripes > 1 else ""
    yield (
        f"  ->  Volume {volume.name}: {stripes}{volume.type} {format_size(volume.size_bytes)}"
        f" at {volume.mount}  (price={format_usd(load.usd_month)}"
        f" utilisation={load.utilisation:.0%} limit={load.binding})"
    )
    iops = "unlimited" if load.iops_limit is None else f"{load.iops_limit:,.0f} IOPS"
    rate = "" if load.bytes_limit is None else f" and {format_rate(load.bytes_limit)}"
    yield (
        f"        Load: {load.reads:,.0f} reads/s, {load.writes:,.0f} writes/s,"
        f" {format_rate(load.bytes_per_second)} of {iops}{rate}"
    )
    times = [
        f"{name} {value:.2f} ms"
        for name, value in (("read", load.read_ms), ("write", load.write_ms))
        if value
    ]
    if times:
        yield f"        Device time: {', '.join(times)}"
    where = places(prediction.layout, profile.server.relations)
    held = [
        (relation.size_bytes, str(relation.id).replace("\n", "\\n"))
        for relation in profile.server.relations
        if where[relation.id] == volume
    ]
    place = prediction.layout.postgres
    parts = ["data directory"] if place.data == volume.name else []
    parts += ["pg_wal"] if place.wal == volume.name else []
    parts += ["temporary files"] if volume.name in (place.temp or (place.data,)) else []
    largest = sorted(held, reverse=True)[:6]
    parts += [f"{name} {format_size(size)}" for size, name in largest]
    more = len(held) - len(largest)
    tail = f" and {more} more" if more > 0 else ""
    yield f"        Holds: {', '.join(parts) or 'nothing'}{tail}"


def _ms(latency: "LatencyMs") -> str:
    if latency.mean is None:
        return "not known"
    p99 = "" if latency.p99 is None else f", p99 {latency.p99:.2f} ms"
    return f"mean {latency.mean:.2f} ms{p99}"
