"""``pgstow catalog price``: what a volume costs a month, and what it can do on an instance."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.catalog import Region, catalog_app
from pgstow.cli.options import Json, finite
from pgstow.cli.output import console, print_json, print_warnings
from pgstow.model.errors import LayoutError, UserError

if TYPE_CHECKING:
    from rich.table import Table

    from pgstow.catalog import Catalog, EffectiveLimits, Limit, VolumeType
    from pgstow.model import HostSpec, Layout, Price, Volume

_SHOWN = ("price-unknown", "stripe", "many-stripes")


@catalog_app.command("price")
def price_volume(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="A volume type, such as gp3.")],
    *,
    size: Annotated[str, typer.Option("--size", help="Size of one member: 500GiB.")],
    iops: Annotated[
        float | None, typer.Option("--iops", callback=finite, help="Provisioned IOPS.")
    ] = None,
    throughput: Annotated[
        str | None, typer.Option("--throughput", help="Provisioned throughput: 250MiB/s.")
    ] = None,
    stripes: Annotated[int, typer.Option("--stripes", help="Members of a RAID 0.")] = 1,
    instance: Annotated[
        str | None, typer.Option("--instance", help="Show what is left of it on this instance.")
    ] = None,
    region: Region = "",
    json: Json = False,
) -> None:
    """Price a volume. Example: pgstow catalog price gp3 --size 500GiB --iops 6000"""
    from pgstow.catalog import load
    from pgstow.cli.catalog_tables import print_files, stale_warnings
    from pgstow.model import HostSpec

    catalog = load()
    volume_type = catalog.volume_type(name)
    if instance is not None:
        catalog.instance(instance)
    rule = volume_type.iops_rule
    if iops is None and rule.is_provisioned and rule.included is None:
        raise UserError(f"{name} is bought by IOPS", f"add --iops {rule.min or 1:g} or more")
    try:
        volume = _volume(name, size, iops, throughput, stripes)
        platform = volume_type.platforms[0]
        host = HostSpec(platform, _region(catalog, platform, region), instance)
        found = catalog.check(_layout(volume, volume_type, host))
        shown = (
            () if volume_type.goes_with else _SHOWN
        )  # of the volume asked for, not of what it goes with
        warnings = [warning for warning in found if warning.code in shown]
    except LayoutError as error:
        raise UserError(error.message.replace("volumes.volume.", "--"), error.remedy) from None
    price = catalog.price(volume, host)
    if json:
        print_json(_price_answer(catalog, volume, price, host))
        return
    _print_price(catalog, volume, price, host)
    if instance is not None:
        console().print(_limits_table(catalog, volume, host))
        console().print(
            "AWS states an instance's IOPS for operations of 16 KiB, and its MB/s of 10⁶ bytes for "
            "128 KiB. Both hold at once: with large operations the MB/s are reached first.",
            style="dim",
        )
    print_files(catalog)
    print_warnings([*warnings, *stale_warnings(catalog, host)])


def _region(catalog: "Catalog", platform: str, asked: str) -> str | None:
    """The region of the prices; one of which nothing is known is a mistake."""
    from pgstow.catalog import default_region

    known = sorted({name for volume_type in catalog.types(platform) for name in volume_type.prices})
    if not known:
        return asked or None
    region = asked or default_region(platform)
    if region not in known:
        is_ec2 = platform == "ec2"
        more = f"; pgstow catalog update --region {region} reads its prices" if is_ec2 else ""
        raise UserError(
            f"the catalog has no prices of {platform} in region {region!r}",
            f"use one of: {', '.join(known)}{more}",
        )
    return region


def _layout(volume: "Volume", volume_type: "VolumeType", host: "HostSpec") -> "Layout":
    """The volume alone, or with the data that it must go with."""
    from pgstow.model import Layout, Placement

    if not volume_type.goes_with:
        return Layout(host, (volume,), Placement(data="volume", wal="volume"))
    data = _volume(volume_type.goes_with[-1], "400GiB", 1000, None, 1)
    data = replace(data, name="data", mount="/data")
    return Layout(host, (data, volume), Placement(data="data", wal="volume"))


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
    catalog: "Catalog", volume: "Volume", price: "Price", host: "HostSpec"
) -> dict[str, Any]:
    device = catalog.device(volume, host)
    answer: dict[str, Any] = {
        "type": volume.type,
        "region": host.region,
        "usd_month": price.usd_month,
        "lines": [{"text": text, "usd_month": usd} for text, usd in price.lines],
        "iops": device.iops,
        "bytes_per_second": device.bytes_per_second,
        "burst_seconds": catalog.burst_seconds(volume),
        "user_files": catalog.user_files,
    }
    if host.instance is not None:
        answer["instance"] = host.instance
        answer["effective_limits"] = catalog.effective_limits(volume, host)
    return answer


def _print_price(catalog: "Catalog", volume: "Volume", price: "Price", host: "HostSpec") -> None:
    from rich.table import Table
    from rich.text import Text

    from pgstow.units import format_duration, format_rate, format_usd

    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for text, usd in price.lines:
        table.add_row(text, format_usd(usd))
    total = Text(format_usd(price.usd_month), style="bold")
    table.add_row(Text("a month", style="bold"), total)
    console().print(table)
    device = catalog.device(volume, host)
    iops = "no IOPS limit" if device.iops is None else f"{device.iops:,.0f} IOPS"
    rate = device.bytes_per_second
    text = f"{iops}, {'no throughput limit' if rate is None else format_rate(rate)}"
    burst, seconds = device.member.burst, catalog.burst_seconds(volume)
    if burst is not None and seconds is not None:
        peak = burst.burst_rate * device.stripes
        what = f"{peak:,.0f} IOPS" if burst.kind == "iops" else format_rate(peak)
        text += f"; {what} for {format_duration(seconds)} from full credits"
    console().print(text, style="dim")


def _limits_table(catalog: "Catalog", volume: "Volume", host: "HostSpec") -> "Table":
    """What is left of a volume on an instance, sustained and for a while, and what binds."""
    from pgstow.cli.output import table
    from pgstow.units import format_duration

    found: EffectiveLimits = catalog.effective_limits(volume, host)
    rows = [
        ("sustained", _iops(found.sustained_iops), _rate(found.sustained_bytes_per_second)),
    ]
    if found.burst_seconds is not None:
        title = f"for {format_duration(found.burst_seconds)}"
        rows.append((title, _iops(found.burst_iops), _rate(found.burst_bytes_per_second)))
    return table((f"on {host.instance}", "IOPS", "throughput"), rows)


def _iops(limit: "Limit") -> str:
    return "no limit" if limit.value is None else f"{limit.value:,.0f} ({limit.binds})"


def _rate(limit: "Limit") -> str:
    from pgstow.units import format_rate

    return "no limit" if limit.value is None else f"{format_rate(limit.value)} ({limit.binds})"
