"""The instance as part of a plan: the cheapest machine whose volumes meet the goal, or the fastest.

Only machines with a known price count, and only such as the data could move to as they are: of the
same processor architecture (physical replication needs the same), with no less memory (what the
caches held is in the profile's reads), whose cores hold what they promise (no CPU credits).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pgstow.catalog.types import Instance
from pgstow.model import HostSpec, InfeasibleError, Reason, Warning
from pgstow.planning.placement import NoSolution
from pgstow.planning.placement.moving import place_within
from pgstow.planning.problem import READS
from pgstow.planning.search import (
    TPS_TOLERANCE,
    Found,
    Planner,
    Tightening,
    cheapest,
    fastest,
    fastest_of,
)
from pgstow.units import format_size

_ARM = re.compile(r"a1|[a-z]+\d+[a-z-]*g[a-z]*")  # EC2's names: g after the generation is Graviton
_CREDITS = re.compile(r"t\d")
_TRIED = 12  # instances for a budget; the fastest by their limits first


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine and its monthly price."""

    machine: Instance
    usd_month: float

    @property
    def _capacities(self) -> tuple[float, ...]:
        one = self.machine
        return (
            one.vcpus,
            one.baseline_iops or 0.0,
            one.baseline_bytes_per_second or 0.0,
            one.max_attachments or 0,
            one.disks,
            one.disk_bytes or 0,
        )

    def dominates(self, other: "Offer") -> bool:
        """Whether it costs no more and is worse in nothing."""
        if self.usd_month > other.usd_month:
            return False
        return all(a >= b for a, b in zip(self._capacities, other._capacities, strict=True))


@dataclass(frozen=True, slots=True)
class Chosen:
    """An instance with its layout. ``bound_usd`` is of both; ``reason`` is why this one."""

    offer: Offer
    planner: Planner
    found: Found
    bound_usd: float
    reason: Reason

    @property
    def usd_month(self) -> float:
        """Volumes and instance together."""
        return _total(self.offer, self.found)


PlannerOn = Callable[[Offer], Planner | None]  # None: the machine cannot have these volumes


def is_arm(name: str) -> bool:
    """Whether an EC2 instance type has Graviton processors.

    >>> [is_arm(f"{n}.large") for n in ("r6g", "r8gb", "im4gn", "a1", "r6i", "g5", "g4dn", "m6gd")]
    [True, True, True, True, False, False, False, True]
    """
    return _ARM.fullmatch(name.partition(".")[0]) is not None


def undominated(
    offers: Iterable[tuple[Instance, float]], present: str, memory_bytes: int | None
) -> tuple[Offer, ...]:
    """The machines that could take the load and that none dominates; the cheapest first."""
    fit = [
        Offer(machine, usd)
        for machine, usd in offers
        if is_arm(machine.name) == is_arm(present)
        and machine.memory_bytes >= (memory_bytes or 0)
        and machine.baseline_iops is not None
        and (machine.name == present or not _CREDITS.match(machine.name))
    ]
    fit.sort(key=lambda offer: (offer.usd_month, -offer.machine.vcpus, offer.machine.name))
    kept: list[Offer] = []
    for offer in fit:
        if not any(one.dominates(offer) for one in kept):
            kept.append(offer)
    return tuple(kept)


def cheapest_anywhere(offers: Sequence[Offer], planner_on: PlannerOn, tps: float) -> Chosen | None:
    """The least price of volumes and instance together for a throughput; None: none meets it.

    Without caps and waiting the volumes cost no more than with: what an instance could cost at
    least this way rules out most of them.
    """
    tried: list[tuple[Offer, Planner, Found]] = []
    missed: list[tuple[Offer, str]] = []
    too_expensive: list[tuple[str, float]] = []  # not tried, and at least so much
    freely: dict[tuple[int, int | None], float] = {}  # by the machine's own disks
    bound = best = float("inf")
    for offer in offers:
        planner = planner_on(offer)
        if planner is None:
            continue
        problem = planner.problem(tps, Tightening())
        if problem is None:
            missed.append((offer, f"{offer.machine.vcpus} vCPU are too few"))
            continue
        disks = (offer.machine.disks, offer.machine.disk_bytes)
        if disks not in freely:
            free = replace(problem, host_kiops=None, host_mibps=None, response_ms=None)
            placed = place_within(free)
            known = 0.0 if placed is NoSolution.NOT_FOUND else float("inf")
            freely[disks] = known if isinstance(placed, NoSolution) else placed.bound_usd
        least = offer.usd_month + freely[disks]
        if least < best:
            solution = planner.solved(problem)
            if isinstance(solution, NoSolution):
                if solution is NoSolution.NOT_FOUND:
                    bound = min(bound, least)
                missed.append((offer, "its storage cap is too low"))
                continue
            least = offer.usd_month + solution.bound_usd
        bound = min(bound, least)
        if least >= best:
            too_expensive.append((offer.machine.name, least))
            continue
        found = cheapest(planner, tps)
        if isinstance(found, NoSolution):
            missed.append((offer, "its latency under this load is too high"))
            continue
        tried.append((offer, planner, found))
        best = min(best, _total(offer, found))
    if not tried:
        return None
    offer, planner, found = min(tried, key=lambda one: _total(one[0], one[2]))
    others = too_expensive + [(o.machine.name, _total(o, f)) for o, _, f in tried if o is not offer]
    reason = _reason(offer, best, others, missed)
    return Chosen(offer, planner, found, min(bound, best), reason)


def fastest_anywhere(offers: Sequence[Offer], planner_on: PlannerOn) -> Chosen | None:
    """The highest throughput for what the budget leaves beside each instance.

    The machines whose cores and cap allow most are tried; of equals, the cheapest is taken.
    """
    able = [(p, o) for o in offers if (p := planner_on(o)) is not None]
    able.sort(key=lambda one: (-_most_tps(one[0]), one[1].usd_month))
    tried: list[tuple[Offer, Planner, Found]] = []
    for planner, offer in able[:_TRIED]:
        most = max((f.prediction.performance.tps for _, _, f in tried), default=0.0)
        if _most_tps(planner) < most * TPS_TOLERANCE:
            break
        found = fastest(planner, planner.goal.budget_usd_month or 0.0)
        if isinstance(found, Found):
            tried.append((offer, planner, found))
    if not tried:
        return None
    good = fastest_of(tried, lambda one: one[2].prediction)
    offer, planner, found = min(good, key=lambda one: _total(one[0], one[2]))
    usd = _total(offer, found)
    others = [(o.machine.name, _total(o, f)) for o, _, f in good if o is not offer]
    reason = _reason(offer, usd, others, [])
    return Chosen(offer, planner, found, min(usd, offer.usd_month + found.bound_usd), reason)


def _most_tps(planner: Planner) -> float:
    """What the cores, the clients and the machine's cap allow on any volumes."""
    headroom, cap = planner.goal.headroom, planner.cap.iops
    most = planner.workload.most_tps(headroom)
    asked = float(planner.demands.demand[:, READS:].sum())
    if cap is None or asked <= 0 or any(s.is_ephemeral for s in planner.candidates):
        return most
    return min(most, cap * (1 - headroom) / asked)


def _total(offer: Offer, found: Found) -> float:
    return offer.usd_month + (found.prediction.performance.usd_month or 0.0)


def _reason(
    offer: Offer, usd: float, others: list[tuple[str, float]], missed: list[tuple[Offer, str]]
) -> Reason:
    machine = offer.machine
    because = f"{machine.vcpus} vCPU, {format_size(machine.memory_bytes)}"
    if machine.baseline_iops is not None:
        because += f", {machine.baseline_iops:,.0f} IOPS sustained"
    cheaper = [one for one in missed if one[0].usd_month < offer.usd_month]
    if cheaper:
        last, why = cheaper[-1]
        because += f"; of the cheaper {last.machine.name}, {why}"
    if not others:
        return Reason("instance", machine.name, because, "none: no other meets the goal", None)
    name, price = min(others, key=lambda one: one[1])
    return Reason("instance", machine.name, because, name, max(0.0, price - usd))


def no_instance(offers: Sequence[Offer], budget: float | None) -> InfeasibleError:
    """What to say where no instance is within the budget, or none is known."""
    if not offers or budget is None:
        return InfeasibleError(
            "no instance whose price is known has the memory and the processors that there are now",
            "name one with --instance; pgstow catalog instances shows which prices are known",
        )
    least = offers[0]
    return InfeasibleError(
        f"no instance with its volumes costs as little as ${budget:,.2f} per month",
        f"the cheapest of the {len(offers)} considered is {least.machine.name}: "
        f"${least.usd_month:,.2f} without volumes",
    )


def instance_warnings(
    present: HostSpec, planned: HostSpec, cores: int | None
) -> tuple[Warning, ...]:
    """What another instance means; ``cores`` of None: the catalog does not know it."""
    if planned.instance == present.instance or planned.instance is None:
        return ()
    if cores is None:
        return (
            Warning(
                "instance-unknown",
                f"the catalog does not know {planned.instance}: the plan is without a cap of its "
                "own, and for as many cores as there are now",
                "measure there with pgstow verify before you rely on it",
            ),
        )
    before = present.instance or "the present machine"
    found = [
        Warning(
            "other-instance",
            f"the plan is for {planned.instance}: its cores are taken to be as fast as those of "
            f"{before}, and a change stops the server",
            "measure there with pgstow verify before you rely on it",
        )
    ]
    names = [name.removeprefix("db.") for name in (before, planned.instance)]
    if present.platform == "ec2" and is_arm(names[0]) != is_arm(names[1]):
        found.append(
            Warning(
                "other-architecture",
                f"{planned.instance} has another processor architecture than {before}, and the "
                "server's files cannot be used there",
                "replicate logically, or dump and restore",
            )
        )
    return tuple(found)
