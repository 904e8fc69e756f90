"""Managed platforms: on RDS there is one volume of data, and perhaps one for the WAL.

A tablespace cannot have a volume of its own there. What is planned is the type, size, IOPS and
throughput of the volume, a Dedicated Log Volume, and the instance.
"""

from dataclasses import replace

import numpy as np

from pgstow.catalog.catalog import Catalog
from pgstow.model import Goal, Layout, Reason, UserError, Volume, Warning
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.candidates import candidate_of, check_types, latencies
from pgstow.planning.pins import Pins
from pgstow.planning.placement import NoSolution
from pgstow.planning.placement.moving import place_within
from pgstow.planning.search import Found, Planner
from pgstow.units import MIB


def managed_candidates(
    present: Layout, goal: Goal, catalog: Catalog, pins: Pins
) -> tuple[CandidateVolume, ...]:
    """The ways to change the data's volume in place, and a log volume.

    From the size on at which the provider stripes, a type has other limits: that is a candidate of
    its own, and what is held already says which of the two there can be.
    """
    if pins.new_volumes:
        raise UserError(
            f"--pin: RDS has no volume {pins.new_volumes[0]} beside that of the data",
            "drop the pin, or pin wal to rds-dlv",
        )
    if goal.backup_bytes is not None:
        raise UserError("--backup: RDS keeps its backups itself", "drop --backup")
    check_types(goal, present.host, catalog)
    data = present.volume(present.postgres.data)
    candidates: list[CandidateVolume] = []
    for volume_type in catalog.types(present.host.platform):
        if not _is_offered(volume_type.name, data, goal):
            continue
        if volume_type.holds == "wal":
            log = candidate_of(
                volume_type, catalog.rules(volume_type.name, present.host)[0], 1, None
            )
            if log is not None:
                candidates.append(_kept(log, present, catalog))
            continue
        candidates += _in_place(volume_type.name, data, present, catalog)
    if not any(
        candidate.existing is not None and not candidate.is_for_wal for candidate in candidates
    ):
        raise UserError(
            f"volume {data.name} is of type {data.type}, which RDS in {present.host.region} has no "
            "price for",
            "correct the layout given to pgstow observe, or write the price into a catalog file of "
            "your own",
        )
    return tuple(candidates)


def _is_offered(name: str, data: Volume, goal: Goal) -> bool:
    allowed = not goal.allow_types or name in goal.allow_types or name == data.type
    return allowed and (name not in goal.forbid_types or name == data.type)


def _in_place(name: str, data: Volume, present: Layout, catalog: Catalog) -> list[CandidateVolume]:
    """One type below and above the size at which it is striped."""
    volume_type = catalog.volume_type(name)
    found = []
    for number, rules in enumerate(catalog.rules(name, present.host)):
        candidate = candidate_of(volume_type, rules, 1, data)
        if candidate is not None:
            key = f"{candidate.key}, striped" if number else candidate.key
            found.append(replace(candidate, key=key))
    return found


def _kept(log: CandidateVolume, present: Layout, catalog: Catalog) -> CandidateVolume:
    """A log volume that is there already stays, as fast as it is."""
    there = next((v for v in present.volumes if v.type == log.type), None)
    if there is None:
        return log
    name = f"{there.name}:{log.type}"
    return replace(log, key=name, existing=there, **latencies(catalog.volume_type(log.type), there))


def managed_reasons(planner: Planner, found: Found) -> tuple[Reason, ...]:
    """Why each volume is as it is: the next best without that way to have it."""
    problem, solution = found.problem, found.solution
    reasons = []
    for bought in solution.volumes:
        other = np.array(
            [candidate.key != bought.candidate.key for candidate in problem.candidates]
        )
        item_classes, special_items = problem.item_classes, problem.special_items
        placed = place_within(
            replace(
                problem,
                item_classes=replace(item_classes, allowed=item_classes.allowed & other),
                special_items=replace(special_items, allowed=special_items.allowed & other),
            )
        )
        name = (
            bought.candidate.existing.name if bought.candidate.existing else bought.candidate.type
        )
        because = (
            f"{bought.iops:,.0f} IOPS and {bought.bytes_per_s / MIB:,.0f} MiB/s for "
            f"{found.tps:,.0f} TPS with {planner.goal.headroom:.0%} kept free"
        )
        choice = f"{bought.candidate.type} of {bought.gib:,.0f} GiB"
        subject = f"volume {name}"
        if isinstance(placed, NoSolution):
            nothing = "none: no other type or size with a known price meets the goal"
            reasons.append(Reason(subject, choice, because, nothing, None))
            continue
        instead = ", ".join(
            f"{problem.candidates[one.candidate].type} of {one.gib:,.0f} GiB"
            for one in placed.volumes
        )
        more = max(0.0, placed.usd_month - solution.usd_month)
        reasons.append(Reason(subject, choice, because, instead, more))
    return tuple(reasons)


def managed_warnings(present: Layout, planned: Layout, catalog: Catalog) -> tuple[Warning, ...]:
    """What a change means on RDS, and which types have no known price."""
    if present.host.platform != "rds":
        return ()
    warnings = []
    had = {volume.type for volume in present.volumes}
    has = {volume.type for volume in planned.volumes}
    logs = {k.name for k in catalog.types("rds") if k.holds == "wal"}
    if (had & logs) != (has & logs):
        warnings.append(
            Warning(
                "log-volume-downtime",
                "adding or dropping a Dedicated Log Volume copies all of the WAL and may stop the "
                "server for a while",
                "drop idle replication slots first, and do it in a maintenance window",
            )
        )
    unknown = [
        volume_type.name
        for volume_type in catalog.types("rds")
        if candidate_of(volume_type, catalog.rules(volume_type.name, present.host)[0], 1, None)
        is None
    ]
    if unknown:
        warnings.append(
            Warning(
                "price-unknown",
                f"no price of {', '.join(unknown)} in {present.host.region} is known, so the plan "
                "is without",
                "write it into a catalog file of your own",
            )
        )
    return tuple(warnings)
