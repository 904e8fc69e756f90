"""A run: the trials on each subject in the plan's order, cleaned up whatever happens."""

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pgstow.emulate import requirements, take_down
from pgstow.emulate.bench import (
    fio,
    measure,
    nbdkit,
    peer_volumes,
    qemu,
    replayed,
    report,
    rows,
    virtual,
)
from pgstow.emulate.bench.emulated import EMULATOR, Emulated
from pgstow.emulate.bench.measure import Sample
from pgstow.emulate.bench.nbdkit import Nbdkit
from pgstow.emulate.bench.peer_volumes import PeerVolumes
from pgstow.emulate.bench.plan import BenchPlan, Group, trial_seconds
from pgstow.emulate.bench.qemu import QemuStorageDaemon
from pgstow.emulate.bench.report import BenchReport
from pgstow.emulate.bench.subject import MountedVolumes, SystemUnderTest
from pgstow.emulate.bench.trials import Trial
from pgstow.emulate.bench.verdict import OURS
from pgstow.host import cpu, locks, programs
from pgstow.model import Warning
from pgstow.model.errors import HostError, UserError

DEFAULT_DIRECTORY = Path("/run/pgstow/bench")
_BUSY_S = 1.0
_BUSY_CORES = 0.2
_SETTLE_S = 0.1
_FAILURES_MAX = 3  # a peer that fails so often is left out
_PEER_PROGRAMS = {Nbdkit.name: nbdkit.PROGRAMS, QemuStorageDaemon.name: qemu.PROGRAMS}

Progress = Callable[[float, float], None]


def missing_of(peer: str) -> tuple[str, ...]:
    """The programs that a peer needs and that are not installed."""
    return tuple(name for name in _PEER_PROGRAMS[peer] if programs.find(name) is None)


def known_peers() -> tuple[str, ...]:
    """The peers that pgstow can be measured beside."""
    return tuple(_PEER_PROGRAMS)


def installed_peers() -> tuple[str, ...]:
    """Those that are here."""
    return tuple(peer for peer in _PEER_PROGRAMS if not missing_of(peer))


def run(
    plan: BenchPlan,
    *,
    directory: Path = DEFAULT_DIRECTORY,
    progress: Progress | None = None,
) -> BenchReport:
    """Measure, as root; nothing stays. ``directory`` holds volumes and mounts meanwhile.

    Raises HostError where volumes cannot be made, or where one of pgstow's jobs fails; a peer that
    fails is left out with a warning.
    """
    began_s = time.monotonic()
    if not plan.trials:
        return _Run(plan, directory, {}, None).report(report.machine({}, None), began_s)
    requirements.require(["xfs"])
    programs.require("fio")
    for peer in plan.peers:
        for name in missing_of(peer):
            raise UserError(f"{name} is not installed", programs.remedy(name))
    with locks.working_directory(directory, "bench"):
        _clear(directory)
        busy_cores = _busy_cores()
        volumes = PeerVolumes(directory / "peers", plan.volumes)
        subjects: dict[str, SystemUnderTest] = {OURS: Emulated(directory, plan.volumes)}
        if Nbdkit.name in plan.peers:
            subjects[Nbdkit.name] = Nbdkit(volumes)
        if QemuStorageDaemon.name in plan.peers:
            subjects[QemuStorageDaemon.name] = QemuStorageDaemon(volumes)
        work = _Run(plan, directory, subjects, progress)
        try:
            work.measure_all()
        finally:
            volumes.kill()
            _clear(directory)
    versions = {"fio": fio.version()} | {peer: subjects[peer].version for peer in plan.peers}
    return work.report(report.machine(versions, busy_cores), began_s)


def _clear(directory: Path) -> None:
    """Undo what is there, also of a run that was killed."""
    try:
        take_down.down(directory / EMULATOR, force=True)
    finally:
        peer_volumes.clear(directory / "peers")
    shutil.rmtree(directory / EMULATOR, ignore_errors=True)
    for name in ("trace.csv", "trace.csv.json"):
        (directory / name).unlink(missing_ok=True)


def _busy_cores() -> float:
    before, began_s = cpu.busy_core_seconds(), time.monotonic()
    time.sleep(_BUSY_S)
    return (cpu.busy_core_seconds() - before) / (time.monotonic() - began_s)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        plan: BenchPlan,
        directory: Path,
        subjects: dict[str, SystemUnderTest],
        progress: Progress | None,
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._subjects = subjects
        self._progress = progress or (lambda _done, _total: None)
        self._samples: dict[tuple[str, str], list[Sample]] = {}
        self._cannot: dict[tuple[str, str], tuple[str, ...]] = {}
        self._others: dict[str, list[float]] = {}  # by row: what is not fio's
        self._failed: dict[str, list[str]] = {}

    def measure_all(self) -> None:
        """Every group of every repeat."""
        groups = [group for repeat in self._plan.order() for group in repeat]
        total_s = sum(group.seconds for group in groups)
        done_s = 0.0
        for number, group in enumerate(groups):
            tell = partial(self._report, done_s, total_s)
            tell(0.0)
            try:
                if len(self._failed.get(group.subject, ())) < _FAILURES_MAX:
                    self._measure(group, self._plan.seed + number, tell)
            except HostError as error:
                if group.subject == OURS:
                    raise
                self._failed.setdefault(group.subject, []).append(error.message)
            done_s += group.seconds
        self._progress(total_s, total_s)

    def _report(self, done_s: float, total_s: float, spent_s: float) -> None:
        self._progress(min(done_s + spent_s, total_s), total_s)

    def _measure(self, group: Group, seed: int, tell: Callable[[float], None]) -> None:
        subject = self._subjects[group.subject]
        try:
            mounted = subject.bring_up(group.target)
            time.sleep(_SETTLE_S)
            spent_s = group.seconds - sum(trial_seconds(trial) for trial in group.trials)
            for trial in group.trials:
                tell(spent_s)
                self._cannot[trial.key, group.subject] = subject.cannot(group.target)
                once = partial(self._run_once, trial, group.subject, mounted, seed)
                if trial.is_recorded:
                    self._record(trial, once)
                else:
                    once()
                spent_s += trial_seconds(trial)
        finally:
            subject.take_down()

    def _run_once(self, trial: Trial, subject: str, mounted: MountedVolumes, seed: int) -> None:
        sample = measure.run(trial.job, mounted, seed=seed)
        self._samples.setdefault((trial.key, subject), []).append(sample)

    def _record(self, trial: Trial, work: Callable[[], None]) -> None:
        trace = self._directory / "trace.csv"
        differences = replayed.record(self._directory / EMULATOR, trace, work)
        for name, value in differences.items():
            self._others.setdefault(f"{trial.key}-{name}", []).append(value)

    def report(self, machine: report.Machine, began_s: float) -> BenchReport:
        """What came out."""
        others = self._others | _virtual_rows(self._plan)
        found = report.make_rows(self._plan, self._samples, others, self._cannot)
        shown = self._plan.trials[0].target if self._plan.trials else None
        commands = [
            (name, subject.commands(shown))
            for name, subject in self._subjects.items()
            if name != OURS and shown is not None
        ]
        return BenchReport(
            machine=machine,
            plan=self._plan,
            seconds=time.monotonic() - began_s,
            rows=found,
            compared=report.make_comparisons(found, self._samples),
            commands=tuple(commands),
            warnings=(*_busy(machine), *self._warnings()),
        )

    def _warnings(self) -> Iterator[Warning]:
        for name, reasons in self._failed.items():
            text = f"{name} failed {len(reasons)} times and lacks rows: {reasons[0]}"
            yield Warning("peer-failed", text, "run it by hand to see why")


def _busy(machine: report.Machine) -> tuple[Warning, ...]:
    busy = machine.busy_cores
    if busy is None or busy < _BUSY_CORES:
        return ()
    text = f"{busy:.1f} of {machine.cores} cores were at work for others before the run"
    return (Warning("busy-machine", text, "measure on an idle machine"),)


def _virtual_rows(plan: BenchPlan) -> dict[str, list[float]]:
    keys = {rows.GP2_BURST.key, rows.GP2_AFTER.key}
    if not any(row.key in keys for row in plan.rows):
        return {}
    burst_s, after_iops = virtual.gp2_burst()
    return {rows.GP2_BURST.key: [burst_s], rows.GP2_AFTER.key: [after_iops]}
