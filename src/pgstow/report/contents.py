"""What is stored on each volume of a layout: its relations, the WAL, and how much each is asked."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgstow.model import Layout, Profile, Relation, RelationId
from pgstow.report.heat import density

_SETTING_UNITS = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing on a volume; ``operations`` of None: not known.

    ``drawn_bytes`` is the area it is drawn with, where that is larger than its size.
    """

    name: str
    kind: str
    size_bytes: float
    operations: float | None
    drawn_bytes: float | None = None

    @property
    def area_bytes(self) -> float:
        """The area of its cell, in bytes."""
        return self.size_bytes if self.drawn_bytes is None else self.drawn_bytes

    @property
    def density(self) -> float | None:
        """I/O per second per GiB."""
        return None if self.operations is None else density(self.operations, self.size_bytes)


def volume_of(layout: Layout, relation: Relation) -> str:
    """The name of the volume that a layout puts a relation on."""
    return layout.volume_of(relation.owner).name


def contents(layout: Layout, profile: Profile | None) -> dict[str, tuple[Item, ...]]:
    """The items of every volume, largest first.

    A table's TOAST is part of the table, partitions on one volume are their parent.
    """
    found: dict[str, list[Item]] = {volume.name: [] for volume in layout.volumes}
    if profile is not None:
        for volume, item in _relations(layout, profile):
            found[volume].append(item)
        wal = _wal(profile)
        if wal is not None:
            found[layout.postgres.wal].append(wal)
    return {
        name: tuple(sorted(items, key=lambda item: (-item.size_bytes, item.name)))
        for name, items in found.items()
    }


def _relations(layout: Layout, profile: Profile) -> Iterable[tuple[str, Item]]:
    asked = {demand.relation: demand.blocks for demand in profile.demands}
    names = profile.server.shown_as()
    parts: dict[tuple[str, RelationId, str], list[Relation]] = {}
    for relation in profile.server.relations:
        parts.setdefault((volume_of(layout, relation), *names[relation.id]), []).append(relation)
    shared = _is_one_schema({name: None for _, name, _ in parts})
    for (volume, name, kind), members in parts.items():
        item = Item(
            name=name.name if shared else str(name),
            kind=kind,
            size_bytes=float(sum(part.size_bytes for part in members)),
            operations=sum(asked.get(part.id, 0.0) for part in members),
        )
        yield volume, item


def _is_one_schema(names: Mapping[RelationId, object]) -> bool:
    """Whether relations need no database and schema to be told apart."""
    return len({(name.database, name.schema) for name in names}) <= 1


def _wal(profile: Profile) -> Item | None:
    """The WAL at the size that it may grow to; None where the server did not say."""
    size = setting_bytes(profile.server.setting("max_wal_size"))
    if size is None:
        return None
    return Item("pg_wal", "WAL", size, profile.wal.writes.mean + profile.wal.syncs.mean)


def setting_bytes(text: str | None) -> float | None:
    """A size as SHOW prints it; PostgreSQL's kB, MB and GB are powers of 1024.

    >>> setting_bytes("1GB")
    1073741824.0
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(B|kB|MB|GB|TB)", (text or "").strip())
    return float(match[1]) * _SETTING_UNITS[match[2]] if match else None
