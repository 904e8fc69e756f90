"""A plan beside what the rules of thumb buy for the same goal, all predicted in the same way."""

from dataclasses import dataclass, replace

from pgstow.catalog.catalog import Catalog
from pgstow.model import (
    Goal,
    InfeasibleError,
    Layout,
    LayoutError,
    Plan,
    Prediction,
    Profile,
)
from pgstow.planning.backup import Backup, with_backup
from pgstow.planning.baselines import RULES, Rule, layout, quoted, rule_context
from pgstow.planning.growth import Growth
from pgstow.planning.planner import case_of
from pgstow.planning.search import CENT, TPS_TOLERANCE, Planner, fastest_of, highest

_BISECTIONS = 14
_STEPS, _STEP = 5, 0.08  # of speeds under the fastest for a budget
_VOLUMES_MAX = 16


@dataclass(frozen=True, slots=True)
class Compared:
    """One way to buy storage, and what it does. ``missed``: targets of the goal it does not meet.

    Without a layout where the rule gives nothing that can be bought, for the reason ``refused``.
    """

    name: str
    layout: Layout | None
    prediction: Prediction | None
    missed: tuple[str, ...]
    refused: str | None = None


def baseline(name: str, profile: Profile, goal: Goal, catalog: Catalog) -> Layout:
    """What one rule of :data:`RULES` buys: for the target throughput, or within the budget.

    Where even its least is over the budget, that. Raises InfeasibleError where the platform does
    not sell what the rule asks for.
    """
    return _Rules.of(profile, goal, catalog, None).answer(RULES[name])[0]


def compare(
    profile: Profile,
    goal: Goal,
    catalog: Catalog,
    found: Plan,
    growth: Growth | None = None,
) -> tuple[Compared, ...]:
    """A plan beside every rule; with a budget, each rule's fastest within it."""
    budget = goal.budget_usd_month
    if goal.any_instance and budget is not None:
        budget -= found.instance_usd_month or 0.0
    host = found.layout.host
    goal = replace(goal, instance=host.instance, any_instance=False, budget_usd_month=budget)
    rules = _Rules.of(profile, goal, catalog, growth)
    rows = [Compared("pgstow", found.layout, found.prediction, rules.missed(found.prediction))]
    for name, rule in RULES.items():
        try:
            bought_layout, prediction = rules.answer(rule)
        except (InfeasibleError, LayoutError) as error:
            rows.append(Compared(name, None, None, (), str(error)))
            continue
        rows.append(Compared(name, bought_layout, prediction, rules.missed(prediction)))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The plan's goal for the rules: without its limits on types, pins and failure rates."""

    goal: Goal
    catalog: Catalog
    planner: Planner
    tps: float | None  # None: as many as the budget is good for
    backup: Backup | None

    @classmethod
    def of(cls, profile: Profile, goal: Goal, catalog: Catalog, growth: Growth | None) -> "_Rules":
        free = replace(
            goal,
            allow_types=(),
            forbid_types=(),
            pins=(),
            max_failure_rate=None,
            max_volumes=_VOLUMES_MAX,
        )
        case = case_of(profile, free, catalog, growth)
        tps = case.tps if goal.budget_usd_month is None else None
        return cls(goal, catalog, case.planner(), tps, case.backup)

    def answer(self, rule: Rule) -> tuple[Layout, Prediction]:
        """What the rule buys, and its prediction."""
        if self.tps is not None:
            return self._at(rule, self.tps)
        budget = self.planner.goal.budget_usd_month  # without what the backup costs
        assert budget is not None, "without a budget there is a throughput"
        fastest = self._fastest(rule, budget)
        every = [self._at(rule, fastest * (1 - _STEP * step)) for step in range(_STEPS)]
        # whole IOPS and MiB/s may cost a few cents more than what was searched for
        kept = [
            one for one in every if (one[1].performance.usd_month or 0.0) <= self._most_usd + CENT
        ]
        good = fastest_of(kept or every, lambda one: one[1])
        return min(good, key=lambda one: one[1].performance.usd_month or 0.0)

    @property
    def _most_usd(self) -> float:
        budget = self.goal.budget_usd_month
        return float("inf") if budget is None else budget

    def _at(self, rule: Rule, tps: float) -> tuple[Layout, Prediction]:
        context = rule_context(self.planner, tps)
        found = layout(quoted(rule, context), context)
        if self.backup is not None:
            found = with_backup(found, self.backup)
        self.catalog.check(found)
        return found, self.planner.check(found)

    def _fastest(self, rule: Rule, budget: float) -> float:
        """The highest throughput whose volumes the budget is good for, by bisection."""
        most = self.planner.workload.most_tps(self.goal.headroom)

        def is_affordable(tps: float) -> bool:
            return quoted(rule, rule_context(self.planner, tps)).usd_month <= budget

        return highest(most * 2.0**-_BISECTIONS, most, _BISECTIONS, is_affordable)

    def missed(self, seen: Prediction) -> tuple[str, ...]:
        """The targets that a prediction does not meet."""
        goal, speed = self.goal, seen.performance
        targets = (
            ("TPS", -speed.tps, None if self.tps is None else -self.tps * TPS_TOLERANCE),
            ("commit p99", speed.commit_ms.p99, goal.commit_p99_ms),
            ("read p99", speed.read_ms.p99 if speed.read_ms else None, goal.read_p99_ms),
            ("budget", speed.usd_month, goal.budget_usd_month),
        )
        return tuple(
            name
            for name, value, limit in targets
            if value is not None and limit is not None and value > limit + CENT
        )
