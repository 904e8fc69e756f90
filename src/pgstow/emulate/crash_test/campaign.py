"""The campaign: load, power cut, recovery, check; again and again; and a control for each group."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from pgstow.emulate import requirements
from pgstow.emulate.crash_test.amcheck import Checker, find_checker
from pgstow.emulate.crash_test.check import check
from pgstow.emulate.crash_test.cluster import TestCluster, seeded
from pgstow.emulate.crash_test.ledger import Ledger
from pgstow.emulate.crash_test.load import Load
from pgstow.emulate.crash_test.plan import CampaignPlan, Combination
from pgstow.emulate.crash_test.result import (
    CampaignResult,
    Cut,
    Findings,
    Moment,
    judge,
    summarise,
)
from pgstow.host import locks, processes
from pgstow.model.errors import PgstowError, UserError
from pgstow.postgres import connect
from pgstow.postgres.connect import server_errors

DEFAULT_DIRECTORY = Path("/run/pgstow/crash-test")
_MOMENTS: tuple[Moment, ...] = ("any", "checkpoint", "busy")
_MOMENT_WEIGHTS = (2, 4, 4)
_CHECKPOINT_S = 0.3  # about as long as one takes here
_BUSY_WRITES = (4, 16, 64)  # at risk, of which one is waited for
_TIMEOUT_S = 1.0
_POLL_S = 0.0005
_CONTROL_LOAD_S = 1.5
_CONTROL_ATTEMPTS = 3

Progress = Callable[[float, float], None]
_CUT = TypeAdapter(Cut)


def run(
    plan: CampaignPlan,
    *,
    output: Path,
    directory: Path = DEFAULT_DIRECTORY,
    bindir: Path | None = None,
    progress: Progress | None = None,
) -> CampaignResult:
    """Run a campaign as root; it leaves only what is written to ``output``.

    ``directory`` holds the emulator's state and the mounts while it runs, one campaign at a time.
    ``output`` is given a line for each cut (cuts.jsonl) and, for each that found damage, the
    server's log.
    """
    requirements.require(combination.filesystem for combination in plan.combinations)
    checker = find_checker(bindir)
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "cuts.jsonl").write_text("")
    except OSError as error:
        message = f"{output} cannot be used: {error.strerror}"
        raise UserError(message, "name another directory with --out") from error
    began = time.monotonic()
    with (
        locks.working_directory(directory, "crash test"),
        processes.adopting_orphans(),
        TestCluster(directory, checker, dict(plan.settings)) as cluster,
    ):
        campaign = _Campaign(
            plan, cluster, checker, output, progress or (lambda _done, _total: None)
        )
        for group in plan.groups:
            campaign.run_group(group)
    return CampaignResult(
        plan=plan,
        postgres=checker.version,
        kernel=os.uname().release,
        seconds=time.monotonic() - began,
        combinations=summarise(campaign.cuts),
        cuts=tuple(campaign.cuts),
        failures=judge(plan, campaign.cuts),
    )


class _Campaign:
    """The state of one run."""

    def __init__(
        self,
        plan: CampaignPlan,
        cluster: TestCluster,
        checker: Checker,
        output: Path,
        progress: Progress,
    ) -> None:
        self.plan = plan
        self.cluster = cluster
        self.checker = checker
        self.output = output
        self.cuts: list[Cut] = []
        self._ledger = Ledger.of(plan.seed, plan.clients)
        self._progress = progress

    def run_group(self, group: tuple[Combination, ...]) -> None:
        """The cuts of combinations that share a cluster, then the control, which destroys it."""
        self._new_cluster(group[0])
        for combination in group:
            counted = 0
            for _ in range(self.plan.cuts_max):
                if counted == self.plan.cuts_each:
                    break
                cut = self._cut(combination)
                counted += cut.counts
                if not cut.findings.is_clean:
                    self._new_cluster(combination)
        for _ in range(_CONTROL_ATTEMPTS):
            if not self._control(replace(group[0], loss="all", sector_bytes=None)):
                self._new_cluster(group[0])
                continue
            break

    def _new_cluster(self, group: Combination) -> None:
        self.cluster.make(group)
        self._ledger = Ledger.of(self.plan.seed + len(self.cuts), self.plan.clients)

    def _control(self, combination: Combination) -> bool:
        """Cut with fsync off; whether something was lost, as it must be."""
        self.cluster.server.stop("fast")
        self.cluster.sync()
        self.cluster.start(fsync="off")
        return not self._cut(combination, is_control=True).findings.is_clean

    def _cut(self, combination: Combination, *, is_control: bool = False) -> Cut:
        cluster, ledger = self.cluster, self._ledger
        number = len(self.cuts) + 1
        chooser = seeded(self.plan.seed, number)
        moment = chooser.choices(_MOMENTS, _MOMENT_WEIGHTS)[0]
        began, before = time.monotonic(), ledger.acknowledged
        cluster.control.set_limits(True)
        load = Load(cluster.server.dsn, ledger, chooser)
        load.start()
        least_s, most_s = self.plan.load_seconds
        time.sleep(_CONTROL_LOAD_S if is_control else chooser.uniform(least_s, most_s))
        self._wait_for(moment, chooser.choice(_BUSY_WRITES), chooser.random())
        lost_at, volumes = cluster.cut_power(combination, chooser.getrandbits(32))
        load.stop(lost_at)
        acknowledged, in_doubt = ledger.acknowledged - before, ledger.in_doubt
        restored = cluster.restore()
        if restored.failure is None:
            findings = check(cluster.server, self.checker, ledger)
        else:
            findings = Findings(other=(restored.failure,))
        cut = Cut(
            number=number,
            combination=combination,
            moment=moment,
            is_control=is_control,
            acknowledged=acknowledged,
            doubtful=in_doubt,
            volumes=volumes,
            findings=findings,
            mount_s=restored.mount_s,
            recovery_s=restored.recovery_s,
            seconds=time.monotonic() - began,
        )
        self._note(cut)
        return cut

    def _wait_for(self, moment: Moment, writes: int, part: float) -> None:
        """Wait for a moment of that kind, and then until something is at risk: others don't count.

        Of a busy moment ``writes`` are to be at risk, and fewer the longer that takes.
        """
        if moment == "checkpoint":
            threading.Thread(target=self._checkpoint, daemon=True).start()
            time.sleep(part * _CHECKPOINT_S)
        began = time.monotonic()
        while (waited_s := time.monotonic() - began) < _TIMEOUT_S:
            left = 1 - waited_s / _TIMEOUT_S
            needed = writes * left if moment == "busy" else 1
            if self.cluster.unflushed_writes() >= max(1, needed):
                return
            time.sleep(_POLL_S)

    def _checkpoint(self) -> None:
        with (
            suppress(PgstowError),  # the power is cut in its middle
            connect(self.cluster.server.dsn, purpose="act") as connection,
            server_errors("a checkpoint"),
        ):
            connection.execute("CHECKPOINT")

    def _note(self, cut: Cut) -> None:
        self.cuts.append(cut)
        with (self.output / "cuts.jsonl").open("ab") as file:
            file.write(_CUT.dump_json(cut) + b"\n")
        if not cut.findings.is_clean and not cut.is_control:
            log = "\n".join(self.cluster.log_tail())
            (self.output / f"cut-{cut.number:03}.log").write_text(f"{log}\n")
        done = sum(1 for other in self.cuts if other.counts or other.is_control)
        self._progress(done, self.plan.cuts + len(self.plan.groups))
