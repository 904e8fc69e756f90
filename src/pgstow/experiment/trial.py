"""One trial: a server in a known state, a load on it, and measurements beside the load.

The order of things is the same for every treatment: data copied, server started, checkpoint, limits
in force, settled, warmed up, measured.
"""

import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, Self

from pgstow.experiment.builds import Builds, build
from pgstow.experiment.generator import Generator, Running
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets.target import Ready, Target
from pgstow.host import installations
from pgstow.model.errors import ServerError, UserError
from pgstow.model.experiment import (
    DataChoice,
    Experiment,
    Instruments,
    Outcome,
    Treatment,
    Trial,
    WorkloadChoice,
)
from pgstow.model.provenance import Warning

_SLACK_S = 30.0  # the load is asked for longer than is measured, and stopped
_END_TIMEOUT_S = 300.0  # for the last transactions of a load that ends by itself
_TOLERANCE_S = 1.0


class Recording(Protocol):
    """What reads the instruments from the beginning to the end of the measured time."""

    @property
    def instruments(self) -> Instruments:
        """The measurements, after the end."""
        ...

    @property
    def settings(self) -> tuple[tuple[str, str], ...] | None:
        """The server's settings that are not the default, or that matter to storage."""
        ...

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """What could not be read, after the end."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class MakeRecording(Protocol):
    """Makes the reader of the instruments of one trial."""

    def __call__(
        self,
        dsn: str,
        *,
        volumes: Mapping[str, str],
        client_pids: Callable[[], Sequence[int]],
        is_local: bool,
        commit_probe_per_s: float,
    ) -> Recording: ...


class GeneratorFactory(Protocol):
    """Makes a load generator for a workload on its data."""

    def __call__(
        self,
        choice: WorkloadChoice,
        data: DataChoice,
        *,
        bindir: Path | None,
        scripts_directory: Path | None,
    ) -> Generator: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What trials are made with: functions or classes of modules, so that it can be pickled."""

    make_generator: GeneratorFactory
    make_recording: MakeRecording
    scripts_directory: Path | None = None  # of scripts that an experiment file names

    def generator(self, choice: WorkloadChoice, data: DataChoice) -> Generator:
        """The load generator. Programs of one version, the newest, load servers of all."""
        bindir = installations.newest_bindir()
        return self.make_generator(
            choice, data, bindir=bindir, scripts_directory=self.scripts_directory
        )

    def check(self, experiment: Experiment) -> None:
        """Raise UserError for a workload that is not known or does not fit its data."""
        for treatment in experiment.treatments:
            try:
                self.make_generator(
                    treatment.workload,
                    treatment.data,
                    bindir=None,
                    scripts_directory=self.scripts_directory,
                )
            except UserError as error:
                what = f"treatment {treatment.name}: {error.message}"
                raise UserError(what, error.remedy) from None


@dataclass(frozen=True, slots=True)
class TrialSlot:
    """Where a trial stands in the design."""

    block: int
    position: int
    seed: int


def run_trial(
    treatment: Treatment,
    slot: TrialSlot,
    *,
    target: Target,
    tools: Tools,
    builds: Builds,
    run_context: RunContext,
    together: threading.Barrier | None = None,
) -> Trial:
    """Run one trial. It gives a whole result or none, and leaves nothing behind.

    ``together`` is of treatments side by side: all are measured from the same moment on.
    """
    generator = tools.generator(treatment.workload, treatment.data)
    generator.check()
    with target.ready(treatment, tools.generator, run_context) as ready:
        measured_with = build(ready.server_version, generator.version())
        builds.hold(treatment, measured_with)
        ready.begin()
        run_context.sleep(treatment.schedule.settle_s, "settling")
        if together is not None:
            together.wait()
        measured = _measure(
            generator, ready, treatment, seed=slot.seed, tools=tools, run_context=run_context
        )
        return Trial(
            block=slot.block,
            position=slot.position,
            levels=treatment.levels,
            began_at=measured.began_at.isoformat(timespec="milliseconds"),
            outcome=measured.outcome,
            instruments=measured.recording.instruments,
            build=measured_with,
            usd_month=ready.usd_month,
            host=platform.node(),
            warnings=(*ready.warnings, *measured.recording.warnings, *measured.warnings),
            settings=measured.recording.settings,
        )


@dataclass(frozen=True, slots=True)
class _Measured:
    began_at: datetime
    outcome: Outcome
    recording: Recording
    warnings: tuple[Warning, ...]  # of the volumes


def _measure(
    generator: Generator,
    ready: Ready,
    treatment: Treatment,
    *,
    seed: int,
    tools: Tools,
    run_context: RunContext,
) -> _Measured:
    """Load and record. After a warm-up, the time measured is a part of a longer load; without one
    it is all of the load, from its first transaction on."""
    schedule = treatment.schedule
    is_warmed = schedule.warm_up_s > 0
    slack_s = _SLACK_S if is_warmed else 0.0
    with generator.start(
        ready.dsn,
        duration_s=schedule.warm_up_s + schedule.duration_s + slack_s,
        log_directory=ready.log_directory,
        seed=seed,
    ) as running:
        ready.note_clients(running.pids())
        if is_warmed:
            _watch(running, schedule.warm_up_s, run_context, "warming up")
        with tools.make_recording(
            ready.dsn,
            volumes=ready.volumes,
            client_pids=running.pids,
            is_local=ready.is_local,
            commit_probe_per_s=schedule.commit_probe_per_s,
        ) as recording:
            began_s = time.time()
            end_watch = ready.watch()
            if treatment.workload.transactions is not None:
                _await_end(running, run_context, schedule.duration_s)
            else:
                _watch(running, schedule.duration_s, run_context, "measuring")
                if not is_warmed:
                    _await_end(running, run_context, _END_TIMEOUT_S)
            warnings = end_watch()
            ended_s = time.time()
        began_at = datetime.fromtimestamp(began_s, UTC)
        if not is_warmed:
            return _Measured(began_at, running.outcome(), recording, warnings)
        running.stop()
        return _Measured(began_at, running.outcome(began_s, ended_s), recording, warnings)


def _watch(running: Running, seconds: float, run_context: RunContext, what: str) -> None:
    """Let the load run for so long; what ends it before is an error."""
    began_s = time.monotonic()
    while (left_s := began_s + seconds - time.monotonic()) > 0:
        run_context.report(what)
        if running.wait(min(0.2, left_s)):
            if left_s <= _TOLERANCE_S:
                return
            running.outcome()  # says why, where it knows
            raise ServerError(
                f"the load ended by itself after {time.monotonic() - began_s:.0f} s of "
                f"{seconds:g} s {what}",
                "see whether the server still runs, and its log",
            )


def _await_end(running: Running, run_context: RunContext, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not running.wait(0.2):
        run_context.report("measuring")
        if time.monotonic() > deadline:
            raise ServerError(
                f"the load has not ended after {timeout_s:g} s",
                "see whether the server answers, and what it waits for; a fixed number of "
                "transactions needs a longer schedule.duration",
            )
