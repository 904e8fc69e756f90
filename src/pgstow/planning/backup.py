"""Backups on a volume of their own: one that fails with the data's is no backup."""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from pgstow.catalog.catalog import Catalog
from pgstow.model import Goal, InfeasibleError, Layout, Volume, Warning
from pgstow.planning.candidates import sold
from pgstow.planning.economics import Access, Margins, gib_bought
from pgstow.rules import Requirement
from pgstow.units import GIB, Bytes, Iops

_NAME = "backup"


@dataclass(frozen=True, slots=True)
class Backup:
    """The volume for backups, and its price."""

    volume: Volume
    usd_month: float


def backup_apart(present: Layout, catalog: Catalog) -> tuple[Layout, Backup | None]:
    """The layout without its volume for backups, and that volume; it has nothing else on it."""
    name = present.postgres.backup
    if name is None:
        return present, None
    without = replace(present.postgres, backup=None)
    if backup_warnings(present):
        return replace(present, postgres=without), None
    volume = present.volume(name)
    others = tuple(one for one in present.volumes if one.name != name)
    usd = catalog.price(volume, present.host).usd_month or 0.0
    return replace(present, volumes=others, postgres=without), Backup(volume, usd)


def backup_volume(base: Layout, goal: Goal, catalog: Catalog) -> Backup | None:
    """The cheapest volume for backups of the goal's size; None where the goal has none.

    They are written and read from end to end: the cheapest type by space does.
    """
    if goal.backup_bytes is None:
        return None
    size = Access(goal.backup_bytes / GIB, 0.0, 0.0)
    margins = Margins(goal.free_space, goal.headroom)
    offers = []
    for candidate in sold(base.host, catalog):
        is_offered = not goal.allow_types or candidate.type in goal.allow_types
        if not is_offered or candidate.type in goal.forbid_types or candidate.is_ephemeral:
            continue
        gib = gib_bought(candidate, size, margins)
        least = candidate.rules.least(Requirement(gib * GIB))
        if least is not None:
            is_bought = candidate.is_iops_provisioned and candidate.rules.iops.included is None
            volume = Volume(
                _NAME,
                candidate.type,
                Bytes(int(least.size_bytes)),
                str(PurePosixPath(base.volume(base.postgres.data).mount).parent / _NAME),
                iops=Iops(least.iops) if is_bought else None,
            )
            usd = catalog.price(volume, base.host).usd_month
            if usd is not None:
                offers.append(Backup(volume, usd))
    if not offers:
        raise InfeasibleError(
            "no type that is allowed holds the backups", "allow more types, or lower --backup"
        )
    return min(offers, key=lambda one: one.usd_month)


def with_backup(layout: Layout, backup: Backup) -> Layout:
    """The layout with the volume for backups, under a name that is free."""
    taken = {volume.name for volume in layout.volumes}
    own = backup.volume.name
    name = next(n for n in (own, *(f"{own}{i}" for i in range(2, 99))) if n not in taken)
    mount = backup.volume.mount
    if name != own:
        mount = str(PurePosixPath(mount).parent / name)
    return replace(
        layout,
        volumes=(*layout.volumes, replace(backup.volume, name=name, mount=mount)),
        postgres=replace(layout.postgres, backup=name),
    )


def backup_warnings(layout: Layout) -> tuple[Warning, ...]:
    """Backups that would be lost together with what they are of."""
    placement = layout.postgres
    if placement.backup is None:
        return ()
    holds = [
        name
        for name, volume in (("the data", placement.data), ("pg_wal", placement.wal))
        if volume == placement.backup
    ]
    holds += ["temporary files"] if placement.backup in placement.temp else []
    holds += [f"tablespace {s.name}" for s in layout.tablespaces if s.volume == placement.backup]
    if not holds:
        return ()
    return (
        Warning(
            "backup-not-apart",
            f"volume {placement.backup} has the backups and {', '.join(holds)}: "
            "it takes both with it",
            "give the backups a volume of their own",
        ),
    )
