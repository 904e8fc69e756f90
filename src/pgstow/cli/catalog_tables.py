"""The tables of ``pgstow catalog``, the files it is from, and how old they are."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.table import Table

    from pgstow.catalog import (
        Catalog,
        DiskSpeed,
        Instance,
        InstancePrice,
        SnapshotPrice,
        VolumeType,
    )
    from pgstow.model import HostSpec, Latency, Warning


def types_table(volume_types: "tuple[VolumeType, ...]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("type", "size", "IOPS", "MiB/s", "read, write"):
        justify: Literal["left", "right"] = "left" if title == "type" else "right"
        table.add_column(title, justify=justify, no_wrap=title not in ("IOPS", "MiB/s"))
    for volume_type in volume_types:
        table.add_row(
            volume_type.name,
            _size_range(volume_type),
            _both(volume_type, _iops_range),
            _both(volume_type, _throughput_range),
            f"{volume_type.random_read_us / 1000:.3g}, {volume_type.random_write_us / 1000:.3g}",
        )
    return table


def prices_table(volume_types: "tuple[VolumeType, ...]", region: str) -> "Table":
    """Prices in a region, or where it is empty in that of each platform's default."""
    from rich.table import Table

    from pgstow.catalog import default_region

    table = Table(box=None, pad_edge=False)
    table.add_column("type", no_wrap=True)
    table.add_column("lost a year", justify="right", no_wrap=True)
    regions = {region or default_region(volume_type.platforms[0]) for volume_type in volume_types}
    table.add_column(f"price a month in {', '.join(sorted(regions))}")
    for volume_type in volume_types:
        table.add_row(volume_type.name, _percent(volume_type), _price_text(volume_type, region))
    return table


def _both(volume_type: "VolumeType", text: "Callable[[VolumeType], str]") -> str:
    """A range of the type; where the provider stripes, of one volume and of all members."""
    from pgstow.catalog.managed import by_size
    from pgstow.units import format_size

    small, large = by_size(volume_type)
    rule = volume_type.stripe_rule
    if rule is None:
        return text(volume_type)
    return f"{text(small)}; from {format_size(rule.from_bytes)} {text(large)} in all"


def _percent(volume_type: "VolumeType") -> str:
    rate = volume_type.annual_failure_rate
    if rate is None:
        return "with host" if volume_type.is_ephemeral else "unknown"
    return f"{rate * 100:g} %"


def _size_range(volume_type: "VolumeType") -> str:
    from pgstow.units import format_size

    if volume_type.min_size_bytes is None or volume_type.max_size_bytes is None:
        return "the disk's"
    return f"{format_size(volume_type.min_size_bytes)}–{format_size(volume_type.max_size_bytes)}"


def _iops_range(volume_type: "VolumeType") -> str:
    if volume_type.iops_per_gib is not None:
        base = f"{volume_type.iops_rule.base:,.0f} + " if volume_type.iops_rule.base else ""
        low = "" if volume_type.min_iops is None else f"{volume_type.min_iops:,.0f}–"
        most = f"{low}{volume_type.max_iops:,.0f}" if low else f"to {volume_type.max_iops:,.0f}"
        return f"{base}{volume_type.iops_per_gib:g}/GiB, {most}"
    if volume_type.provisioned_iops:
        least = volume_type.included_iops or volume_type.min_iops
        return f"{least:,.0f}–{volume_type.max_iops:,.0f}"
    return "no limit" if volume_type.included_iops is None else f"{volume_type.included_iops:,.0f}"


def _throughput_range(volume_type: "VolumeType") -> str:
    """In MiB/s."""
    from pgstow.units import MIB

    high = volume_type.max_throughput
    low = volume_type.included_throughput or volume_type.throughput_rule.min
    if high is None:
        return "no limit"
    if volume_type.throughput_per_gib is not None:
        base = volume_type.throughput_rule.base / MIB
        start = f"{base:,.0f} + " if base else ""
        return f"{start}{volume_type.throughput_per_gib * 1024 / MIB:g}/TiB, to {high / MIB:,.0f}"
    if low is not None and low < high:
        return f"{low / MIB:,.0f}–{high / MIB:,.0f}"
    return f"to {high / MIB:,.0f}"


def _price_text(volume_type: "VolumeType", region: str) -> str:
    from pgstow.catalog.prices import format_unit_price

    price = volume_type.price_in(region)
    if price is None:
        return "unknown"
    if price.is_included:
        return "with the instance"
    parts = [] if price.usd_per_gib is None else [f"{format_unit_price(price.usd_per_gib)}/GiB"]
    for tier in price.iops_tiers:
        over = f" over {tier.over_iops:,.0f}" if tier.over_iops else ""
        parts.append(f"{format_unit_price(tier.usd)}/IOPS{over}")
    if price.usd_per_mibps is not None:
        rule = volume_type.throughput_rule
        each = price.usd_per_mibps * rule.step / 1024**2
        over = " over those included" if rule.included else ""
        parts.append(f"{format_unit_price(each)} a{'n' * (rule.unit == 'MB/s')} {rule.unit}{over}")
    if price.usd_fixed:
        parts.append(f"{format_unit_price(price.usd_fixed)} with any size")
    return " + ".join(parts)


def _us(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms"


def rules_table(volume_type: "VolumeType", snapshots: "Mapping[str, SnapshotPrice]") -> "Table":
    """One row for each group of facts, with its source; then the prices by region."""
    from rich.table import Table

    from pgstow.catalog.prices import format_unit_price
    from pgstow.units import format_size

    latency, counted = volume_type.latency, format_size(volume_type.io_unit_bytes)
    says = {
        "size": _size_range(volume_type),
        "iops": f"{_both(volume_type, _iops_range)}, of up to {counted} each",
        "throughput": _both(volume_type, lambda one: f"{_throughput_range(one)} MiB/s"),
        "without_nitro": _without_nitro_text(volume_type),
        "burst": _burst_text(volume_type),
        "stripe": _stripe_text(volume_type),
        "latency": f"read {_us(latency.read_us_p50)}, p99 {_us(latency.read_us_p99)}; "
        f"write {_us(latency.write_us_p50)}, p99 {_us(latency.write_us_p99)}"
        + _by_size_text(latency),
        "durability": f"{_percent(volume_type)} lost a year",
        "volatile_cache": "shown: the kernel sends flushes"
        if volume_type.has_volatile_cache
        else "none shown: the kernel sends no flushes",
        **_beginning_texts(volume_type),
    }
    if volume_type.iops_per_gib_max is not None:
        least = volume_type.iops_rule.per_gib_min
        low = "" if least is None else f"{least:g} to "
        says["iops"] += f", {low}{volume_type.iops_per_gib_max:,.0f} per GiB"
    if volume_type.throughput_per_iops_max is not None:
        rule = volume_type.throughput_rule
        each = volume_type.throughput_per_iops_max / (1e6 if rule.unit == "MB/s" else 1024**2)
        says["throughput"] += f", {each:g} {rule.unit} per IOPS"
    table = Table(box=None, pad_edge=False)
    for title in ("fact", "is", "by"):
        table.add_column(title, overflow="fold")
    for key, fact in volume_type.facts.items():
        table.add_row(key, says[key], str(fact))
    for region, price in volume_type.prices.items():
        table.add_row(f"price {region}", _price_text(volume_type, region), str(price.provenance))
    is_rds = "rds" in volume_type.platforms
    for region, one in snapshots.items() if is_rds or volume_type.snapshot_rule is not None else ():
        archive, fast = one.archive_usd_per_gib, one.fast_restore_usd_hour
        text = f"{format_unit_price(one.usd_per_gib)}/GiB"
        text += "" if archive is None else f", {format_unit_price(archive)} in the archive"
        if fast is not None:
            text += f"; fast restore {format_unit_price(fast)} an hour, for each zone"
        what = "backups" if is_rds else "snapshots"
        table.add_row(f"{what} {region}", text, str(one.provenance))
    return table


def _by_size_text(latency: "Latency") -> str:
    from pgstow.units import format_size

    if not latency.read_us_per_mib and not latency.write_us_per_mib:
        return ""
    return (
        f"; beyond {format_size(latency.base_bytes)} read {_us(latency.read_us_per_mib)}, "
        f"write {_us(latency.write_us_per_mib)} per MiB"
    )


def _beginning_texts(volume_type: "VolumeType") -> dict[str, str]:
    """What a hard disk's parts and a snapshot's blocks add."""
    from pgstow.units import format_rate, format_size

    says = {}
    if volume_type.mechanics is not None:
        disk = volume_type.mechanics
        says["mechanics"] = (
            f"seek {_us(disk.mean_seek_us)} on average, {_us(disk.track_seek_us)} to the next "
            f"track; revolution {_us(disk.turn_us)}; then {format_rate(disk.bytes_per_second)}"
        )
    if volume_type.snapshot_rule is not None:
        rule = volume_type.snapshot_rule
        says["snapshot"] = (
            f"blocks of {format_size(rule.block_bytes)}; initialised at "
            f"{format_rate(rule.rate_min)} to {format_rate(rule.rate_max)}; fast restore to "
            f"{format_size(rule.fast_max_bytes)}"
        )
        says["first_touch"] = (
            f"{_us(rule.us_p50)}, p99 {_us(rule.us_p99)}, at most {format_rate(rule.rate)}"
        )
    return says


def _stripe_text(volume_type: "VolumeType") -> str:
    from pgstow.units import format_size

    rule = volume_type.stripe_rule
    if rule is None:
        return "none"
    return f"{rule.members} volumes from {format_size(rule.from_bytes)}"


def _without_nitro_text(volume_type: "VolumeType") -> str:
    rule = volume_type.without_nitro
    if rule is None:
        return ""
    return f"volumes of up to {rule.attached_iops:,.0f} IOPS, which reach {rule.reached_iops:,.0f}"


def _burst_text(volume_type: "VolumeType") -> str:
    from pgstow.units import TIB, format_rate, format_size

    rule = volume_type.burst_rule
    if rule is None:
        return "none"
    if rule.kind == "iops":
        return f"{rule.rate or 0:,.0f} IOPS from {rule.capacity or 0:,.0f} credits"
    credits_tib = format_size(rule.capacity_per_tib or TIB)
    return f"{format_rate(rule.rate_per_tib or 0)} per TiB from {credits_tib} per TiB"


def instances_lines(
    instances: "list[Instance]",
    prices: "Mapping[str, InstancePrice | None]",
    speeds: "Mapping[str, DiskSpeed]",
) -> "Iterator[str]":
    """Instances with their caps, disks and prices by name; an unknown price is shown as such.

    Plain lines: a table of rich's takes a second for all that there are.
    """
    from pgstow.units import format_size, format_usd

    titles = ("instance", "vCPU", "memory", "EBS IOPS", "EBS MB/s", "volumes", "disks", "$/month")
    rows = [titles]
    for one in instances:
        price = prices[one.name]
        rows.append(
            (
                one.name,
                str(one.vcpus),
                format_size(one.memory_bytes),
                _pair(one.baseline_iops, one.max_iops),
                _pair(_mb(one.baseline_bytes_per_second), _mb(one.max_bytes_per_second)),
                "unknown" if one.max_attachments is None else str(one.max_attachments),
                _disks(one, speeds.get(one.name)),
                format_usd(None if price is None else price.usd_month),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
    for row in rows:
        name, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join((row[0].ljust(len(name)), *rest))


def _disks(one: "Instance", speed: "DiskSpeed | None") -> str:
    if one.disk_bytes is None:
        return "–"
    disk = {"ssd": " SSD", "hdd": " HDD"}.get(one.disk_kind or "", "")  # NVMe goes without saying
    iops = "" if speed is None else f", {speed.read_iops:,.0f} / {speed.write_iops:,.0f}"
    return f"{one.disks} × {one.disk_bytes / 1e9:,.0f} GB{disk}{iops}"


def _mb(bytes_per_second: float | None) -> float | None:
    return None if bytes_per_second is None else bytes_per_second / 1e6


def _pair(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "unknown"
    return f"{low:,.10g}" if low == high else f"{low:,.10g} / {high:,.10g}"


def print_files(catalog: "Catalog") -> None:
    """Say which files of the user's are over the shipped catalog, if any."""
    from pgstow.cli.output import console

    names = ", ".join(catalog.user_files)
    text = f"Over the shipped catalog: {names}" if names else "The shipped catalog."
    console().print(text, style="dim", markup=False, soft_wrap=True)


def print_own_files(catalog: "Catalog") -> None:
    """Name the user's files over the shipped catalog; without any, say nothing."""
    if catalog.user_files:
        print_files(catalog)


def stale_warnings(catalog: "Catalog", host: "HostSpec | None") -> "tuple[Warning, ...]":
    """What today is over 6 months old of the prices and instances of a host's region."""
    from datetime import UTC, datetime

    from pgstow.model import HostSpec

    where = host or HostSpec("ec2")
    return catalog.stale_warnings(datetime.now(UTC).date(), where.platform, where.region)
