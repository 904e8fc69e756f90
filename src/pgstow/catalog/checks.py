"""Hold a layout against the catalog: refuse what no provider sells, warn of what surprises."""

import math
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from pgstow.catalog import beginnings
from pgstow.catalog.limits import member_iops, member_throughput
from pgstow.catalog.managed import as_sold
from pgstow.catalog.prices import is_known
from pgstow.catalog.types import DEFAULT_REGION, VolumeType, gib
from pgstow.model import Layout, LayoutError, UserError, Volume, Warning
from pgstow.units import (
    MIB,
    Bytes,
    format_exact_size,
    format_rate,
    format_size,
)

if TYPE_CHECKING:
    from pgstow.catalog.catalog import Catalog
    from pgstow.catalog.types import Instance

_MANY_STRIPES = 8  # AWS, EBS volume limits: larger arrays gain less


def check(catalog: "Catalog", layout: Layout) -> tuple[Warning, ...]:
    """Raise LayoutError for what is impossible; return warnings for the rest."""
    instance = _instance(catalog, layout)
    kinds = {volume.name: _type(catalog, layout, volume) for volume in layout.volumes}
    _check_mounts(layout)
    for volume in layout.volumes:
        kind = kinds[volume.name]
        _check_size(kind, volume)
        sold = as_sold(kind, volume)
        _check_provisioning(kind, volume)
        _check_iops(sold, volume)
        _check_throughput(sold, volume)
        _check_place(layout, volume, kind, kinds)
        beginnings.check_volume(kind, volume)
    beginnings.check_host(layout.host, instance)
    if instance is not None:
        _check_attachments(layout, kinds, instance)
        _check_disks(layout, kinds, instance)
    return tuple(_warnings(catalog, layout, kinds))


def _instance(catalog: "Catalog", layout: Layout) -> "Instance | None":
    if layout.host.instance is None:
        return None
    try:
        return catalog.host_instance(layout.host)
    except UserError as error:
        raise LayoutError(f"host.instance: {error.message}", error.remedy) from None


def _type(catalog: "Catalog", layout: Layout, volume: Volume) -> VolumeType:
    platform = layout.host.platform
    try:
        kind = catalog.volume_type(volume.type)
    except UserError as error:
        raise LayoutError(f"volumes.{volume.name}.type: {error.message}", error.remedy) from None
    if platform not in kind.platforms:
        names = [one.name for one in catalog.types(platform)]
        raise LayoutError(
            f"volumes.{volume.name}.type: {volume.type} is no volume type of platform {platform}",
            f"use one of: {', '.join(names)}",
        )
    return kind


def _check_mounts(layout: Layout) -> None:
    seen: dict[str, str] = {}
    for volume in layout.volumes:
        mount = posixpath.normpath(volume.mount)
        if mount in seen:
            raise LayoutError(
                f"volumes.{volume.name}.mount: {mount} is the mount of volume {seen[mount]} too",
                "mount each volume in a directory of its own",
            )
        seen[mount] = volume.name


def _refuse(volume: Volume, kind: VolumeType, key: str, *, why: str, fix: str) -> NoReturn:
    """Name the volume, key, value and rule (in ``why``), and the rule's source."""
    fact = kind.facts[key]
    source = f"{fact.source}, {fact.date}"
    raise LayoutError(f"volumes.{volume.name}.{key}: {why} ({source})", fix)


def _check_size(kind: VolumeType, volume: Volume) -> None:
    size, low, high = volume.size_bytes, kind.min_size_bytes, kind.max_size_bytes
    text = format_exact_size(size)
    if low is not None and size < low:
        least = format_exact_size(low)
        why = f"{text} is under {kind.name}'s least, {least}"
        _refuse(volume, kind, "size", why=why, fix=f"use at least {least}")
    if high is not None and size > high:
        most = format_exact_size(high)
        why = f"{text} is over {kind.name}'s most, {most}"
        _refuse(volume, kind, "size", why=why, fix=f"use at most {most} a member, or stripes")
    step = kind.size_step_bytes
    if step is not None and size % step:
        up = format_exact_size(Bytes(-(-size // step) * step))
        why = f"{text} is no multiple of {format_exact_size(step)}, in which {kind.name} is sold"
        _refuse(volume, kind, "size", why=why, fix=f"use {up}")


def _check_provisioning(kind: VolumeType, volume: Volume) -> None:
    """Refuse IOPS and throughput below the size from which they may be set."""
    least = kind.iops_rule.provisioned_from_bytes
    if least is None or volume.size_bytes >= least:
        return
    for key, value in (("iops", volume.iops), ("throughput", volume.throughput)):
        if value is not None:
            why = f"cannot be set for {kind.name} of less than {format_exact_size(least)}"
            fix = f"drop {key}, or use a size of at least {format_exact_size(least)}"
            _refuse(volume, kind, key, why=why, fix=fix)


def _check_place(
    layout: Layout, volume: Volume, kind: VolumeType, kinds: dict[str, VolumeType]
) -> None:
    """Refuse what a volume may not hold, a stripe over one that the provider stripes, and so on."""
    where = f"volumes.{volume.name}"
    if layout.host.platform == "rds" and volume.stripes > 1:
        raise LayoutError(f"{where}.stripes: RDS stripes by itself", "drop stripes")
    others = [what for what in _contents(layout, volume) if what != "the WAL"]
    if kind.holds == "wal" and others:
        raise LayoutError(
            f"{where}.type: {kind.name} holds the WAL alone, not {others[0]}",
            "put only postgres.wal on it",
        )
    data = kinds.get(layout.postgres.data)
    if kind.goes_with and data is not None and data.name not in kind.goes_with:
        raise LayoutError(
            f"{where}.type: {kind.name} goes with {' or '.join(kind.goes_with)} only, and the "
            f"data are on {data.name} ({kind.facts['size'].source}, {kind.facts['size'].date})",
            f"drop the volume, or use {kind.goes_with[-1]}",
        )
    if layout.host.platform == "rds" and kind.holds == "anything":
        _check_single(layout, volume)


def _check_single(layout: Layout, volume: Volume) -> None:
    """RDS has one volume of data; only the WAL may have one of its own."""
    if volume.name != layout.postgres.data and _contents(layout, volume):
        raise LayoutError(
            f"volumes.{volume.name}: RDS for PostgreSQL has one volume, and a Dedicated Log Volume "
            "for the WAL beside it",
            f"use only {layout.postgres.data}, and type rds-dlv for the WAL",
        )


def _contents(layout: Layout, volume: Volume) -> list[str]:
    """All that lies on a volume, temporary files too."""
    temp = ["temporary files"] if volume.name in layout.postgres.temp else []
    return _durable_contents(layout, volume) + temp


def _check_iops(kind: VolumeType, volume: Volume) -> None:
    rule, iops = kind.iops_rule, volume.iops
    if iops is None:
        if rule.is_provisioned and rule.included is None:
            why = f"none are given, and {kind.name} is bought by IOPS"
            _refuse(volume, kind, "iops", why=why, fix=f"write iops = {rule.min:.0f} or more")
        return
    text = f"{iops:,.10g}"
    if not (rule.is_provisioned or rule.is_declared):
        why = f"{text} cannot be set for {kind.name}, whose IOPS follow from its type and size"
        _refuse(volume, kind, "iops", why=why, fix="drop iops")
    if not 0 < iops < float("inf"):
        _refuse(volume, kind, "iops", why=f"{text} is no number of IOPS", fix="drop iops")
    if rule.min is not None and iops < rule.min:
        why = f"{text} is under {kind.name}'s least, {rule.min:,.0f}"
        _refuse(volume, kind, "iops", why=why, fix=f"use at least {rule.min:,.0f}")
    if rule.max is not None and iops > rule.max:
        why = f"{text} is over {kind.name}'s most, {rule.max:,.0f}"
        _refuse(volume, kind, "iops", why=why, fix=f"use at most {rule.max:,.0f}, or stripes")
    if rule.per_gib_max is None:
        return
    size = gib(volume.size_bytes)
    allowed = max(rule.per_gib_max * size, rule.included or 0.0, rule.min or 0.0)
    if iops > allowed:
        ratio = f"{rule.per_gib_max:,.0f} IOPS per GiB × {size:,.10g} GiB"
        need = math.ceil(iops / rule.per_gib_max)
        why = f"{text} is over {kind.name}'s {ratio} = {rule.per_gib_max * size:,.0f}"
        fix = f"use at most {allowed:,.0f}, or a size of at least {need}GiB"
        _refuse(volume, kind, "iops", why=why, fix=fix)


def _check_throughput(kind: VolumeType, volume: Volume) -> None:
    rule, rate = kind.throughput_rule, volume.throughput
    if rate is None:
        return
    text = _rate(rate)
    if not (rule.is_provisioned or rule.is_declared):
        why = f"{text} cannot be set for {kind.name}, whose throughput follows from the rest"
        _refuse(volume, kind, "throughput", why=why, fix="drop throughput")
    if not 0 < rate < float("inf"):
        why = f"{text} is no throughput"
        _refuse(volume, kind, "throughput", why=why, fix="drop throughput")
    if rule.min is not None and rate < rule.min:
        why = f"{text} is under {kind.name}'s least, {_rate(rule.min)}"
        _refuse(volume, kind, "throughput", why=why, fix=f"use at least {_rate(rule.min)}")
    if rule.max is not None and rate > rule.max:
        why = f"{text} is over {kind.name}'s most, {_rate(rule.max)}"
        fix = f"use at most {_rate(rule.max)}, or stripes"
        _refuse(volume, kind, "throughput", why=why, fix=fix)
    iops = member_iops(kind, volume)
    if rule.per_iops_max is None or iops is None:
        return
    allowed = max(rule.per_iops_max * iops, rule.included or 0.0)
    if rate > allowed:
        ratio = f"{rule.per_iops_max / MIB:g} MiB/s per IOPS × {iops:,.10g} IOPS"
        need = math.ceil(rate / rule.per_iops_max)
        why = f"{text} is over {kind.name}'s {ratio} = {_rate(rule.per_iops_max * iops)}"
        fix = f"use at most {_rate(allowed)}, or iops = {need}"
        _refuse(volume, kind, "throughput", why=why, fix=fix)


def _rate(rate: float) -> str:
    """A bandwidth in MiB/s, as layouts are written."""
    return f"{rate / MIB:,.10g}MiB/s".replace(",", "")


def _check_attachments(layout: Layout, kinds: dict[str, VolumeType], instance: "Instance") -> None:
    count = sum(v.stripes for v in layout.volumes if not kinds[v.name].is_local)
    most = instance.max_attachments
    if most is not None and count > most:
        raise LayoutError(
            f"host.instance: {instance.name} takes {most} volumes, the layout has {count} members"
            f" ({instance.provenance.source}, {instance.provenance.date})",
            "use fewer stripes or volumes, or another instance",
        )


def _check_disks(layout: Layout, kinds: dict[str, VolumeType], instance: "Instance") -> None:
    """Instance-store members are the instance's own disks, each used once."""
    local = [v for v in layout.volumes if kinds[v.name].is_ephemeral]
    if not local:
        return
    where = f"volumes.{local[0].name}.type"
    if instance.disk_bytes is None:
        raise LayoutError(
            f"{where}: {instance.name} has no instance store",
            "use a type of EBS, or an instance with disks such as i4i or m6id",
        )
    count = sum(volume.stripes for volume in local)
    if count > instance.disks:
        raise LayoutError(
            f"{where}: {instance.name} has {instance.disks} disks, the layout uses {count}",
            "use fewer stripes or volumes, or a larger instance",
        )
    for volume in local:
        if volume.size_bytes > instance.disk_bytes:
            raise LayoutError(
                f"volumes.{volume.name}.size: {format_size(volume.size_bytes)} is over the "
                f"{format_size(instance.disk_bytes)} of {instance.name}'s disks",
                f"use at most {format_exact_size(instance.disk_bytes)}",
            )


def _warnings(
    catalog: "Catalog", layout: Layout, kinds: dict[str, VolumeType]
) -> Iterator[Warning]:
    yield from _host_warnings(catalog, layout, kinds)
    for volume in layout.volumes:
        yield from _volume_warnings(layout, volume, kinds[volume.name])
    yield from _price_warnings(layout, kinds)


def _host_warnings(
    catalog: "Catalog", layout: Layout, kinds: dict[str, VolumeType]
) -> Iterator[Warning]:
    """The instance's own cap, where the volumes together could do more."""
    cap = catalog.host_cap(layout.host)
    network = [v for v in layout.volumes if not kinds[v.name].is_local]
    iops = sum((member_iops(kinds[v.name], v) or 0.0) * v.stripes for v in network)
    rate = sum((member_throughput(kinds[v.name], v) or 0.0) * v.stripes for v in network)
    name = layout.host.instance
    instance = catalog.host_instance(layout.host)
    if instance is not None and instance.disk_kind == "hdd":
        slow = [v.name for v in layout.volumes if kinds[v.name].is_ephemeral]
        if slow:
            yield Warning(
                "instance-store-hdd",
                f"the disks of {name} are hard disks, and the catalog's figures of volume "
                f"{slow[0]} are those of NVMe disks",
                "write what they can do as its iops and throughput",
            )
    if cap.iops is not None and iops > cap.iops:
        yield Warning(
            "host-cap-iops",
            f"{name} sustains {cap.iops:,.0f} IOPS over all volumes, which together have "
            f"{iops:,.0f}" + _for_a_while(cap.burst_iops, "{:,.0f} IOPS"),
            "a larger instance lets them be used; smaller volumes cost less",
        )
    if cap.bytes_per_second is not None and rate > cap.bytes_per_second:
        burst = None if cap.burst_bytes_per_second is None else cap.burst_bytes_per_second / MIB
        yield Warning(
            "host-cap-throughput",
            f"{name} sustains {format_rate(cap.bytes_per_second)} over all volumes, which "
            f"together have {format_rate(rate)}" + _for_a_while(burst, "{:,.1f} MiB/s"),
            "a larger instance lets them be used; smaller volumes cost less",
        )


def _for_a_while(burst: float | None, pattern: str) -> str:
    return "" if burst is None else f" ({pattern.format(burst)} for 30 minutes a day)"


def _volume_warnings(layout: Layout, volume: Volume, kind: VolumeType) -> Iterator[Warning]:
    holds = _durable_contents(layout, volume)
    if kind.is_ephemeral and holds:
        yield Warning(
            "ephemeral",
            f"volume {volume.name} is {kind.name} and holds {', '.join(holds)}: all of it is lost "
            "when the instance stops",
            "keep only temporary files there, unless a standby holds a copy",
        )
    if kind.is_hdd and holds:
        yield Warning(
            "hdd",
            f"volume {volume.name} is {kind.name}, a hard disk, and holds {', '.join(holds)}: "
            f"each random read or flush takes about {kind.random_write_us / 1000:.0f} ms",
            "keep only what is read in long scans there",
        )
    if volume.stripes > 1:
        yield Warning("stripe", _stripe_message(volume, kind), "keep backups, or a standby")
    if volume.stripes > _MANY_STRIPES:
        yield Warning(
            "many-stripes",
            f"volume {volume.name} has {volume.stripes} stripes; over {_MANY_STRIPES} each adds "
            "less",
            f"up to {_MANY_STRIPES} larger members are simpler",
        )


def _durable_contents(layout: Layout, volume: Volume) -> list[str]:
    """What of more than a session's worth lies on a volume."""
    holds = []
    if layout.postgres.data == volume.name:
        holds.append("the data directory")
    if layout.postgres.wal == volume.name:
        holds.append("the WAL")
    holds += [f"tablespace {t.name}" for t in layout.tablespaces if t.volume == volume.name]
    return holds


def _stripe_message(volume: Volume, kind: VolumeType) -> str:
    members = volume.stripes
    message = f"volume {volume.name} is a RAID 0: losing one of its {members} members loses all"
    if kind.annual_failure_rate is None:
        return message
    lost = 1 - (1 - kind.annual_failure_rate) ** volume.stripes
    one = f"{kind.annual_failure_rate * 100:.2g} %"
    return f"{message}, {lost * 100:.2g} % a year instead of {one}"


def _price_warnings(layout: Layout, kinds: dict[str, VolumeType]) -> Iterator[Warning]:
    host = layout.host
    if host.platform == "local":
        return
    if host.platform == "rds":
        yield Warning(
            "rds",
            "prices of RDS storage are those of a Single-AZ instance; Multi-AZ costs twice that",
        )
    if host.region is None and host.platform in ("ec2", "rds"):
        yield Warning(
            "region-assumed",
            "the layout names no region: prices are us-east-1's",
            "set host.region",
        )
    unknown = sorted({k.name for k in kinds.values() if k.price_in(host.region) is None})
    if unknown:
        yield Warning(
            "price-unknown",
            f"the catalog has no prices of {', '.join(unknown)} in {host.region or 'its region'}",
            f"pgstow catalog update --region {host.region}" if host.platform == "ec2" else "",
        )
    for volume in layout.volumes:
        kind = kinds[volume.name]
        sold = as_sold(kind, volume)
        price = sold.price_in(host.region)
        if price is not None and not is_known(sold, volume, price):
            yield Warning(
                "price-unknown",
                f"the catalog does not know what the IOPS or the throughput of volume "
                f"{volume.name} cost in {host.region or DEFAULT_REGION}",
                f"pgstow catalog update --region {host.region or DEFAULT_REGION}"
                if host.platform == "ec2"
                else "",
            )
