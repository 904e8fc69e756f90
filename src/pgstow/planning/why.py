"""Why a relation or pg_wal is on its volume: its density against the types' prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgstow.catalog.catalog import Catalog
from pgstow.model import (
    Layout,
    Prediction,
    Profile,
    Relation,
    RelationId,
    Tablespace,
    Volume,
)
from pgstow.planning.candidates import sold
from pgstow.planning.contents import WAL_KIND, wal_share, work_by_owner
from pgstow.planning.economics import Access, Margins, break_even, gib_bought, usd_month
from pgstow.prediction import Predictor, workload_of
from pgstow.units import GIB

_ALTERNATIVES = 4  # other volumes of the layout that are simulated


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """What a relation would cost on one volume type, for its own space and I/O.

    ``break_even`` is the density (I/O per second of each GiB) at which it costs as much as the type
    it is on. ``gib`` is what has to be bought, more than is stored where I/O comes with space.
    """

    type: str
    usd_month: float
    gib: float
    break_even: float | None
    read_ms: float
    write_ms: float


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """What the layout would do with the relation on another of its volumes."""

    volume: str
    tps: float
    commit_p99_ms: float | None
    usd_month: float | None


@dataclass(frozen=True, slots=True)
class Why:
    """Why one thing is where it is. ``types`` are ordered by price, the cheapest first.

    ``relation`` is None of pg_wal; a partitioned table's is the parent, and ``volume`` then names
    every volume that has some of it.
    """

    subject: str
    relation: RelationId | None
    kind: str
    volume: str
    type: str
    size_bytes: int
    reads: float
    writes: float
    density: float  # I/O per second of each GiB
    types: tuple[TypeChoice, ...]
    volumes: tuple[VolumeChoice, ...]
    margins: Margins
    is_idle: bool  # nothing was asked of it: only its size counts


def why(
    relations: Sequence[Relation],
    prediction: Prediction,
    profile: Profile,
    catalog: Catalog,
    margins: Margins,
) -> Why:
    """Why a relation, or the partitions of one parent, are where a layout has them.

    For a TOAST relation, that of its table, with which it is stored.
    """
    layout, tps = prediction.layout, prediction.performance.tps
    owners = tuple(dict.fromkeys(relation.owner for relation in relations))
    by_owner = work_by_owner(profile, workload_of(profile))
    works = [work for owner in owners for work in by_owner[owner]]
    name, kind = profile.server.shown_as()[owners[0]]
    if len(relations) == 1:
        name, kind = owners[0], kind.removeprefix("partitioned ")
    random = sum(work.reads + work.writes for work in works) * tps
    sequential = sum(work.sequential_reads for work in works) * tps
    return _why(
        _Subject(str(name), name, kind, tuple(dict.fromkeys(map(layout.volume_of, owners)))),
        size_bytes=sum(work.size_bytes for work in works),
        random=random,
        sequential=sequential,
        writes=sum(work.writes for work in works) * tps,
        layout=layout,
        moved={v.name: _moved(layout, owners, v.name) for v in layout.volumes},
        profile=profile,
        catalog=catalog,
        margins=margins,
    )


def why_wal(prediction: Prediction, profile: Profile, catalog: Catalog, margins: Margins) -> Why:
    """Why pg_wal is where the layout has it."""
    layout = prediction.layout
    share = wal_share(prediction, profile, workload_of(profile))
    volume = layout.volume(layout.postgres.wal)
    return _why(
        _Subject("pg_wal", None, WAL_KIND, (volume,)),
        size_bytes=share.size_bytes or 0,
        random=share.iops,
        sequential=0.0,
        writes=share.writes,
        layout=layout,
        moved={
            v.name: replace(layout, postgres=replace(layout.postgres, wal=v.name))
            for v in layout.volumes
        },
        profile=profile,
        catalog=catalog,
        margins=margins,
    )


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    relation: RelationId | None
    kind: str
    volumes: tuple[Volume, ...]


def _why(
    subject: _Subject,
    *,
    size_bytes: int,
    random: float,
    sequential: float,
    writes: float,
    layout: Layout,
    moved: Mapping[str, Layout],
    profile: Profile,
    catalog: Catalog,
    margins: Margins,
) -> Why:
    access = Access(max(size_bytes, 1) / GIB, random, sequential)
    volume = subject.volumes[0]
    is_together = len(subject.volumes) == 1
    others = {n: one for n, one in moved.items() if not (is_together and n == volume.name)}
    return Why(
        subject=subject.name,
        relation=subject.relation,
        kind=subject.kind,
        volume=", ".join(volume.name for volume in subject.volumes),
        type=volume.type,
        size_bytes=size_bytes,
        reads=access.iops - writes,
        writes=writes,
        density=access.density,
        types=_types(layout, volume.type, access, catalog, margins),
        volumes=_volumes(others, profile, catalog),
        margins=margins,
        is_idle=access.iops == 0,
    )


def _types(
    layout: Layout, present: str, access: Access, catalog: Catalog, margins: Margins
) -> tuple[TypeChoice, ...]:
    candidates = {candidate.type: candidate for candidate in sold(layout.host, catalog)}
    here = candidates.get(present)
    found = [
        TypeChoice(
            type=candidate.type,
            usd_month=usd_month(candidate, access, margins),
            gib=gib_bought(candidate, access, margins),
            break_even=None
            if here is None or candidate is here
            else break_even(here, candidate, access, margins),
            read_ms=candidate.read_us / 1e3,
            write_ms=candidate.write_us / 1e3,
        )
        for candidate in candidates.values()
        if not candidate.is_ephemeral
    ]
    return tuple(sorted(found, key=lambda one: one.usd_month))


def _volumes(
    moved: Mapping[str, Layout], profile: Profile, catalog: Catalog
) -> tuple[VolumeChoice, ...]:
    """The layouts simulated that have it on another volume, of those that are durable."""
    predictor = Predictor(profile, catalog)
    durable = [
        (name, layout)
        for name, layout in moved.items()
        if not catalog.volume_type(layout.volume(name).type).is_ephemeral
    ]
    found = []
    for name, layout in durable[:_ALTERNATIVES]:
        speed = predictor.predict(layout).performance
        found.append(VolumeChoice(name, speed.tps, speed.commit_ms.p99, speed.usd_month))
    return tuple(found)


def _moved(layout: Layout, relations: Sequence[RelationId], volume: str) -> Layout:
    """The layout with some relations on another volume, in a tablespace of that one's."""
    spaces = [
        replace(space, relations=tuple(r for r in space.relations if r not in relations))
        for space in layout.tablespaces
    ]
    if volume != layout.postgres.data:
        names = {space.name for space in spaces}
        name = next(n for n in (volume, *(f"{volume}{i}" for i in range(99))) if n not in names)
        spaces.append(Tablespace(name=name, volume=volume, relations=tuple(relations)))
    return replace(layout, tablespaces=tuple(spaces))
