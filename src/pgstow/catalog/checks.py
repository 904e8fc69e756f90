"""Hold a layout against the catalog: refuse what no provider sells, warn of what surprises."""

from collections.abc import Iterator

from pgstow.catalog import initial_state
from pgstow.catalog.limits import member_iops, member_throughput
from pgstow.catalog.lookup import Lookup
from pgstow.catalog.managed import as_sold
from pgstow.catalog.prices import has
from pgstow.catalog.types import Instance, VolumeType, default_region
from pgstow.model import Layout, LayoutError, UserError, Volume, Warning
from pgstow.rules import violation
from pgstow.units import MIB, format_exact_size, format_rate, format_size

_MANY_STRIPES = 8  # AWS, EBS volume limits: larger arrays gain less


def check(catalog: Lookup, layout: Layout) -> tuple[Warning, ...]:
    """Raise LayoutError for what is impossible; return warnings for the rest."""
    instance = _instance(catalog, layout)
    volume_types = {volume.name: _type(catalog, layout, volume) for volume in layout.volumes}
    for volume in layout.volumes:
        volume_type = volume_types[volume.name]
        _check_sold(volume_type, volume)
        _check_place(layout, volume, volume_type, volume_types)
        initial_state.check_volume(volume_type, volume)
    initial_state.check_host(layout.host, instance)
    if instance is not None:
        _check_attachments(layout, volume_types, instance)
        _check_nitro(layout, volume_types, instance)
        _check_disks(layout, volume_types, instance)
    return tuple(_warnings(catalog, layout, volume_types))


def _instance(catalog: Lookup, layout: Layout) -> Instance | None:
    if layout.host.instance is None:
        return None
    try:
        return catalog.host_instance(layout.host)
    except UserError as error:
        raise LayoutError(f"host.instance: {error.message}", error.remedy) from None


def _type(catalog: Lookup, layout: Layout, volume: Volume) -> VolumeType:
    platform = layout.host.platform
    try:
        volume_type = catalog.volume_type(volume.type)
    except UserError as error:
        raise LayoutError(f"volumes.{volume.name}.type: {error.message}", error.remedy) from None
    if platform not in volume_type.platforms:
        names = [one.name for one in catalog.types(platform)]
        raise LayoutError(
            f"volumes.{volume.name}.type: {volume.type} is no volume type of platform {platform}",
            f"use one of: {', '.join(names)}",
        )
    return volume_type


def _check_sold(volume_type: VolumeType, volume: Volume) -> None:
    """Refuse what the type's rules do not allow: name the figure, the rule and its source."""
    rules = as_sold(volume_type, volume).rules()
    found = violation(rules, volume.size_bytes, volume.iops, volume.throughput)
    if found is not None:
        fact = volume_type.facts[found.key]
        raise LayoutError(
            f"volumes.{volume.name}.{found.key}: {found.why} ({fact.source}, {fact.date})",
            found.fix,
        )


def _check_place(
    layout: Layout, volume: Volume, volume_type: VolumeType, volume_types: dict[str, VolumeType]
) -> None:
    """Refuse what a volume may not hold, a stripe over one that the provider stripes, and so on."""
    where = f"volumes.{volume.name}"
    if layout.host.platform == "rds" and volume.stripes > 1:
        raise LayoutError(f"{where}.stripes: RDS stripes by itself", "drop stripes")
    others = [what for what in _contents(layout, volume) if what != "the WAL"]
    if volume_type.holds == "wal" and others:
        raise LayoutError(
            f"{where}.type: {volume_type.name} holds the WAL alone, not {others[0]}",
            "put only postgres.wal on it",
        )
    data = volume_types.get(layout.postgres.data)
    if volume_type.goes_with and data is not None and data.name not in volume_type.goes_with:
        fact, allowed = volume_type.facts["size"], " or ".join(volume_type.goes_with)
        raise LayoutError(
            f"{where}.type: {volume_type.name} goes with {allowed} only, and the data are on "
            f"{data.name} ({fact.source}, {fact.date})",
            f"drop the volume, or use {volume_type.goes_with[-1]}",
        )
    if layout.host.platform == "rds" and volume_type.holds == "anything":
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
    """All that is stored on a volume, temporary files too."""
    temp = ["temporary files"] if volume.name in layout.postgres.temp else []
    return _durable_contents(layout, volume) + temp


def _check_attachments(
    layout: Layout, volume_types: dict[str, VolumeType], instance: Instance
) -> None:
    count = sum(v.stripes for v in layout.volumes if not volume_types[v.name].is_local)
    most = instance.max_attachments
    if most is not None and count > most:
        raise LayoutError(
            f"host.instance: {instance.name} takes {most} volumes, the layout has {count} members"
            f" ({instance.provenance.source}, {instance.provenance.date})",
            "use fewer stripes or volumes, or another instance",
        )


def _check_nitro(layout: Layout, volume_types: dict[str, VolumeType], instance: Instance) -> None:
    """Instances that are not built on Nitro take volumes of so many IOPS only."""
    if instance.is_nitro is not False:
        return
    for volume in layout.volumes:
        volume_type = volume_types[volume.name]
        rule, iops = volume_type.without_nitro, member_iops(volume_type, volume)
        if rule is None or iops is None or iops <= rule.attached_iops:
            continue
        fact = volume_type.facts["without_nitro"]
        raise LayoutError(
            f"volumes.{volume.name}.iops: {iops:,.0f} need an instance of the Nitro System, and "
            f"{instance.name} is none: it takes volumes of {rule.attached_iops:,.0f} "
            f"({fact.source}, {fact.date})",
            f"use at most {rule.reached_iops:,.0f}, which it reaches, or another instance",
        )


def _check_disks(layout: Layout, volume_types: dict[str, VolumeType], instance: Instance) -> None:
    """Instance-store members are the instance's own disks, each used once."""
    local = [v for v in layout.volumes if volume_types[v.name].is_ephemeral]
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
    catalog: Lookup, layout: Layout, volume_types: dict[str, VolumeType]
) -> Iterator[Warning]:
    yield from _host_warnings(catalog, layout, volume_types)
    for volume in layout.volumes:
        yield from _volume_warnings(layout, volume, volume_types[volume.name])
    yield from _price_warnings(layout, volume_types)


def _host_warnings(
    catalog: Lookup, layout: Layout, volume_types: dict[str, VolumeType]
) -> Iterator[Warning]:
    """The instance's own cap, where the volumes together could do more."""
    cap = catalog.host_cap(layout.host)
    network = [v for v in layout.volumes if not volume_types[v.name].is_local]
    iops = sum((member_iops(volume_types[v.name], v) or 0.0) * v.stripes for v in network)
    rate = sum((member_throughput(volume_types[v.name], v) or 0.0) * v.stripes for v in network)
    name = layout.host.instance
    instance = catalog.host_instance(layout.host)
    if instance is not None and instance.disk_kind == "hdd":
        slow = [v.name for v in layout.volumes if volume_types[v.name].is_ephemeral]
        if slow:
            yield Warning(
                "instance-store-hdd",
                f"the disks of {name} are hard disks, and the catalog's figures of volume "
                f"{slow[0]} are those of NVMe disks",
                "write what they can do as its iops and throughput",
            )
    yield from _nitro_warnings(layout, volume_types, instance)
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


def _nitro_warnings(
    layout: Layout, volume_types: dict[str, VolumeType], instance: Instance | None
) -> Iterator[Warning]:
    """Volumes that do less on an instance that is not built on Nitro."""
    if instance is None or instance.is_nitro is not False:
        return
    for volume in layout.volumes:
        volume_type = volume_types[volume.name]
        rule, iops = volume_type.without_nitro, member_iops(volume_type, volume)
        if rule is not None and iops is not None and iops > rule.reached_iops:
            yield Warning(
                "not-nitro",
                f"{instance.name} is not built on the Nitro System: of volume {volume.name}'s "
                f"{iops:,.0f} IOPS a member it reaches {rule.reached_iops:,.0f}",
                "use a newer instance, or fewer IOPS",
            )


def _for_a_while(burst: float | None, pattern: str) -> str:
    return "" if burst is None else f" ({pattern.format(burst)} for 30 minutes a day)"


def _volume_warnings(layout: Layout, volume: Volume, volume_type: VolumeType) -> Iterator[Warning]:
    holds = _durable_contents(layout, volume)
    if volume_type.is_ephemeral and holds:
        yield Warning(
            "ephemeral",
            f"volume {volume.name} is {volume_type.name} and holds {', '.join(holds)}: all of it "
            "is lost when the instance stops",
            "keep only temporary files there, unless a standby holds a copy",
        )
    if volume_type.is_hdd and holds:
        yield Warning(
            "hdd",
            f"volume {volume.name} is {volume_type.name}, a hard disk, and holds "
            f"{', '.join(holds)}: each random read or flush takes about "
            f"{volume_type.random_write_us / 1000:.0f} ms",
            "keep only what is read in long scans there",
        )
    if volume.stripes > 1:
        yield Warning("stripe", _stripe_message(volume, volume_type), "keep backups, or a standby")
    if volume.stripes > _MANY_STRIPES:
        yield Warning(
            "many-stripes",
            f"volume {volume.name} has {volume.stripes} stripes; over {_MANY_STRIPES} each adds "
            "less",
            f"up to {_MANY_STRIPES} larger members are simpler",
        )


def _durable_contents(layout: Layout, volume: Volume) -> list[str]:
    """What a volume stores for longer than a session."""
    holds = []
    if layout.postgres.data == volume.name:
        holds.append("the data directory")
    if layout.postgres.wal == volume.name:
        holds.append("the WAL")
    holds += [f"tablespace {t.name}" for t in layout.tablespaces if t.volume == volume.name]
    return holds


def _stripe_message(volume: Volume, volume_type: VolumeType) -> str:
    members = volume.stripes
    message = f"volume {volume.name} is a RAID 0: losing one of its {members} members loses all"
    if volume_type.annual_failure_rate is None:
        return message
    lost = 1 - (1 - volume_type.annual_failure_rate) ** volume.stripes
    one = f"{volume_type.annual_failure_rate * 100:.2g} %"
    return f"{message}, {lost * 100:.2g} % a year instead of {one}"


def _price_warnings(layout: Layout, volume_types: dict[str, VolumeType]) -> Iterator[Warning]:
    host = layout.host
    if host.platform == "local":
        return
    if host.platform == "rds":
        yield Warning(
            "rds",
            "prices of RDS storage are those of a Single-AZ instance; Multi-AZ costs twice that",
        )
    region = host.region or default_region(host.platform)
    if host.region is None:
        yield Warning(
            "region-assumed",
            f"the layout names no region: prices are {region}'s",
            "set host.region",
        )
    unknown = sorted({k.name for k in volume_types.values() if k.price_in(host.region) is None})
    if unknown:
        yield Warning(
            "price-unknown",
            f"the catalog has no prices of {', '.join(unknown)} in {region}",
            _price_remedy(host.platform, region),
        )
    for volume in layout.volumes:
        sold = as_sold(volume_types[volume.name], volume).rules(host.region)
        if sold.price is not None and sold.usd_month(has(sold, volume)) is None:
            yield Warning(
                "price-unknown",
                f"the catalog does not know what the IOPS or the throughput of volume "
                f"{volume.name} cost in {region}",
                _price_remedy(host.platform, region),
            )


def _price_remedy(platform: str, region: str) -> str:
    if platform == "ec2":
        return f"pgstow catalog update --region {region}"
    return "write it into a catalog file of your own"
