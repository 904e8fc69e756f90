"""The catalog: look up volume types and instances, and ask what a volume can do and costs."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from pgstow.catalog import checks, limits, prices
from pgstow.catalog.ageing import ageing
from pgstow.catalog.anatomy import Anatomy, PartRule, anatomy
from pgstow.catalog.effective import HOST_BURST_S, EffectiveLimits, effective_limits
from pgstow.catalog.managed import ways
from pgstow.catalog.tables import LazyRows
from pgstow.catalog.types import (
    DEFAULT_REGION,
    DiskSpeed,
    Instance,
    InstancePrice,
    SnapshotPrice,
    VolumeType,
)
from pgstow.model import Device, HostCap, HostSpec, Layout, Price, UserError, Volume, Warning
from pgstow.rules import VolumeRules
from pgstow.units import Bytes


def close_matches(name: str, names: Iterable[str], command: str) -> str:
    """The remedy for a name that the catalog does not have."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    if close:
        return f"did you mean {', '.join(close)}? See {command}"
    return f"see {command}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Volume types and instances by name, and instance prices by region and name."""

    volume_types: Mapping[str, VolumeType]
    instances: Mapping[str, Instance]
    instance_prices: Mapping[str, Mapping[str, InstancePrice]] = field(default_factory=dict)
    disk_speeds: Mapping[str, DiskSpeed] = field(default_factory=dict)  # by instance
    instance_tables: tuple[LazyRows[Instance], ...] = ()
    snapshot_prices: Mapping[str, SnapshotPrice] = field(default_factory=dict)  # EBS, by region
    backup_prices: Mapping[str, SnapshotPrice] = field(default_factory=dict)  # RDS, by region
    anatomy_rules: Mapping[str, tuple[PartRule, ...]] = field(default_factory=dict)
    user_files: tuple[str, ...] = ()  # what of it is not the shipped catalog's

    def volume_type(self, name: str) -> VolumeType:
        """The type of that name."""
        if name not in self.volume_types:
            raise UserError(
                f"the catalog has no volume type {name!r}",
                close_matches(name, self.volume_types, "pgstow catalog"),
            )
        return self.volume_types[name]

    def types(self, platform: str) -> tuple[VolumeType, ...]:
        """The types a platform offers."""
        return tuple(kind for kind in self.volume_types.values() if platform in kind.platforms)

    def instance(self, name: str) -> Instance:
        """The instance type of that name."""
        if name not in self.instances:
            raise UserError(
                f"the catalog has no instance type {name!r}",
                close_matches(name, self.instances, "pgstow catalog instances"),
            )
        return self.instances[name]

    def instance_price(self, name: str, region: str | None) -> InstancePrice | None:
        """What an instance costs on demand in a region; None: not known."""
        return self.instance_prices.get(region or DEFAULT_REGION, {}).get(name)

    def host_usd_month(self, host: HostSpec) -> float | None:
        """What a host's instance costs a month on demand; None: not known."""
        if host.platform != "ec2" or host.instance is None:
            return None
        price = self.instance_price(host.instance, host.region)
        return None if price is None else price.usd_month

    def offers(self, host: HostSpec) -> tuple[tuple[Instance, float], ...]:
        """Every instance of a host's platform and region whose monthly price is known."""
        if host.platform != "ec2":
            return ()
        prices = self.instance_prices.get(host.region or DEFAULT_REGION, {})
        return tuple(
            (self.instances[name], price.usd_month)
            for name, price in prices.items()
            if name in self.instances
        )

    def ageing(self, today: date, platform: str, region: str | None) -> tuple[Warning, ...]:
        """A warning where prices or instances are older than 6 months on that day."""
        return ageing(self, today, platform, region)

    def device(self, volume: Volume, host: HostSpec) -> Device:
        """The volume as the device model takes it; an instance's own disk as on its instance."""
        kind = self.volume_type(volume.type)
        found = limits.device(kind, volume)
        if not kind.is_ephemeral or volume.iops is not None:
            return found
        speed, instance = self.disk_speed(host), self.host_instance(host)
        if speed is None or instance is None:
            return found
        reads, writes = speed.read_iops / instance.disks, speed.write_iops / instance.disks
        return replace(found, member=replace(found.member, iops=reads, write_iops=writes))

    def burst_seconds(self, volume: Volume) -> float | None:
        """How long full credits last at the burst rate; None where there is no burst."""
        return limits.burst_seconds(self.volume_type(volume.type), volume)

    def host_instance(self, host: HostSpec) -> Instance | None:
        """The instance type of a host, where it names one that the catalog can have.

        RDS's db.r6i.large is EC2's r6i.large; those of other providers are not in the catalog.
        """
        if host.instance is None or host.platform in ("gce", "azure"):
            return None
        is_rds = host.platform == "rds"
        return self.instance(host.instance.removeprefix("db.") if is_rds else host.instance)

    def host_cap(self, host: HostSpec) -> HostCap:
        """The machine's own cap on network storage: sustained, and what it may burst to."""
        found = self.host_instance(host)
        if found is None:
            return HostCap(None, None)
        return HostCap(
            iops=found.baseline_iops,
            bytes_per_second=found.baseline_bytes_per_second,
            burst_iops=_above(found.max_iops, found.baseline_iops),
            burst_bytes_per_second=_above(
                found.max_bytes_per_second, found.baseline_bytes_per_second
            ),
            burst_initial=host.burst_credits,
        )

    def host_burst_seconds(self, host: HostSpec) -> float | None:
        """How long a rested machine may exceed what it sustains; None where it has no burst."""
        cap = self.host_cap(host)
        bursts = cap.burst_iops is not None or cap.burst_bytes_per_second is not None
        return HOST_BURST_S if bursts else None

    def effective_limits(self, volume: Volume, host: HostSpec) -> EffectiveLimits:
        """What a volume can do on a host, and what sets each limit."""
        return effective_limits(self.device(volume, host), self.host_cap(host))

    def cores(self, host: HostSpec) -> int | None:
        """The host's virtual CPUs; None: not known."""
        found = self.host_instance(host)
        return None if found is None else found.vcpus

    def memory_bytes(self, host: HostSpec) -> Bytes | None:
        """The host's memory; None: not known."""
        found = self.host_instance(host)
        return None if found is None else found.memory_bytes

    def rules(self, name: str, host: HostSpec) -> tuple[VolumeRules, ...]:
        """What a volume of a type may be on a host, by size where the provider stripes by itself.

        The first are the rules of the smallest.
        """
        kind = self.volume_type(name)
        found, limited = ways(kind, host.region), kind.without_nitro
        instance = self.host_instance(host) if host.platform in ("ec2", "rds") else None
        if limited is not None and instance is not None and instance.is_nitro is False:
            most = limited.reached_iops
            found = tuple(
                replace(one, iops=replace(one.iops, max=min(one.iops.max or most, most)))
                for one in found
            )
        speed = self.disk_speed(host)
        if kind.is_ephemeral and speed is not None and instance is not None:
            each = min(speed.read_iops, speed.write_iops) / instance.disks
            found = tuple(replace(o, iops=replace(o.iops, included=each)) for o in found)
        return found

    def disk_speed(self, host: HostSpec) -> DiskSpeed | None:
        """What a host's own disks do together, as AWS documents it; None: not known."""
        found = self.host_instance(host) if host.platform == "ec2" else None
        return None if found is None else self.disk_speeds.get(found.name)

    def instance_disks(self, host: HostSpec) -> tuple[int, Bytes | None]:
        """How many disks of its own the host has that are no hard disks, and the size of each."""
        found = self.host_instance(host) if host.platform == "ec2" else None
        if found is None or found.disk_kind == "hdd":
            return 0, None
        return found.disks, found.disk_bytes

    def price(self, volume: Volume, host: HostSpec) -> Price:
        """What all members of a volume cost a month."""
        kind = self.volume_type(volume.type)
        if host.platform == "local" or host.platform not in kind.platforms:
            return Price(None)
        return prices.volume_price(kind, volume, host.region)

    def anatomy(self, name: str) -> Anatomy:
        """Where the time of a small write to a type goes."""
        return anatomy(self.volume_type(name), self.anatomy_rules, self.volume_types)

    def layout_price(self, layout: Layout) -> Price:
        """What all volumes of a layout cost a month; the instance itself is not in it."""
        return prices.total([(v.name, self.price(v, layout.host)) for v in layout.volumes])

    def check(self, layout: Layout) -> tuple[Warning, ...]:
        """Raise LayoutError for what no provider sells; return what else one should know."""
        return checks.check(self, layout)


def _above(burst: float | None, baseline: float | None) -> float | None:
    if burst is None or baseline is None or burst <= baseline:
        return None
    return burst
