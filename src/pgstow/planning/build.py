"""From a solution in real numbers to a layout that can be bought and mounted."""

from collections.abc import Container
from dataclasses import replace
from pathlib import PurePosixPath

from pgstow.model import Layout, RelationId, Tablespace, Volume
from pgstow.planning.needs import TEMP, WAL
from pgstow.planning.problem import Bought, Solution
from pgstow.rules import Requirement
from pgstow.units import GIB, Bytes, BytesPerSecond, Iops

_SOLVER = 1e-6  # of a quantity: what the solver may be off by


def layout_of(present: Layout, solution: Solution) -> Layout:
    """The layout a solution stands for: whole GiB, IOPS and MiB/s, named volumes, tablespaces."""
    names = _names(present, solution)
    volumes = {
        names[one.candidate.key]: _volume(one, names[one.candidate.key], present)
        for one in solution.volumes
    }
    on = {special: names[candidate] for special, candidate in solution.special_candidate.items()}
    volume_of_relation = {
        relation: names[candidate] for relation, candidate in solution.relation_candidate.items()
    }
    data = names[_candidate_keeping(solution, present.postgres.data)]
    wal = on[WAL]
    temp = (on[TEMP],) if TEMP in on and on[TEMP] != data else ()
    return replace(
        present,
        volumes=tuple(volumes.values()),
        postgres=replace(present.postgres, data=data, wal=wal, temp=temp),
        tablespaces=_tablespaces(present, volume_of_relation, volumes, data, temp),
    )


def _candidate_keeping(solution: Solution, volume: str) -> str:
    return next(
        one.candidate.key
        for one in solution.volumes
        if one.candidate.existing and one.candidate.existing.name == volume
    )


def _names(present: Layout, solution: Solution) -> dict[str, str]:
    """Each candidate's volume name: kept ones keep theirs, new ones say what is on them."""
    names: dict[str, str] = {}
    taken = {volume.name for volume in present.volumes}
    new = [
        one for one in solution.volumes if one.candidate.existing is None and not one.candidate.name
    ]
    for one in solution.volumes:
        if one.candidate.existing is not None:
            names[one.candidate.key] = one.candidate.existing.name
        elif one.candidate.name is not None:
            names[one.candidate.key] = one.candidate.name
            taken.add(one.candidate.name)
    for one in sorted(new, key=lambda one: -one.iops / max(one.gib, 1.0)):
        holds = (*one.special_items, *(("relations",) if one.relations else ()))
        if holds == (WAL,):
            preferred = "wal"
        elif holds == (TEMP,):
            preferred = "temp"
        else:
            preferred = "fast" if one.iops / max(one.gib, 1.0) >= 3 else "bulk"
        name = _free_name(preferred, taken)
        taken.add(name)
        names[one.candidate.key] = name
    return names


def _volume(bought: Bought, name: str, present: Layout) -> Volume:
    """The least that is sold and is enough, member by member."""
    candidate, members = bought.candidate, bought.candidate.stripes
    size_bytes, iops, rate = _sold(bought)
    provisioned_iops = Iops(iops) if candidate.is_iops_provisioned else None
    is_rate = candidate.rules.throughput.is_provisioned
    provisioned_rate = BytesPerSecond(rate) if is_rate else None
    if candidate.existing is not None:
        same_type = candidate.type == candidate.existing.type
        if same_type and candidate.rules.iops.is_declared:
            provisioned_iops = candidate.existing.iops
        if same_type and candidate.rules.throughput.is_declared:
            provisioned_rate = candidate.existing.throughput
        grown_bytes = Bytes(max(size_bytes, candidate.existing.size_bytes))
        return replace(
            candidate.existing,
            type=candidate.type,
            size_bytes=grown_bytes,
            iops=provisioned_iops,
            throughput=provisioned_rate,
            latency=candidate.existing.latency if same_type else None,
            # Another type or size may have no credits to begin with.
            burst_credits=candidate.existing.burst_credits
            if same_type and grown_bytes == candidate.existing.size_bytes
            else None,
        )
    beside = PurePosixPath(present.volume(present.postgres.data).mount).parent
    if beside == PurePosixPath("/"):
        beside = PurePosixPath("/mnt")
    return Volume(
        name=name,
        type=candidate.type,
        size_bytes=size_bytes,
        mount=str(beside / name),
        iops=provisioned_iops,
        throughput=provisioned_rate,
        stripes=members,
    )


def _sold(bought: Bought) -> tuple[Bytes, float, float]:
    """Size, IOPS and bytes per second of one member, on the provider's grid."""
    rules, members = bought.candidate.rules, bought.candidate.stripes
    has_iops, has_rate = rules.iops.is_provisioned, rules.throughput.is_provisioned
    asked = Requirement(
        bought.gib / members * GIB * (1 - _SOLVER),
        bought.iops / members * (1 - _SOLVER) if has_iops else 0.0,
        bought.bytes_per_s / members * (1 - _SOLVER) if has_rate else 0.0,
    )
    least = rules.least(asked)
    if least is None:
        raise AssertionError(f"{bought.candidate.label} is sold with nothing like {asked}")
    return Bytes(int(least.size_bytes)), least.iops, least.bytes_per_s


def _tablespaces(
    present: Layout,
    volume_of_relation: dict[RelationId, str],
    volumes: dict[str, Volume],
    data: str,
    temp: tuple[str, ...],
) -> tuple[Tablespace, ...]:
    """Tablespaces that put every placed relation on its volume.

    A relation that already is on its volume stays in its tablespace.
    """
    spaces = {
        space.name: replace(space, relations=())
        for space in present.tablespaces
        if space.volume in volumes
    }
    placed: dict[str, list[RelationId]] = {name: [] for name in spaces}
    moved = dict(volume_of_relation)
    for space in present.tablespaces:
        for relation in space.relations:
            target = moved.setdefault(relation, space.volume if space.name in spaces else data)
            if target == space.volume and space.name in spaces:
                placed[space.name].append(relation)
                del moved[relation]
    space_on: dict[str, str] = {}  # the first tablespace of each volume
    for name, space in spaces.items():
        space_on.setdefault(space.volume, name)
    for relation, volume in moved.items():
        if volume == data:
            continue  # not named: it goes back to the data directory
        if volume not in space_on:
            name = _free_name(volume, spaces)
            spaces[name] = Tablespace(name=name, volume=volume)
            space_on[volume] = name
        name = space_on[volume]
        placed.setdefault(name, []).append(relation)
    for volume in temp:
        if not any(space.volume == volume for space in spaces.values()):
            name = _free_name(volume, spaces)
            spaces[name] = Tablespace(name=name, volume=volume)
    return tuple(
        replace(space, relations=tuple(sorted(placed.get(name, ()))))
        for name, space in spaces.items()
    )


def _free_name(preferred: str, taken: Container[str]) -> str:
    """The preferred name, with the first number that makes it free where it is taken."""
    name, number = preferred, 2
    while name in taken:
        name, number = f"{preferred}{number}", number + 1
    return name
