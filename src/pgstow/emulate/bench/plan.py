"""What a run will do: rows, their trials, the subjects, repeats and how long it will take."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgstow.emulate.bench import rows as all_rows
from pgstow.emulate.bench import trials as all_trials
from pgstow.emulate.bench.rows import Row
from pgstow.emulate.bench.trials import Target, Trial
from pgstow.emulate.bench.verdict import OURS
from pgstow.model import UserError

BUDGET_S = 290.0
QUICK_BUDGET_S = 55.0
REPEATS_MAX = 5
# What starting takes, as measured on two cores: the run, each of its volumes, fio; pgstow's
# change of targets, a peer's start and each of its volumes.
_RUN_S = 3.0
_VOLUME_S = 0.35
_FIO_S = 0.85
_CHANGE_S = 0.3
_PEER_S = 0.8
_PEER_VOLUME_S = 0.5


def trial_seconds(trial: Trial) -> float:
    """How long one trial takes, about, on volumes that are up."""
    return trial.job.seconds + _FIO_S


@dataclass(frozen=True, slots=True)
class Group:
    """Trials with one target on one subject, in their order: the volumes are made ready once."""

    subject: str
    target: Target
    trials: tuple[Trial, ...]

    @property
    def seconds(self) -> float:
        """How long it takes, about."""
        own = _CHANGE_S
        if self.subject != OURS:
            own = _PEER_S + _PEER_VOLUME_S * self.target.volumes
        return own + sum(trial_seconds(trial) for trial in self.trials)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """A whole run; ``peers`` by name."""

    rows: tuple[Row, ...]
    peers: tuple[str, ...]
    repeats: int
    seed: int

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What is to be run with fio, once each."""
        found = {row.trial.key: row.trial for row in self.rows if row.trial is not None}
        return tuple(found.values())

    @property
    def volumes(self) -> int:
        """The most volumes at a time."""
        return max((trial.target.volumes for trial in self.trials), default=0)

    @property
    def seconds(self) -> float:
        """How long it will take, about."""
        return _fixed_s(self) + self.repeats * _repeat_s(self)

    def order(self) -> list[list[Group]]:
        """For each repeat its groups and the trials in each group, both in random order."""
        chooser = random.Random(self.seed)  # noqa: S311  (an order, no secret)
        return [_shuffled(_groups(self), chooser) for _ in range(self.repeats)]


def make_plan(
    *,
    peers: Sequence[str],
    rows: str | None = None,
    quick: bool = False,
    repeats: int | None = None,
    seed: int = 1,
) -> BenchPlan:
    """A run of the chosen rows; by default with as many repeats as there is time for."""
    if repeats is not None and repeats < 1:
        raise UserError(f"--repeats {repeats} measures nothing", "use at least 1")
    chosen = all_rows.select(rows, quick=quick)
    if quick:
        chosen = tuple(
            row if row.trial is None else replace(row, trial=all_trials.quick(row.trial))
            for row in chosen
        )
    plan = BenchPlan(chosen, tuple(peers), repeats or 1, seed)
    if repeats is None and plan.trials:
        budget_s = QUICK_BUDGET_S if quick else BUDGET_S
        fit = int((budget_s - _fixed_s(plan)) / _repeat_s(plan))
        plan = replace(plan, repeats=max(1, min(REPEATS_MAX, fit)))
    return plan


def _fixed_s(plan: BenchPlan) -> float:
    if not plan.trials:
        return 0.0
    return _RUN_S + _VOLUME_S * plan.volumes * (2 if plan.peers else 1)


def _repeat_s(plan: BenchPlan) -> float:
    return sum(group.seconds for group in _groups(plan))


def _groups(plan: BenchPlan) -> list[Group]:
    by_target: dict[Target, list[Trial]] = {}
    for trial in plan.trials:
        by_target.setdefault(trial.target, []).append(trial)
    groups = []
    for target, found in by_target.items():
        groups.append(Group(OURS, target, tuple(found)))
        shared = tuple(trial for trial in found if trial.has_peers)
        if shared:
            groups += [Group(peer, target, shared) for peer in plan.peers]
    return groups


def _shuffled(groups: list[Group], chooser: random.Random) -> list[Group]:
    mixed = [
        replace(group, trials=tuple(chooser.sample(group.trials, len(group.trials))))
        for group in groups
    ]
    chooser.shuffle(mixed)
    return mixed
