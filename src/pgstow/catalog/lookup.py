"""Volume types and instances by name, and what the catalog knows of a host."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgstow.catalog.anatomy import PartRule
from pgstow.catalog.tables import LazyRows
from pgstow.catalog.types import (
    DEFAULT_REGION,
    DiskSpeed,
    Instance,
    InstancePrice,
    SnapshotPrice,
    VolumeType,
)
from pgstow.model import HostCap, HostSpec, UserError
from pgstow.units import Bytes


def close_matches(name: str, names: Iterable[str], command: str) -> str:
    """The remedy for a name that the catalog does not have."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    if close:
        return f"did you mean {', '.join(close)}? See {command}"
    return f"see {command}"


@dataclass(frozen=True, slots=True)
class Lookup:
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
        return tuple(one for one in self.volume_types.values() if platform in one.platforms)

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

    def cores(self, host: HostSpec) -> int | None:
        """The host's virtual CPUs; None: not known."""
        found = self.host_instance(host)
        return None if found is None else found.vcpus

    def memory_bytes(self, host: HostSpec) -> Bytes | None:
        """The host's memory; None: not known."""
        found = self.host_instance(host)
        return None if found is None else found.memory_bytes

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


def _above(burst: float | None, baseline: float | None) -> float | None:
    if burst is None or baseline is None or burst <= baseline:
        return None
    return burst
