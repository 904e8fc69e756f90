"""What a plan changes: volumes in place first, then what is bought, and what moves."""

from collections import Counter
from dataclasses import dataclass

from pgstow.catalog.catalog import Catalog
from pgstow.model import Layout, Profile
from pgstow.prediction import volumes_of_relations
from pgstow.units import MIB, format_size


@dataclass(frozen=True, slots=True)
class Move:
    """What goes from one volume to another; of the WAL and temporary files no bytes are known."""

    what: str  # "relations", "wal" or "temp"
    from_volume: str
    to_volume: str
    relations: int = 0
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference of two layouts, in the order in which it is made."""

    in_place: tuple[tuple[str, str], ...]  # a volume's name, and what becomes of it
    bought: tuple[str, ...]
    moves: tuple[Move, ...]
    dropped: tuple[str, ...]

    @property
    def moved_bytes(self) -> int:
        """Bytes of all relations that move."""
        return sum(move.bytes or 0 for move in self.moves)


def changes(profile: Profile, planned: Layout, catalog: Catalog) -> Changes:
    """What takes the profile's layout to the planned one."""
    present = profile.layout
    had = [volume.name for volume in present.volumes]
    has = [volume.name for volume in planned.volumes]
    in_place = tuple(
        (name, text)
        for name in has
        if name in had and (text := _difference(present, planned, name, catalog))
    )
    return Changes(
        in_place=in_place,
        bought=tuple(name for name in has if name not in had),
        moves=(*_relations(profile, planned), *_others(present, planned)),
        dropped=tuple(name for name in had if name not in has),
    )


def _difference(present: Layout, planned: Layout, name: str, catalog: Catalog) -> str:
    """What changes of one volume, in words."""
    before, after = present.volume(name), planned.volume(name)
    parts = []
    if before.type != after.type:
        parts.append(f"type {before.type} to {after.type}")
    if before.size_bytes != after.size_bytes:
        parts.append(f"size {format_size(before.size_bytes)} to {format_size(after.size_bytes)}")
    old = catalog.device(before, present.host)
    new = catalog.device(after, planned.host)
    if _differ(old.iops, new.iops):
        parts.append(f"IOPS {_figure(old.iops)} to {_figure(new.iops)}")
    old_rate, new_rate = old.bytes_per_second, new.bytes_per_second
    if _differ(old_rate, new_rate):
        parts.append(f"throughput {_rate(old_rate)} to {_rate(new_rate)} MiB/s")
    return ", ".join(parts)


def _relations(profile: Profile, planned: Layout) -> tuple[Move, ...]:
    relations = profile.server.relations
    before = volumes_of_relations(profile.layout, relations)
    after = volumes_of_relations(planned, relations)
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for relation in relations:
        way = (before[relation.id].name, after[relation.id].name)
        if way[0] != way[1]:
            counts[way] += relation.kind not in ("toast", "toast index")
            sizes[way] += relation.size_bytes
    return tuple(
        Move("relations", *way, relations=counts[way], bytes=sizes[way])
        for way in sorted(counts, key=lambda way: -sizes[way])
    )


def _others(present: Layout, planned: Layout) -> tuple[Move, ...]:
    before, after = present.postgres, planned.postgres
    moves = []
    if before.wal != after.wal:
        moves.append(Move("wal", before.wal, after.wal))
    old, new = (placement.temp or (placement.data,) for placement in (before, after))
    if old != new:
        moves.append(Move("temp", ", ".join(old), ", ".join(new)))
    return tuple(moves)


def _differ(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > 0.5


def _figure(value: float | None) -> str:
    return "no limit" if value is None else f"{value:,.0f}"


def _rate(value: float | None) -> str:
    return "no limit" if value is None else f"{value / MIB:,.0f}"
