"""What a campaign found, as values, and its verdict: pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgstow.emulate.control import Lost
from pgstow.emulate.crash_test.plan import CampaignPlan, Combination

Moment = Literal["any", "checkpoint", "busy"]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong after a recovery; all empty: nothing."""

    transfers_checked: int = 0  # acknowledged ones, all of which must be there
    lost: int = 0
    lost_ids: tuple[int, ...] = ()  # the first of them
    landed: int = 0  # in doubt, and there, whole
    vanished: int = 0  # in doubt, and not there
    zeroed_maps: int = 0  # torn pages of free space maps, which PostgreSQL means to start afresh
    amcheck: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.amcheck or self.other)


@dataclass(frozen=True, slots=True)
class Cut:
    """One power cut and its outcome."""

    number: int
    combination: Combination
    moment: Moment
    is_control: bool  # with fsync off, to see a loss
    acknowledged: int  # transfers since the cut before
    doubtful: int
    volumes: tuple[Lost, ...]
    findings: Findings
    mount_s: float
    recovery_s: float | None
    seconds: float

    @property
    def unflushed_writes(self) -> int:
        """Writes at risk, over all volumes."""
        return sum(volume.unflushed_writes for volume in self.volumes)

    @property
    def lost_writes(self) -> int:
        """Writes lost or torn, over all volumes."""
        return sum(volume.lost_writes for volume in self.volumes)

    @property
    def counts(self) -> bool:
        """Whether the cut counts: there was something to lose."""
        return self.unflushed_writes > 0 and not self.is_control


@dataclass(frozen=True, slots=True)
class CombinationResult:
    """The cuts of one combination in figures."""

    combination: Combination
    cuts: int
    counted: int
    unflushed_writes_median: float
    unflushed_writes_max: int
    lost_writes: int
    transfers: int  # acknowledged before these cuts; each looked for after every later cut too
    transfers_lost: int
    amcheck_problems: int
    other_problems: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was wrong after any of them."""
        return not (self.transfers_lost or self.amcheck_problems or self.other_problems)


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The whole campaign. ``failures`` says why it failed; without any it passed."""

    plan: CampaignPlan
    postgres: str
    kernel: str
    seconds: float
    combinations: tuple[CombinationResult, ...]
    cuts: tuple[Cut, ...]
    failures: tuple[str, ...]

    @property
    def counted(self) -> int:
        """Cuts with something to lose."""
        return sum(1 for cut in self.cuts if cut.counts)

    @property
    def passed(self) -> bool:
        """The verdict."""
        return not self.failures

    def as_json(self) -> dict[str, object]:
        """For ``--json``: the fields, and what is derived from them."""
        return {
            "passed": self.passed,
            "failures": self.failures,
            "counted": self.counted,
            "wanted": self.plan.cuts,
            "controls": sum(1 for cut in self.cuts if cut.is_control),
            "controls_that_lost": sum(
                1 for cut in self.cuts if cut.is_control and not cut.findings.is_clean
            ),
            "seconds": self.seconds,
            "postgres": self.postgres,
            "kernel": self.kernel,
            "plan": self.plan,
            "combinations": self.combinations,
            "cuts": self.cuts,
        }


def summarise(cuts: Sequence[Cut]) -> tuple[CombinationResult, ...]:
    """A row for each combination, in the order they were begun."""
    by_combination: dict[Combination, list[Cut]] = {}
    for cut in cuts:
        if not cut.is_control:
            by_combination.setdefault(cut.combination, []).append(cut)
    return tuple(_row(key, found) for key, found in by_combination.items())


def _row(combination: Combination, cuts: Sequence[Cut]) -> CombinationResult:
    counted = [cut for cut in cuts if cut.counts]
    unflushed = [cut.unflushed_writes for cut in counted]
    return CombinationResult(
        combination=combination,
        cuts=len(cuts),
        counted=len(counted),
        unflushed_writes_median=statistics.median(unflushed) if unflushed else 0.0,
        unflushed_writes_max=max(unflushed, default=0),
        lost_writes=sum(cut.lost_writes for cut in counted),
        transfers=sum(cut.acknowledged for cut in cuts),
        transfers_lost=sum(cut.findings.lost for cut in cuts),
        amcheck_problems=sum(len(cut.findings.amcheck) for cut in cuts),
        other_problems=sum(len(cut.findings.other) for cut in cuts),
    )


def judge(plan: CampaignPlan, cuts: Sequence[Cut]) -> tuple[str, ...]:
    """Why the campaign failed; nothing where it passed.

    It fails too where it proves nothing: too few cuts that count, or a control that loses nothing.
    """
    failures = []
    for row in summarise(cuts):
        name = row.combination.text
        if row.transfers_lost:
            failures.append(f"{name}: {row.transfers_lost} acknowledged transfers were lost")
        if row.amcheck_problems:
            failures.append(f"{name}: pg_amcheck has {row.amcheck_problems} complaints")
        if row.other_problems:
            failures.append(f"{name}: {_first_other(cuts, row.combination)}")
    rows = {row.combination: row for row in summarise(cuts)}
    for combination in plan.combinations:
        counted = rows[combination].counted if combination in rows else 0
        if counted < plan.cuts_each:
            needed = plan.cuts_each
            failures.append(f"{combination.text}: only {counted} of {needed} cuts count")
    for group in plan.groups:
        controls = [cut for cut in cuts if cut.is_control and _same_group(cut, group[0])]
        if all(cut.findings.is_clean for cut in controls):
            failures.append(
                f"{group[0].filesystem}, WAL {group[0].wal}: the control with fsync off lost"
                " nothing, so nothing is proved"
            )
    return tuple(failures)


def _first_other(cuts: Sequence[Cut], combination: Combination) -> str:
    mine = (cut for cut in cuts if cut.combination == combination and not cut.is_control)
    return next(problem for cut in mine for problem in cut.findings.other)


def _same_group(cut: Cut, combination: Combination) -> bool:
    mine = (cut.combination.filesystem, cut.combination.wal)
    return mine == (combination.filesystem, combination.wal)
