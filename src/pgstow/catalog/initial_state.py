"""What a layout says its volumes and its host begin with: credits, data of a snapshot."""

from pgstow.catalog.limits import member_burst
from pgstow.catalog.types import Instance, VolumeType
from pgstow.model import HostSpec, LayoutError, Volume
from pgstow.units import format_exact_size, format_rate


def check_volume(volume_type: VolumeType, volume: Volume) -> None:
    """Refuse credits of a volume that has none, and snapshots that cannot be restored so."""
    where = f"volumes.{volume.name}"
    if volume.burst_credits is not None and member_burst(volume_type, volume) is None:
        raise LayoutError(
            f"{where}.burst_credits: {volume_type.name} of this size has no burst credits",
            "drop burst_credits",
        )
    if not volume.from_snapshot:
        return
    rule = volume_type.snapshot_rule
    if rule is None:
        raise LayoutError(
            f"{where}.from_snapshot: {volume_type.name} cannot be restored from a snapshot",
            "drop from_snapshot, or use a type of EBS",
        )
    source = f"({volume_type.facts['snapshot'].source}, {volume_type.facts['snapshot'].date})"
    rate = volume.initialization_rate
    if rate is not None and not rule.rate_min <= rate <= rule.rate_max:
        raise LayoutError(
            f"{where}.initialization_rate: {format_rate(rate)} is not sold {source}",
            f"use {format_rate(rule.rate_min)} to {format_rate(rule.rate_max)}",
        )
    if volume.fast_snapshot_restore and volume.size_bytes > rule.fast_max_bytes:
        most = format_exact_size(rule.fast_max_bytes)
        raise LayoutError(
            f"{where}.fast_snapshot_restore: {format_exact_size(volume.size_bytes)} is over the "
            f"{most} of a snapshot that can be restored fast {source}",
            f"use at most {most}, or initialization_rate",
        )


def check_host(host: HostSpec, instance: Instance | None) -> None:
    """Refuse credits of a host that has none."""
    if host.burst_credits is None:
        return
    if instance is None:
        raise LayoutError(
            "host.burst_credits: the layout names no instance, whose credits they would be",
            "write instance, or drop burst_credits",
        )
    if instance.max_iops == instance.baseline_iops and (
        instance.max_bytes_per_second == instance.baseline_bytes_per_second
    ):
        raise LayoutError(
            f"host.burst_credits: {instance.name} sustains what it can do and has no credits",
            "drop burst_credits",
        )
