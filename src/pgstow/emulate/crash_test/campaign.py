"""The campaign: load, power cut, recovery, check; again and again; and a control for each group."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from pgstow.host import processes
from pgstow.model.errors import HostError, PgstowError, UserError
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
    """Run a campaign as root; nothing of it stays but what is written to ``output``.

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
        _exclusive_lock(directory),
        processes.adopting_orphans(),
        TestCluster(directory, checker, dict(plan.settings)) as site,
    ):
        campaign = _Campaign(plan, site, checker, output, progress or (lambda _done, _total: None))
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


@contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    """Keep other campaigns out of the directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("a")
    except OSError as error:
        message = f"{directory} cannot be used: {error.strerror}"
        raise HostError(message, "run it as root") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another crash test is at work in {directory}"
            raise HostError(
                message, "wait until it has ended, or name another --state-dir"
            ) from None
        yield


class _Campaign:
    """The state of one run."""

    def __init__(
        self,
        plan: CampaignPlan,
        site: TestCluster,
        checker: Checker,
        output: Path,
        progress: Progress,
    ) -> None:
        self.plan = plan
        self.site = site
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
        self.site.make(group)
        self._ledger = Ledger.of(self.plan.seed + len(self.cuts), self.plan.clients)

    def _control(self, combination: Combination) -> bool:
        """Cut with fsync off; whether something was lost, as it must be."""
        self.site.server.stop("fast")
        self.site.sync()
        self.site.start(fsync="off")
        return not self._cut(combination, is_control=True).findings.is_clean

    def _cut(self, combination: Combination, *, is_control: bool = False) -> Cut:
        site, book = self.site, self._ledger
        number = len(self.cuts) + 1
        chooser = seeded(self.plan.seed, number)
        moment = chooser.choices(_MOMENTS, _MOMENT_WEIGHTS)[0]
        began, before = time.monotonic(), book.acknowledged
        site.control.set_limits(True)
        load = Load(site.server.dsn, book, chooser)
        load.start()
        least_s, most_s = self.plan.load_seconds
        time.sleep(_CONTROL_LOAD_S if is_control else chooser.uniform(least_s, most_s))
        self._wait_for(moment, chooser.choice(_BUSY_WRITES), chooser.random())
        lost_at, volumes = site.cut_power(combination, chooser.getrandbits(32))
        load.stop(lost_at)
        acknowledged, doubtful = book.acknowledged - before, book.doubtful
        restored = site.restore()
        if restored.failure is None:
            findings = check(site.server, self.checker, book)
        else:
            findings = Findings(other=(restored.failure,))
        cut = Cut(
            number=number,
            combination=combination,
            moment=moment,
            is_control=is_control,
            acknowledged=acknowledged,
            doubtful=doubtful,
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
            wanted = writes * left if moment == "busy" else 1
            if self.site.unflushed_writes() >= max(1, wanted):
                return
            time.sleep(_POLL_S)

    def _checkpoint(self) -> None:
        with (
            suppress(PgstowError),  # the power is cut in its middle
            connect(self.site.server.dsn, purpose="act") as connection,
            server_errors("a checkpoint"),
        ):
            connection.execute("CHECKPOINT")

    def _note(self, cut: Cut) -> None:
        self.cuts.append(cut)
        with (self.output / "cuts.jsonl").open("ab") as file:
            file.write(_CUT.dump_json(cut) + b"\n")
        if not cut.findings.is_clean and not cut.is_control:
            log = "\n".join(self.site.log_tail())
            (self.output / f"cut-{cut.number:03}.log").write_text(f"{log}\n")
        done = sum(1 for other in self.cuts if other.counts or other.is_control)
        self._progress(done, self.plan.cuts + len(self.plan.groups))
