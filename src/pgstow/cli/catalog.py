"""``pgstow catalog``: what volume types and instances offer, cost, and by which source."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.main import app
from pgstow.cli.options import Json
from pgstow.cli.output import console, print_json, print_warnings
from pgstow.model.errors import LayoutError, UserError

if TYPE_CHECKING:
    from rich.table import Table

    from pgstow.catalog import Catalog, Instance, VolumeType
    from pgstow.model import Latency, Price, Volume

catalog_app = typer.Typer(help="Show volume types, instances, limits and prices.")
app.add_typer(catalog_app, name="catalog")

Region = Annotated[str, typer.Option("--region", help="Region of the prices.")]


@catalog_app.callback(invoke_without_command=True)
def list_types(
    context: typer.Context,
    platform: Annotated[
        str, typer.Option("--platform", help="Only types of this platform: ec2, rds, local.")
    ] = "",
    region: Region = "us-east-1",
    json: Json = False,
) -> None:
    """List the volume types. Example: pgstow catalog --platform ec2"""
    if context.invoked_subcommand is not None:
        return
    from pgstow.catalog import load

    catalog = load()
    kinds = catalog.types(platform) if platform else tuple(catalog.volume_types.values())
    if not kinds:
        raise UserError(
            f"the catalog has no volume types of platform {platform!r}", "use ec2, rds or local"
        )
    if json:
        print_json(kinds)
        return
    _warn_of_region(catalog, region)
    target = console()
    target.print(_types_table(kinds))
    target.print()
    target.print(_prices_table(kinds, region))
    target.print(
        "Limits are of one member of a stripe. Read and write are median ms; "
        "'pgstow catalog show TYPE' names the sources.",
        style="dim",
    )


@catalog_app.command("show")
def show_type(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="A volume type, such as gp3.")],
    json: Json = False,
) -> None:
    """Show all rules of a volume type with their sources. Example: pgstow catalog show gp3"""
    from pgstow.catalog import load

    kind = load().volume_type(name)
    if json:
        print_json(kind)
        return
    target = console()
    target.print(f"[bold]{kind.name}[/]  {kind.title}  (platforms: {', '.join(kind.platforms)})")
    target.print(_rules_table(kind))


@catalog_app.command("instances")
def list_instances(
    match: Annotated[str, typer.Option("--match", help="Only names that contain this.")] = "",
    json: Json = False,
) -> None:
    """List EC2 instance types and their caps. Example: pgstow catalog instances --match r6i"""
    from pgstow.catalog import load

    found = [one for one in load().instances.values() if match in one.name]
    if not found:
        raise UserError(
            f"the catalog has no instance type with {match!r} in its name", "try a family: r6i"
        )
    if json:
        print_json(found)
        return
    console().print(_instances_table(found))
    console().print(
        f"MB are decimal. The second figure holds for 30 minutes a day. {found[0].provenance}",
        style="dim",
        markup=False,
    )


@catalog_app.command("price")
def price_volume(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="A volume type, such as gp3.")],
    *,
    size: Annotated[str, typer.Option("--size", help="Size of one member: 500GiB.")],
    iops: Annotated[float | None, typer.Option("--iops", help="Provisioned IOPS.")] = None,
    throughput: Annotated[
        str | None, typer.Option("--throughput", help="Provisioned throughput: 250MiB/s.")
    ] = None,
    stripes: Annotated[int, typer.Option("--stripes", help="Members of a RAID 0.")] = 1,
    region: Region = "us-east-1",
    json: Json = False,
) -> None:
    """Price a volume. Example: pgstow catalog price gp3 --size 500GiB --iops 6000"""
    from pgstow.catalog import load
    from pgstow.model import HostSpec, Layout, Placement

    catalog = load()
    kind = catalog.volume_type(name)
    try:
        volume = _volume(name, size, iops, throughput, stripes)
        host = HostSpec("ec2" if "ec2" in kind.platforms else "local", region)
        layout = Layout(host, (volume,), Placement(data="volume", wal="volume"))
        warnings = [one for one in catalog.check(layout) if one.code in _PRICE_WARNINGS]
    except LayoutError as error:
        raise UserError(error.message.replace("volumes.volume.", "--"), error.remedy) from None
    price = catalog.price(volume, host)
    if json:
        print_json(_price_answer(catalog, volume, price, region))
        return
    _print_price(catalog, volume, price)
    print_warnings(warnings)


_PRICE_WARNINGS = ("price-unknown", "stripe", "many-stripes")


def _volume(
    name: str, size: str, iops: float | None, throughput: str | None, stripes: int
) -> "Volume":
    from pgstow.model import Volume
    from pgstow.units import Iops, parse_rate, parse_size

    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise LayoutError(f"--size: {error}") from None
    try:
        rate = None if throughput is None else parse_rate(throughput)
    except ValueError as error:
        raise LayoutError(f"--throughput: {error}") from None
    return Volume(
        name="volume",
        type=name,
        size_bytes=size_bytes,
        mount="/volume",
        iops=None if iops is None else Iops(iops),
        throughput=rate,
        stripes=stripes,
    )


def _price_answer(
    catalog: "Catalog", volume: "Volume", price: "Price", region: str
) -> dict[str, Any]:
    device = catalog.device(volume)
    return {
        "type": volume.type,
        "region": region,
        "usd_month": price.usd_month,
        "lines": [{"text": text, "usd_month": usd} for text, usd in price.lines],
        "iops": device.iops,
        "bytes_per_second": device.bytes_per_second,
        "burst_seconds": catalog.burst_seconds(volume),
    }


def _print_price(catalog: "Catalog", volume: "Volume", price: "Price") -> None:
    from rich.table import Table

    from pgstow.units import format_duration, format_rate, format_usd

    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for text, usd in price.lines:
        table.add_row(text, format_usd(usd))
    table.add_row("[bold]a month[/]", f"[bold]{format_usd(price.usd_month)}[/]")
    console().print(table)
    device = catalog.device(volume)
    iops = "no IOPS limit" if device.iops is None else f"{device.iops:,.0f} IOPS"
    rate = device.bytes_per_second
    text = f"{iops}, {'no throughput limit' if rate is None else format_rate(rate)}"
    burst, seconds = device.member.burst, catalog.burst_seconds(volume)
    if burst is not None and seconds is not None:
        peak = burst.burst_rate * volume.stripes
        what = f"{peak:,.0f} IOPS" if burst.kind == "iops" else format_rate(peak)
        text += f"; {what} for {format_duration(seconds)} from full credits"
    console().print(text, style="dim")


def _warn_of_region(catalog: "Catalog", region: str) -> None:
    from pgstow.model import Warning

    known = sorted({name for kind in catalog.volume_types.values() for name in kind.prices})
    if region not in known:
        message = f"the catalog has no prices in region {region}"
        print_warnings([Warning("price-unknown", message, f"known are {', '.join(known)}")])


def _types_table(kinds: "tuple[VolumeType, ...]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("type", "size", "IOPS", "MiB/s", "read, write"):
        table.add_column(title, justify="left" if title == "type" else "right", no_wrap=True)
    for kind in kinds:
        table.add_row(
            kind.name,
            _size_range(kind),
            _iops_range(kind),
            _throughput_range(kind),
            f"{kind.random_read_us / 1000:.3g}, {kind.random_write_us / 1000:.3g}",
        )
    return table


def _prices_table(kinds: "tuple[VolumeType, ...]", region: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("type", no_wrap=True)
    table.add_column("lost a year", justify="right", no_wrap=True)
    table.add_column(f"price a month in {region}")
    for kind in kinds:
        table.add_row(kind.name, _percent(kind), _price_text(kind, region))
    return table


def _percent(kind: "VolumeType") -> str:
    rate = kind.annual_failure_rate
    return "with host" if rate is None else f"{rate * 100:g} %"


def _size_range(kind: "VolumeType") -> str:
    from pgstow.units import format_size

    if kind.min_size_bytes is None or kind.max_size_bytes is None:
        return "the disk's"
    return f"{format_size(kind.min_size_bytes)}–{format_size(kind.max_size_bytes)}"


def _iops_range(kind: "VolumeType") -> str:
    if kind.iops_per_gib is not None:
        return f"{kind.iops_per_gib:g}/GiB, {kind.min_iops:,.0f}–{kind.max_iops:,.0f}"
    if kind.provisioned_iops:
        return f"{kind.included_iops or kind.min_iops:,.0f}–{kind.max_iops:,.0f}"
    return "no limit" if kind.included_iops is None else f"{kind.included_iops:,.0f}"


def _throughput_range(kind: "VolumeType") -> str:
    """In MiB/s."""
    from pgstow.units import MIB

    high, low = kind.max_throughput, kind.included_throughput
    if high is None:
        return "no limit"
    if kind.throughput_per_gib is not None:
        return f"{kind.throughput_per_gib * 1024 / MIB:g}/TiB, to {high / MIB:,.0f}"
    if low is not None and low < high:
        return f"{low / MIB:,.0f}–{high / MIB:,.0f}"
    return f"to {high / MIB:,.0f}"


def _price_text(kind: "VolumeType", region: str) -> str:
    from pgstow.catalog.prices import format_unit_price

    price = kind.price_in(region)
    if price is None:
        return "unknown"
    if price.is_included:
        return "with the instance"
    parts = [] if price.usd_per_gib is None else [f"{format_unit_price(price.usd_per_gib)}/GiB"]
    for tier in price.iops_tiers:
        over = f" over {tier.over_iops:,.0f}" if tier.over_iops else ""
        parts.append(f"{format_unit_price(tier.usd)}/IOPS{over}")
    if price.usd_per_mibps is not None:
        parts.append(f"{format_unit_price(price.usd_per_mibps)} a MiB/s over those included")
    return " + ".join(parts)


def _us(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms"


def _rules_table(kind: "VolumeType") -> "Table":
    """One row for each group of facts, with its source; then the prices by region."""
    from rich.table import Table

    from pgstow.units import format_size

    latency = kind.latency
    says = {
        "size": _size_range(kind),
        "iops": f"{_iops_range(kind)}, of up to {format_size(kind.io_unit_bytes)} each",
        "throughput": f"{_throughput_range(kind)} MiB/s",
        "burst": _burst_text(kind),
        "latency": f"read {_us(latency.read_us_p50)}, p99 {_us(latency.read_us_p99)}; "
        f"write {_us(latency.write_us_p50)}, p99 {_us(latency.write_us_p99)}"
        + _by_size_text(latency),
        "durability": f"{_percent(kind)} lost a year",
        **_beginning_texts(kind),
    }
    if kind.iops_per_gib_max is not None:
        says["iops"] += f", {kind.iops_per_gib_max:,.0f} per GiB"
    if kind.throughput_per_iops_max is not None:
        says["throughput"] += f", {kind.throughput_per_iops_max / 1024**2:g} MiB/s per IOPS"
    table = Table(box=None, pad_edge=False)
    for title in ("fact", "is", "by"):
        table.add_column(title, overflow="fold")
    for key, fact in kind.facts.items():
        table.add_row(key, says[key], str(fact))
    for region, price in kind.prices.items():
        table.add_row(f"price {region}", _price_text(kind, region), str(price.provenance))
    return table


def _by_size_text(latency: "Latency") -> str:
    from pgstow.units import format_size

    if not latency.read_us_per_mib and not latency.write_us_per_mib:
        return ""
    return (
        f"; beyond {format_size(latency.base_bytes)} read {_us(latency.read_us_per_mib)}, "
        f"write {_us(latency.write_us_per_mib)} per MiB"
    )


def _beginning_texts(kind: "VolumeType") -> dict[str, str]:
    """What a hard disk's parts and a snapshot's blocks add."""
    from pgstow.units import format_rate, format_size

    says = {}
    if kind.mechanics is not None:
        disk = kind.mechanics
        says["mechanics"] = (
            f"seek {_us(disk.mean_seek_us)} on average, {_us(disk.track_seek_us)} to the next "
            f"track; turn {_us(disk.turn_us)}; then {format_rate(disk.bytes_per_second)}"
        )
    if kind.snapshot_rule is not None:
        rule = kind.snapshot_rule
        says["snapshot"] = (
            f"blocks of {format_size(rule.block_bytes)}; initialised at "
            f"{format_rate(rule.rate_min)} to {format_rate(rule.rate_max)}; fast restore to "
            f"{format_size(rule.fast_max_bytes)}"
        )
        says["first_touch"] = (
            f"{_us(rule.us_p50)}, p99 {_us(rule.us_p99)}, at most {format_rate(rule.rate)}"
        )
    return says


def _burst_text(kind: "VolumeType") -> str:
    from pgstow.units import TIB, format_rate, format_size

    rule = kind.burst_rule
    if rule is None:
        return "none"
    if rule.kind == "iops":
        return f"{rule.rate or 0:,.0f} IOPS from {rule.capacity or 0:,.0f} credits"
    credits_tib = format_size(rule.capacity_per_tib or TIB)
    return f"{format_rate(rule.rate_per_tib or 0)} per TiB from {credits_tib} per TiB"


def _instances_table(instances: "list[Instance]") -> "Table":
    from rich.table import Table

    from pgstow.units import format_size

    table = Table(box=None, pad_edge=False)
    titles = ("instance", "vCPU", "memory", "EBS IOPS", "EBS MB/s", "volumes", "disks")
    for title in titles:
        table.add_column(title, justify="left" if title == "instance" else "right")
    for one in instances:
        disks = f"{one.disks} × {one.disk_bytes / 1e9:,.0f} GB" if one.disk_bytes else "–"
        table.add_row(
            one.name,
            str(one.vcpus),
            format_size(one.memory_bytes),
            _pair(one.baseline_iops, one.max_iops),
            _pair(_mb(one.baseline_bytes_per_second), _mb(one.max_bytes_per_second)),
            "unknown" if one.max_attachments is None else str(one.max_attachments),
            disks,
        )
    return table


def _mb(bytes_per_second: float | None) -> float | None:
    return None if bytes_per_second is None else bytes_per_second / 1e6


def _pair(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "unknown"
    return f"{low:,.10g}" if low == high else f"{low:,.10g} / {high:,.10g}"
