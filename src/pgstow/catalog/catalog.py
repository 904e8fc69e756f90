"""The catalog: look up volume types and instances, and ask what a volume can do and costs."""

from dataclasses import dataclass, replace
from datetime import date

from pgstow.catalog import checks, limits, prices
from pgstow.catalog.anatomy import Anatomy, anatomy
from pgstow.catalog.effective import HOST_BURST_S, EffectiveLimits, effective_limits
from pgstow.catalog.lookup import Lookup
from pgstow.catalog.managed import ways
from pgstow.catalog.staleness import stale_warnings
from pgstow.model import Device, HostSpec, Layout, Price, Volume, Warning
from pgstow.rules import VolumeRules


@dataclass(frozen=True, slots=True)
class Catalog(Lookup):
    """What volumes and layouts can do and cost, and what is wrong with them."""

    def stale_warnings(self, today: date, platform: str, region: str | None) -> tuple[Warning, ...]:
        """A warning where prices or instances are older than 6 months on that day."""
        return stale_warnings(self, today, platform, region)

    def device(self, volume: Volume, host: HostSpec) -> Device:
        """The volume as the device model takes it; an instance's own disk as on its instance."""
        volume_type = self.volume_type(volume.type)
        found = limits.device(volume_type, volume)
        if not volume_type.is_ephemeral or volume.iops is not None:
            return found
        speed, instance = self.disk_speed(host), self.host_instance(host)
        if speed is None or instance is None:
            return found
        reads, writes = speed.read_iops / instance.disks, speed.write_iops / instance.disks
        return replace(found, member=replace(found.member, iops=reads, write_iops=writes))

    def burst_seconds(self, volume: Volume) -> float | None:
        """How long full credits last at the burst rate; None where there is no burst."""
        return limits.burst_seconds(self.volume_type(volume.type), volume)

    def host_burst_seconds(self, host: HostSpec) -> float | None:
        """How long a rested machine may exceed what it sustains; None where it has no burst."""
        cap = self.host_cap(host)
        bursts = cap.burst_iops is not None or cap.burst_bytes_per_second is not None
        return HOST_BURST_S if bursts else None

    def effective_limits(self, volume: Volume, host: HostSpec) -> EffectiveLimits:
        """What a volume can do on a host, and what sets each limit."""
        return effective_limits(self.device(volume, host), self.host_cap(host))

    def rules(self, name: str, host: HostSpec) -> tuple[VolumeRules, ...]:
        """What a volume of a type may be on a host, by size where the provider stripes by itself.

        The first are the rules of the smallest.
        """
        volume_type = self.volume_type(name)
        found, limited = ways(volume_type, host.region), volume_type.without_nitro
        instance = self.host_instance(host) if host.platform in ("ec2", "rds") else None
        if limited is not None and instance is not None and instance.is_nitro is False:
            most = limited.reached_iops
            found = tuple(
                replace(one, iops=replace(one.iops, max=min(one.iops.max or most, most)))
                for one in found
            )
        speed = self.disk_speed(host)
        if volume_type.is_ephemeral and speed is not None and instance is not None:
            each = min(speed.read_iops, speed.write_iops) / instance.disks
            found = tuple(replace(o, iops=replace(o.iops, included=each)) for o in found)
        return found

    def price(self, volume: Volume, host: HostSpec) -> Price:
        """What all members of a volume cost a month."""
        volume_type = self.volume_type(volume.type)
        if host.platform == "local" or host.platform not in volume_type.platforms:
            return Price(None)
        return prices.volume_price(volume_type, volume, host.region)

    def anatomy(self, name: str) -> Anatomy:
        """Where the time of a small write to a type goes."""
        return anatomy(self.volume_type(name), self.anatomy_rules, self.volume_types)

    def layout_price(self, layout: Layout) -> Price:
        """What all volumes of a layout cost a month; the instance itself is not in it."""
        return prices.total([(v.name, self.price(v, layout.host)) for v in layout.volumes])

    def check(self, layout: Layout) -> tuple[Warning, ...]:
        """Raise LayoutError for what no provider sells; return what else one should know."""
        return checks.check(self, layout)
