"""Why one relation lies where it does: its density against the types' prices, and what else."""

from dataclasses import dataclass, replace

from pgstow.model import Layout, Prediction, Profile, Relation, RelationId, Tablespace
from pgstow.planning.candidates import PlanningCatalog, sold
from pgstow.planning.contents import work_by_owner
from pgstow.planning.economics import Access, Margins, break_even, gib_bought, usd_month
from pgstow.prediction import Predictor, workload_of
from pgstow.units import GIB

_ALTERNATIVES = 4  # other volumes of the layout that are simulated


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """What a relation would cost on one volume type, for its own space and I/O.

    ``break_even`` is the density (I/O per second of each GiB) at which it costs as much as the type
    it lies on. ``gib`` is what has to be bought, more than is stored where I/O comes with space.
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
    """The reasons for one relation's place. ``types`` are ordered by price, the cheapest first."""

    relation: RelationId
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
    relation: Relation,
    prediction: Prediction,
    profile: Profile,
    catalog: PlanningCatalog,
    margins: Margins,
) -> Why:
    """The reasons for where a relation lies in a predicted layout.

    A TOAST relation's are those of its table, with which it lies.
    """
    owner = next(r for r in profile.server.relations if r.id == relation.owner)
    layout, tps = prediction.layout, prediction.performance.tps
    works = work_by_owner(profile, workload_of(profile))[owner.id]
    size = sum(work.size_bytes for work in works)
    random = sum(work.reads + work.writes for work in works) * tps
    sequential = sum(work.sequential_reads for work in works) * tps
    access = Access(max(size, 1) / GIB, random, sequential)
    home = layout.volume_of(owner.id)
    writes = sum(work.writes for work in works) * tps
    return Why(
        relation=owner.id,
        kind=owner.kind,
        volume=home.name,
        type=home.type,
        size_bytes=size,
        reads=access.iops - writes,
        writes=writes,
        density=access.density,
        types=_types(layout, home.type, access, catalog, margins),
        volumes=_volumes(owner.id, prediction, profile, catalog),
        margins=margins,
        is_idle=access.iops == 0,
    )


def _types(
    layout: Layout, present: str, access: Access, catalog: PlanningCatalog, margins: Margins
) -> tuple[TypeChoice, ...]:
    shapes = {shape.type: shape for shape in sold(layout.host, catalog)}
    here = shapes.get(present)
    found = [
        TypeChoice(
            type=shape.type,
            usd_month=usd_month(shape, access, margins),
            gib=gib_bought(shape, access, margins),
            break_even=None
            if here is None or shape is here
            else break_even(here, shape, access, margins),
            read_ms=shape.read_us / 1e3,
            write_ms=shape.write_us / 1e3,
        )
        for shape in shapes.values()
        if not shape.is_ephemeral
    ]
    return tuple(sorted(found, key=lambda one: one.usd_month))


def _volumes(
    relation: RelationId, prediction: Prediction, profile: Profile, catalog: PlanningCatalog
) -> tuple[VolumeChoice, ...]:
    """The layout simulated with the relation on each other volume of it that is durable."""
    layout = prediction.layout
    home = layout.volume_of(relation).name
    others = [
        volume.name
        for volume in layout.volumes
        if volume.name != home and not catalog.volume_type(volume.type).is_ephemeral
    ]
    found = []
    predictor = Predictor(profile, catalog)
    for name in others[:_ALTERNATIVES]:
        speed = predictor.predict(_moved(layout, relation, name)).performance
        found.append(VolumeChoice(name, speed.tps, speed.commit_ms.p99, speed.usd_month))
    return tuple(found)


def _moved(layout: Layout, relation: RelationId, volume: str) -> Layout:
    """The layout with one relation on another volume, in a tablespace of that one's."""
    spaces = [
        replace(space, relations=tuple(r for r in space.relations if r != relation))
        for space in layout.tablespaces
    ]
    if volume != layout.postgres.data:
        names = {space.name for space in spaces}
        name = next(n for n in (volume, *(f"{volume}{i}" for i in range(99))) if n not in names)
        spaces.append(Tablespace(name=name, volume=volume, relations=(relation,)))
    return replace(layout, tablespaces=tuple(spaces))
