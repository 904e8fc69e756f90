"""Find the cheapest layout that meets a goal, or the fastest within a budget, and prove it.

What is sought is in ``search``; here it is prepared from a profile and a goal, and put into a plan.
"""

import math
from dataclasses import dataclass, replace

from pgstow.catalog.catalog import Catalog
from pgstow.model import (
    Acceptance,
    Bound,
    Considered,
    Goal,
    HostSpec,
    Layout,
    Plan,
    Prediction,
    Profile,
    Reason,
    UserError,
    Warning,
)
from pgstow.planning.backup import Backup, backup_apart, backup_volume, backup_warnings, with_backup
from pgstow.planning.candidates import candidate_volumes, holding
from pgstow.planning.evidence import evidence
from pgstow.planning.growth import Growth, grown, growth_needed, growth_warnings
from pgstow.planning.held import held_gib
from pgstow.planning.in_place import why_moving
from pgstow.planning.instances import (
    Offer,
    cheapest_anywhere,
    fastest_anywhere,
    instance_warnings,
    no_instance,
    undominated,
)
from pgstow.planning.managed import managed_candidates, managed_reasons, managed_warnings
from pgstow.planning.memory import cache_on, memory_warnings, unknown_warnings
from pgstow.planning.nearest import over_budget, too_slow, unmet
from pgstow.planning.pins import Pins, check_prices, pins_of
from pgstow.planning.placement import NoSolution
from pgstow.planning.problem import demands_of
from pgstow.planning.reasons import reasons
from pgstow.planning.rules import allowed
from pgstow.planning.search import TPS_TOLERANCE, Found, Planner, cheapest, fastest
from pgstow.planning.settings import layout_with_settings
from pgstow.prediction import Predictor, Workload, on_host, workload_of


def plan(profile: Profile, goal: Goal, catalog: Catalog, growth: Growth | None = None) -> Plan:
    """The cheapest layout that meets ``goal``; with a budget, the fastest within it.

    Raises InfeasibleError naming what stands in the way, UserError where the platform sells no
    volumes or the goal contradicts itself.
    """
    return _planned(case_of(profile, goal, catalog, growth))


def case_of(profile: Profile, goal: Goal, catalog: Catalog, growth: Growth | None = None) -> "Case":
    """What a plan starts from. Raises as :func:`plan`."""
    if profile.layout.host.platform == "local":
        raise UserError(
            "the present layout says platform local, whose volumes have no prices",
            "observe with --layout FILE that says the platform, region, instance and volumes",
        )
    predictor = Predictor(profile, catalog)
    present = predictor.predict(profile.layout)
    warnings: tuple[Warning, ...] = ()
    if goal.horizon_s is not None:
        rates = growth_needed(growth)
        warnings = growth_warnings(rates, goal.horizon_s)
        profile = grown(profile, rates, goal.horizon_s)
        predictor = Predictor(profile, catalog)
    cache = cache_on(profile, goal.instance, catalog)
    unknown = () if cache is None else unknown_warnings(cache, profile)
    warnings += unknown
    if cache is not None and not unknown:
        predictor = predictor.remembering(cache)
        warnings += memory_warnings(cache, predictor.workload, workload_of(profile))
    return Case(profile, goal, catalog, predictor, present, warnings)


@dataclass(frozen=True, slots=True)
class Case:
    """What a plan starts from: a profile, a goal, and what follows from them before the search."""

    profile: Profile  # with relations as large as they will be
    goal: Goal
    catalog: Catalog
    predictor: Predictor
    present: Prediction
    warnings: tuple[Warning, ...]

    @property
    def seen(self) -> Workload:
        """The load as observed, with the reads that the planned memory leaves."""
        return self.predictor.workload

    @property
    def base(self) -> Layout:
        """The present layout on the host that is planned for."""
        present, _ = backup_apart(self.profile.layout, self.catalog)
        name = self.goal.instance
        if name is None or name == present.host.instance:
            return present
        host = HostSpec(present.host.platform, present.host.region, name)
        self.catalog.host_cap(host)  # raises for a name that is not there
        return replace(present, host=host)

    @property
    def backup(self) -> Backup | None:
        """The volume for backups: the one there is, or a new one where the goal wants one."""
        _, present = backup_apart(self.profile.layout, self.catalog)
        return present or backup_volume(self.base, self.goal, self.catalog)

    @property
    def memory_bytes(self) -> int | None:
        """The memory there is now; of a container, its own."""
        known = [self.catalog.memory_bytes(self.profile.layout.host)]
        known += [self.profile.host.memory_bytes] if self.profile.host is not None else []
        return min((one for one in known if one is not None), default=None)

    @property
    def tps(self) -> float:
        """The target throughput, where there is no budget."""
        observed = self.seen.transactions_per_second
        return self.goal.tps or min(observed, self.present.performance.tps or observed)

    def workload_at(self, tps: float | None) -> Workload:
        """The load with as many clients as ask for so many transactions; None: as observed."""
        seen = on_host(self.seen, self.profile, self.base.host, self.catalog)
        return replace(seen, clients=clients_for(seen, tps, self.present))

    def planner(self) -> Planner:
        """All that the search needs."""
        profile, goal, base = self.profile, self.goal, self.base
        workload = self.workload_at(goal.tps)
        if base.host != profile.layout.host:
            self.catalog.check(base)  # raises where the machine cannot have these volumes
        volume_types = self.catalog.types(base.host.platform)
        pins = pins_of(goal.pins, profile, [volume_type.name for volume_type in volume_types])
        region = base.host.region
        self._check_new_names(pins)
        check_prices(pins, [k.name for k in volume_types if k.price_in(region) is not None], region)
        if base.host.platform == "rds":
            candidates = managed_candidates(base, goal, self.catalog, pins)
        else:
            candidates = candidate_volumes(base, goal, self.catalog, pins.new_volumes)
        candidates = tuple(candidate.on(self.predictor.overhead) for candidate in candidates)
        demands = demands_of(profile, workload)
        candidates = holding(candidates, held_gib(profile, demands, workload))
        backup = self.backup
        left = goal if backup is None else _without(goal, backup.usd_month)
        return Planner(
            profile=profile,
            base=base,
            goal=left,
            catalog=self.catalog,
            predictor=self.predictor,
            workload=workload,
            candidates=candidates,
            cap=self.catalog.host_cap(base.host),
            demands=demands,
            allowed=allowed(profile, goal, candidates, pins),
            io_units={volume_type.name: volume_type.io_unit_bytes for volume_type in volume_types},
            beside_usd=0.0 if backup is None else backup.usd_month,
        )

    def _check_new_names(self, pins: Pins) -> None:
        """Refuse new volumes that are called like a type of another platform."""
        for name in pins.new_volumes:
            try:
                self.catalog.volume_type(name)
            except UserError:
                continue
            platform = self.base.host.platform
            raise UserError(
                f"a pin asks for {name}, which is no volume type of platform {platform}",
                "name a type or a volume of this platform, or give a new volume another name",
            )

    def other(self, goal: Goal) -> Planner | None:
        """A planner for another goal of the user's; None where that contradicts itself."""
        try:
            return replace(self, goal=goal).planner()
        except UserError:
            return None


def _without(goal: Goal, backup_usd_month: float) -> Goal:
    """The goal less the backup's volume and its price."""
    budget = goal.budget_usd_month
    if budget is not None:
        budget = max(0.0, budget - backup_usd_month)
    if goal.max_volumes < 2:
        raise UserError(
            "--max-volumes 1 leaves none for the data beside the backups'", "allow one more"
        )
    return replace(goal, max_volumes=goal.max_volumes - 1, budget_usd_month=budget)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was found, for which case; ``bound_usd`` has the instance where it is planned too."""

    case: Case
    planner: Planner
    found: Found
    bound_usd: float
    reasons: tuple[Reason, ...] = ()
    instances: tuple[str, ...] = ()  # that were considered


def _search(case: Case) -> _Answer:
    planner = case.planner()  # raises for what is wrong on any instance
    if case.goal.any_instance:
        return _search_instances(case)
    budget = planner.goal.budget_usd_month
    if budget is not None:
        found = fastest(planner, budget)
        if isinstance(found, NoSolution):
            raise over_budget(found, case.goal, case.other)
        if found.prediction.performance.tps < (planner.goal.tps or 0.0) * TPS_TOLERANCE:
            raise too_slow(found, case.goal, case.other)
    else:
        found = cheapest(planner, case.tps)
        if isinstance(found, NoSolution):
            raise unmet(planner, case.tps, found, case.goal, case.other)
    return _Answer(case, planner, found, min(found.bound_usd, found.usd_month))


def _search_instances(case: Case) -> _Answer:
    """The same over all instances that could take the load, their prices counted."""
    goal, host = case.goal, case.base.host
    if goal.instance is not None:
        raise UserError("--instance and --any-instance contradict each other", "drop one of them")
    if host.platform != "ec2" or host.instance is None:
        raise UserError(
            "--any-instance: only EC2's prices are known, and the present instance must be named",
            "say platform ec2 and the instance in the layout, or name one with --instance",
        )
    offers = undominated(case.catalog.offers(host), host.instance, case.memory_bytes)

    def on(offer: Offer) -> Case:
        left = goal.budget_usd_month
        left = None if left is None else max(0.0, left - offer.usd_month)
        name = offer.machine.name
        other = replace(goal, instance=name, any_instance=False, budget_usd_month=left)
        return replace(case, goal=other)

    def planner_on(offer: Offer) -> Planner | None:
        try:
            return on(offer).planner()
        except UserError:
            return None

    if goal.budget_usd_month is None:
        chosen = cheapest_anywhere(offers, planner_on, case.tps)
    else:
        chosen = fastest_anywhere(offers, planner_on)
    if chosen is None:
        largest = max(offers, key=lambda one: one.machine.vcpus, default=None)
        planner = planner_on(largest) if largest is not None else None
        if planner is None or goal.budget_usd_month is not None or largest is None:
            raise no_instance(offers, goal.budget_usd_month)
        there = on(largest)
        first = planner.priced(case.tps)
        why = first if isinstance(first, NoSolution) else NoSolution.NOT_FOUND
        raise unmet(planner, case.tps, why, there.goal, there.other)
    if chosen.found.prediction.performance.tps < (goal.tps or 0.0) * TPS_TOLERANCE:
        there = on(chosen.offer)
        raise too_slow(chosen.found, there.goal, there.other)
    names = tuple(offer.machine.name for offer in offers)
    return _Answer(
        on(chosen.offer), chosen.planner, chosen.found, chosen.bound_usd, (chosen.reason,), names
    )


def _planned(asked: Case) -> Plan:
    answer = _search(asked)
    case, planner, found = answer.case, answer.planner, answer.found
    goal, catalog, backup = case.goal, case.catalog, case.backup
    prediction, bound = found.prediction, answer.bound_usd
    layout, changed = layout_with_settings(case.profile, prediction, goal, catalog)
    if backup is not None:
        layout = with_backup(layout, backup)
        bound += backup.usd_month
        prediction = case.predictor.predict(layout, clients=planner.workload.clients)
    instance_usd = catalog.host_usd_month(layout.host)
    return Plan(
        goal=asked.goal,
        layout=layout,
        prediction=replace(prediction, layout=layout),
        present=case.present,
        reasons=(
            *answer.reasons,
            *_reasons(case, planner, found),
        ),
        warnings=(
            *case.present.warnings,
            *catalog.check(layout),
            *backup_warnings(case.profile.layout),
            *evidence(case.profile, target_tps=goal.tps),
            *case.warnings,
            *managed_warnings(case.base, layout, catalog),
            *instance_warnings(case.profile.layout.host, layout.host, catalog.cores(layout.host)),
            *_warnings(goal, found, case.seen, planner.workload),
        ),
        settings=changed,
        instance_usd_month=instance_usd,
        present_instance_usd_month=catalog.host_usd_month(case.profile.layout.host),
        bound=_bound(asked.goal, answer, bound),
    )


def _bound(goal: Goal, answer: _Answer, usd_month: float) -> Bound:
    """What was proved: of the price, or with a budget of the speed at any price."""
    planner, found = answer.planner, answer.found
    layouts = Considered(
        types=tuple(dict.fromkeys(candidate.type for candidate in planner.candidates)),
        max_volumes=goal.max_volumes,
        max_stripes=goal.max_stripes,
        max_move_bytes=goal.max_move_bytes,
        instances=answer.instances,
        is_pinned=bool(goal.pins),
        keeps=planner.base.postgres.data,
        max_failure_rate=goal.max_failure_rate,
    )
    if goal.budget_usd_month is not None:
        most = planner.most_tps
        proven = not answer.instances and most >= found.prediction.performance.tps * TPS_TOLERANCE
        return Bound("tps", most, layouts, None, is_proven=proven)
    target = Acceptance(
        tps=found.tps,
        tolerance=1 - TPS_TOLERANCE,
        headroom=goal.headroom,
        free_space=goal.free_space,
        commit_p99_ms=goal.commit_p99_ms,
        read_p99_ms=goal.read_p99_ms,
    )
    is_proven = math.isfinite(usd_month)
    return Bound("price", usd_month if is_proven else 0.0, layouts, target, is_proven=is_proven)


def _reasons(case: Case, planner: Planner, found: Found) -> tuple[Reason, ...]:
    """Why the layout is as it is; on a managed platform nothing can be placed elsewhere."""
    if case.base.host.platform == "rds":
        return managed_reasons(planner, found)
    return (
        *why_moving(planner, found, case.profile),
        *reasons(found, planner, case.profile),
    )


def clients_for(seen: Workload, tps: float | None, present: Prediction) -> int:
    """How many clients ask for the target TPS.

    Clients that mostly wait for answers ask more often where answers come sooner. Those that mostly
    think do not: there more transactions are more clients, N = X (Z + R), with R as on the present
    volumes and half as much again, so that the answer's time is not what the plan turns on.
    """
    observed = seen.transactions_per_second
    thinking = observed * seen.think_us / 1e6
    if tps is None or thinking <= seen.clients / 2:
        return seen.clients
    predicted_s = (present.performance.latency_ms.mean or 0.0) / 1e3
    response_s = max((seen.clients - thinking) / observed, predicted_s)
    return max(seen.clients, math.ceil(tps * (seen.think_us / 1e6 + 1.5 * response_s)))


def _warnings(goal: Goal, found: Found, seen: Workload, workload: Workload) -> tuple[Warning, ...]:
    warnings = []
    commit = found.prediction.performance.commit_ms.p99
    if goal.commit_p99_ms is not None and commit is None:
        warnings.append(
            Warning("no-commits", "the profile saw no commits, so none could be predicted")
        )
    if workload.temp_bytes <= 0 and any(what == "temp" for what, _ in goal.pins):
        warnings.append(
            Warning("pin-unused", "no temporary files were seen, so that pinning them does nothing")
        )
    if workload.clients > seen.clients:
        warnings.append(
            Warning(
                "more-clients",
                f"the plan's load is {workload.clients} clients: the {seen.clients} that were seen "
                f"think for {seen.think_us / 1000:,.1f} ms between transactions, and cannot ask "
                "for more",
            )
        )
    return tuple(warnings)
