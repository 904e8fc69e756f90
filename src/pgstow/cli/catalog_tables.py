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


def types_table(kinds: "tuple[VolumeType, ...]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("type", "size", "IOPS", "MiB/s", "read, write"):
        justify: Literal["left", "right"] = "left" if title == "type" else "right"
        table.add_column(title, justify=justify, no_wrap=title not in ("IOPS", "MiB/s"))
    for kind in kinds:
        table.add_row(
            kind.name,
            _size_range(kind),
            _both(kind, _iops_range),
            _both(kind, _throughput_range),
            f"{kind.random_read_us / 1000:.3g}, {kind.random_write_us / 1000:.3g}",
        )
    return table


def prices_table(kinds: "tuple[VolumeType, ...]", region: str) -> "Table":
    """Prices in a region, or where it is empty in that of each platform's default."""
    from rich.table import Table

    from pgstow.catalog import default_region

    table = Table(box=None, pad_edge=False)
    table.add_column("type", no_wrap=True)
    table.add_column("lost a year", justify="right", no_wrap=True)
    regions = {region or default_region(kind.platforms[0]) for kind in kinds}
    table.add_column(f"price a month in {', '.join(sorted(regions))}")
    for kind in kinds:
        table.add_row(kind.name, _percent(kind), _price_text(kind, region))
    return table


def _both(kind: "VolumeType", text: "Callable[[VolumeType], str]") -> str:
    """A range of the type; where the provider stripes, of one volume and of all members."""
    from pgstow.catalog.managed import by_size
    from pgstow.units import format_size

    small, large = by_size(kind)
    rule = kind.stripe_rule
    if rule is None:
        return text(kind)
    return f"{text(small)}; from {format_size(rule.from_bytes)} {text(large)} in all"


def _percent(kind: "VolumeType") -> str:
    rate = kind.annual_failure_rate
    if rate is None:
        return "with host" if kind.is_ephemeral else "unknown"
    return f"{rate * 100:g} %"


def _size_range(kind: "VolumeType") -> str:
    from pgstow.units import format_size

    if kind.min_size_bytes is None or kind.max_size_bytes is None:
        return "the disk's"
    return f"{format_size(kind.min_size_bytes)}–{format_size(kind.max_size_bytes)}"


def _iops_range(kind: "VolumeType") -> str:
    if kind.iops_per_gib is not None:
        base = f"{kind.iops_rule.base:,.0f} + " if kind.iops_rule.base else ""
        low = "" if kind.min_iops is None else f"{kind.min_iops:,.0f}–"
        most = f"{low}{kind.max_iops:,.0f}" if low else f"to {kind.max_iops:,.0f}"
        return f"{base}{kind.iops_per_gib:g}/GiB, {most}"
    if kind.provisioned_iops:
        return f"{kind.included_iops or kind.min_iops:,.0f}–{kind.max_iops:,.0f}"
    return "no limit" if kind.included_iops is None else f"{kind.included_iops:,.0f}"


def _throughput_range(kind: "VolumeType") -> str:
    """In MiB/s."""
    from pgstow.units import MIB

    high, low = kind.max_throughput, kind.included_throughput or kind.throughput_rule.min
    if high is None:
        return "no limit"
    if kind.throughput_per_gib is not None:
        base = kind.throughput_rule.base / MIB
        start = f"{base:,.0f} + " if base else ""
        return f"{start}{kind.throughput_per_gib * 1024 / MIB:g}/TiB, to {high / MIB:,.0f}"
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
        rule = kind.throughput_rule
        each = price.usd_per_mibps * rule.step / 1024**2
        over = " over those included" if rule.included else ""
        parts.append(f"{format_unit_price(each)} a{'n' * (rule.unit == 'MB/s')} {rule.unit}{over}")
    if price.usd_fixed:
        parts.append(f"{format_unit_price(price.usd_fixed)} with any size")
    return " + ".join(parts)


def _us(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms"


def rules_table(kind: "VolumeType", snapshots: "Mapping[str, SnapshotPrice]") -> "Table":
    """One row for each group of facts, with its source; then the prices by region."""
    from rich.table import Table

    from pgstow.catalog.prices import format_unit_price
    from pgstow.units import format_size

    latency = kind.latency
    says = {
        "size": _size_range(kind),
        "iops": f"{_both(kind, _iops_range)}, of up to {format_size(kind.io_unit_bytes)} each",
        "throughput": _both(kind, lambda one: f"{_throughput_range(one)} MiB/s"),
        "without_nitro": _without_nitro_text(kind),
        "burst": _burst_text(kind),
        "stripe": _stripe_text(kind),
        "latency": f"read {_us(latency.read_us_p50)}, p99 {_us(latency.read_us_p99)}; "
        f"write {_us(latency.write_us_p50)}, p99 {_us(latency.write_us_p99)}"
        + _by_size_text(latency),
        "durability": f"{_percent(kind)} lost a year",
        "volatile_cache": "shown: the kernel sends flushes"
        if kind.has_volatile_cache
        else "none shown: the kernel sends no flushes",
        **_beginning_texts(kind),
    }
    if kind.iops_per_gib_max is not None:
        least = kind.iops_rule.per_gib_min
        low = "" if least is None else f"{least:g} to "
        says["iops"] += f", {low}{kind.iops_per_gib_max:,.0f} per GiB"
    if kind.throughput_per_iops_max is not None:
        rule = kind.throughput_rule
        each = kind.throughput_per_iops_max / (1e6 if rule.unit == "MB/s" else 1024**2)
        says["throughput"] += f", {each:g} {rule.unit} per IOPS"
    table = Table(box=None, pad_edge=False)
    for title in ("fact", "is", "by"):
        table.add_column(title, overflow="fold")
    for key, fact in kind.facts.items():
        table.add_row(key, says[key], str(fact))
    for region, price in kind.prices.items():
        table.add_row(f"price {region}", _price_text(kind, region), str(price.provenance))
    is_rds = "rds" in kind.platforms
    for region, one in snapshots.items() if is_rds or kind.snapshot_rule is not None else ():
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


def _stripe_text(kind: "VolumeType") -> str:
    from pgstow.units import format_size

    rule = kind.stripe_rule
    if rule is None:
        return "none"
    return f"{rule.members} volumes from {format_size(rule.from_bytes)}"


def _without_nitro_text(kind: "VolumeType") -> str:
    rule = kind.without_nitro
    if rule is None:
        return ""
    return f"volumes of up to {rule.attached_iops:,.0f} IOPS, which reach {rule.reached_iops:,.0f}"


def _burst_text(kind: "VolumeType") -> str:
    from pgstow.units import TIB, format_rate, format_size

    rule = kind.burst_rule
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
    kind = {"ssd": " SSD", "hdd": " HDD"}.get(one.disk_kind or "", "")  # NVMe goes without saying
    iops = "" if speed is None else f", {speed.read_iops:,.0f} / {speed.write_iops:,.0f}"
    return f"{one.disks} × {one.disk_bytes / 1e9:,.0f} GB{kind}{iops}"


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


def age_warnings(catalog: "Catalog", host: "HostSpec | None") -> "tuple[Warning, ...]":
    """What today is over 6 months old of the prices and instances of a host's region."""
    from datetime import UTC, datetime

    from pgstow.model import HostSpec

    where = host or HostSpec("ec2")
    return catalog.ageing(datetime.now(UTC).date(), where.platform, where.region)
