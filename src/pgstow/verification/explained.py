"""How much of the devices' traffic PostgreSQL explains; the rest has another cause."""

from dataclasses import dataclass

from pgstow.model import Profile, Warning
from pgstow.units import BLOCK_BYTES, MIB, format_rate

_LEAST_BYTES = 2 * MIB  # per second; less is the filesystem's own
_TIMES = 2.0  # what a device may write for each byte of PostgreSQL's: journal, metadata, alignment


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes per second that one volume's devices wrote, and which of them PostgreSQL explains."""

    volume: str
    device: float
    relations: float
    wal: float
    temp: float

    @property
    def explained(self) -> float:
        """Writes that PostgreSQL counted."""
        return self.relations + self.wal + self.temp

    @property
    def remainder(self) -> float:
        """Writes that it did not count."""
        return max(0.0, self.device - self.explained)


def written(profile: Profile) -> tuple[Written, ...]:
    """Each volume whose devices were seen."""
    layout = profile.layout
    owners = {relation.id: relation.owner for relation in profile.server.relations}
    temp = layout.postgres.temp or (layout.postgres.data,)
    by_volume: dict[str, float] = {}
    for demand in profile.demands:
        name = layout.volume_of(owners.get(demand.relation, demand.relation)).name
        by_volume[name] = by_volume.get(name, 0.0) + demand.block_writes.mean * BLOCK_BYTES
    devices: dict[str, float] = {}
    for device in profile.host.devices if profile.host else ():
        if device.volume is not None:
            devices[device.volume] = devices.get(device.volume, 0.0) + device.write_bytes.mean
    return tuple(
        Written(
            volume=name,
            device=rate,
            relations=by_volume.get(name, 0.0),
            wal=_wal(profile) if name == layout.postgres.wal else 0.0,
            temp=profile.background.temp_bytes.mean / len(temp) if name in temp else 0.0,
        )
        for name, rate in devices.items()
    )


def unexplained_warnings(profile: Profile) -> tuple[Warning, ...]:
    """A warning for each volume that something beside PostgreSQL writes to."""
    return tuple(
        Warning(
            "unexplained-writes",
            f"the device of volume {one.volume} wrote {format_rate(one.device)}, of which"
            f" PostgreSQL explains {format_rate(one.explained)} (relations"
            f" {format_rate(one.relations)}, WAL {format_rate(one.wal)}, temporary files"
            f" {format_rate(one.temp)}): {format_rate(one.remainder)} are something else's, and"
            " predictions count them as PostgreSQL's",
            "find the writer with pidstat -d or iotop, and observe again without it",
        )
        for one in written(profile)
        if one.remainder > _LEAST_BYTES and one.device > _TIMES * one.explained
    )


def _wal(profile: Profile) -> float:
    """WAL reaches the disk in whole blocks: at least one a flush."""
    return max(profile.wal.bytes.mean, profile.wal.syncs.mean * BLOCK_BYTES)
