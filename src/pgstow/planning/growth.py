"""How fast relations grow, and a profile as it will be: larger, and asked for the same.

Growth is what two profiles of one server saw, or what the inserts of one say.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pgstow.model import Layout, Profile, Relation, RelationId, UserError, Warning
from pgstow.planning.needs import base_gib, wal_gib
from pgstow.prediction import volumes_of_relations
from pgstow.units import GIB, Bytes, format_duration, format_size

_APART_S = 3600.0  # two profiles nearer than this say little: files grow in steps
_FAR = 30.0  # times what was seen: beyond, there is a warning


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes per second of the relations that grow, and over how long that was seen."""

    bytes_per_second: Mapping[RelationId, float]
    seen_s: float
    source: str

    @property
    def total(self) -> float:
        """Bytes per second of all relations together."""
        return sum(self.bytes_per_second.values())


def growth(profile: Profile, earlier: tuple[Profile, ...] = ()) -> Growth | None:
    """The growth of a profile's relations; None where nothing is known of it.

    Of the earlier profiles of the same server, the oldest is compared with.
    """
    known = [
        one
        for one in earlier
        if one.server.system_identifier == profile.server.system_identifier
        and _apart_s(one, profile) >= _APART_S
    ]
    if known:
        return _between(min(known, key=lambda one: -_apart_s(one, profile)), profile)
    return _inserts(profile)


def grown(profile: Profile, found: Growth, horizon_s: float) -> Profile:
    """The profile with its relations as large as they will be."""

    def larger(relation: Relation) -> Relation:
        rate = found.bytes_per_second.get(relation.id, 0.0)
        return replace(relation, size_bytes=Bytes(round(relation.size_bytes + rate * horizon_s)))

    relations = tuple(larger(relation) for relation in profile.server.relations)
    return replace(profile, server=replace(profile.server, relations=relations))


def growth_needed(found: Growth | None) -> Growth:
    """The growth; a UserError where none is known."""
    if found is None:
        raise UserError(
            "--horizon: the profile says nothing of growth",
            "observe again at least an hour later, or while rows are inserted",
        )
    return found


def growth_warnings(found: Growth, horizon_s: float) -> tuple[Warning, ...]:
    """A warning where the horizon is much longer than growth was observed."""
    if horizon_s <= found.seen_s * _FAR:
        return ()
    return (
        Warning(
            "far-horizon",
            f"{format_size(found.total * horizon_s)} of growth in {format_duration(horizon_s)} "
            f"are drawn from {found.source}",
            "keep profiles of several days, and plan again",
        ),
    )


def full_warnings(
    layout: Layout, profile: Profile, found: Growth, horizon_s: float
) -> tuple[Warning, ...]:
    """The volumes of a layout that fill up within the horizon, and when."""
    relations = profile.server.relations
    volume_of = volumes_of_relations(layout, relations)
    used: defaultdict[str, float] = defaultdict(float)
    rates: defaultdict[str, float] = defaultdict(float)
    used[layout.postgres.data] += base_gib() * GIB
    used[layout.postgres.wal] += wal_gib(profile) * GIB
    for relation in relations:
        name = volume_of[relation.id].name
        used[name] += relation.size_bytes
        rates[name] += found.bytes_per_second.get(relation.id, 0.0)
    warnings = []
    for volume in layout.volumes:
        free, rate = volume.total_bytes - used[volume.name], rates[volume.name]
        if rate > 0 and free < rate * horizon_s:
            when = "is full now" if free <= 0 else f"is full in {format_duration(free / rate)}"
            warnings.append(
                Warning(
                    "volume-full",
                    f"volume {volume.name} {when}: {format_size(max(0, free))} are left, and its "
                    f"relations grow by {format_size(rate * 86400)} a day",
                    "pgstow plan --horizon finds room for it",
                )
            )
    return tuple(warnings)


def _apart_s(one: Profile, other: Profile) -> float:
    begins = (datetime.fromisoformat(p.started_at) for p in (one, other))
    first, second = begins
    return (second - first).total_seconds()


def _between(earlier: Profile, later: Profile) -> Growth:
    """What two profiles saw. A partition that came between them is growth of its table."""
    apart_s = _apart_s(earlier, later)
    sizes = {relation.id: relation.size_bytes for relation in earlier.server.relations}
    rates = {}
    for relation in later.server.relations:
        before = sizes.get(relation.id)
        if before is None:
            before = Bytes(0) if relation.partition_of is not None else relation.size_bytes
        if relation.size_bytes > before:
            rates[relation.id] = (relation.size_bytes - before) / apart_s
    source = f"two profiles {format_duration(apart_s)} apart"
    return Growth(rates, apart_s, source)


def _inserts(profile: Profile) -> Growth | None:
    known = [demand for demand in profile.demands if demand.growth_bytes is not None]
    if not known:
        return None
    rates = {
        demand.relation: demand.growth_bytes.mean
        for demand in known
        if demand.growth_bytes is not None and demand.growth_bytes.mean > 0
    }
    source = f"the inserts of {format_duration(profile.seconds)}"
    return Growth(rates, profile.seconds, source)
