"""Run an experiment's whole matrix, block by block, and take it up again where it was left.

What is handed to an executor is one block: its treatments are compared in pairs, so they stay on
one machine. A block can be pickled, so any ``concurrent.futures`` executor does, of threads, of
processes or of a cluster.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, replace

from pgstow.experiment import design, steal_time
from pgstow.experiment.builds import Builds
from pgstow.experiment.run_context import RunContext, StoppedError
from pgstow.experiment.targets.target import Target
from pgstow.experiment.timetable import PlannedTrial, Progress, Timetable, scheduled_s
from pgstow.experiment.trial import Tools, TrialSlot, run_trial
from pgstow.model.errors import PgstowError
from pgstow.model.experiment import Experiment, Treatment, Trial

OnTrial = Callable[[Trial], None]
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class BlockJob:
    """What one machine needs to know to run a block."""

    experiment: Experiment
    block: int
    treatments: tuple[tuple[int, Treatment], ...]  # with the position of each
    target: Target
    tools: Tools
    builds: Builds
    repeats: int = 0

    def slot(self, position: int) -> TrialSlot:
        """Where a trial stands. All treatments of a block draw the same random numbers."""
        return TrialSlot(self.block, position, self.experiment.seed + self.block)


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The trials of a block that ended well, and what kept the others from it."""

    trials: tuple[Trial, ...]
    error: PgstowError | None = None


def plan(experiment: Experiment, done: Sequence[Trial] = ()) -> tuple[PlannedTrial, ...]:
    """The trials in the order in which they run, and which are there already.

    A block of treatments side by side counts as done only as a whole.
    """
    present = {(trial.block, trial.levels) for trial in done}
    planned = []
    for block, treatments in enumerate(design.order(experiment)):
        whole = all((block, treatment.levels) in present for treatment in treatments)
        for position, treatment in enumerate(treatments):
            is_done = (block, treatment.levels) in present
            if experiment.side_by_side:
                is_done = whole
            seconds = scheduled_s(treatment) + design.SET_UP_S
            planned.append(PlannedTrial(block, position, treatment, seconds, is_done))
    return tuple(planned)


def run(
    experiment: Experiment,
    target: Target,
    tools: Tools,
    *,
    on_trial: OnTrial,
    done: Sequence[Trial] = (),
    executor: Executor | None = None,
    progress: Progress | None = None,
    repeats: int = 0,
) -> None:
    """Run every trial that is not ``done`` (trials of the same run, whose builds hold for all).

    Without an executor the blocks run here, one after the other, and ``on_trial`` has each trial
    as it ends; with one, when its block has come back. Ctrl-C drops the trial under way.

    A trial from which a hypervisor took processors is measured again, up to ``repeats`` times, and
    the one stands from which it took least; not so treatments side by side, nor on servers that
    were there before, on which every trial leaves its writes.
    """
    tools.check(experiment)
    target.check(experiment)
    planned = plan(experiment, done)
    builds = Builds(experiment, done)
    timetable = Timetable(planned, progress, side_by_side=experiment.side_by_side)
    if experiment.target == "server":
        repeats = 0
    jobs = _jobs(experiment, planned, target, tools, builds, repeats=repeats)
    if executor is None:
        _run_here(jobs, timetable, on_trial)
    else:
        _run_there(jobs, executor, builds, timetable, on_trial)


def _jobs(
    experiment: Experiment,
    planned: Sequence[PlannedTrial],
    target: Target,
    tools: Tools,
    builds: Builds,
    *,
    repeats: int,
) -> tuple[BlockJob, ...]:
    blocks: dict[int, list[tuple[int, Treatment]]] = {}
    for trial in planned:
        if not trial.is_done:
            blocks.setdefault(trial.block, []).append((trial.position, trial.treatment))
    return tuple(
        BlockJob(experiment, block, tuple(treatments), target, tools, builds, repeats)
        for block, treatments in blocks.items()
    )


def _run_here(jobs: Sequence[BlockJob], timetable: Timetable, on_trial: OnTrial) -> None:
    run_context = RunContext(timetable.report)
    treatments = [treatment for job in jobs for _, treatment in job.treatments]
    if jobs:
        jobs[0].target.prepare(treatments, jobs[0].tools.generator, run_context)
    for job in jobs:
        run_trials(job, run_context, timetable, on_trial)


def run_block(job: BlockJob) -> BlockResult:
    """Run a block on this machine: what an executor is given."""
    trials: list[Trial] = []
    run_context = RunContext()
    treatments = [treatment for _, treatment in job.treatments]
    try:
        job.target.prepare(treatments, job.tools.generator, run_context)
        run_trials(job, run_context, None, trials.append)
    except PgstowError as error:
        return BlockResult(tuple(trials), error)
    return BlockResult(tuple(trials))


def run_trials(
    job: BlockJob, run_context: RunContext, timetable: Timetable | None, on_trial: OnTrial
) -> None:
    """Run a block's trials, one after the other or side by side."""
    if job.experiment.side_by_side:
        for trial in _side_by_side(job, run_context, timetable):
            if timetable is not None:
                timetable.end(trial.block, trial.levels)
            on_trial(trial)
        return
    for position, treatment in job.treatments:
        _run_undisturbed(job, position, treatment, run_context, timetable, on_trial=on_trial)


def _run_one(
    job: BlockJob,
    position: int,
    treatment: Treatment,
    run_context: RunContext,
    timetable: Timetable | None,
    *,
    together: threading.Barrier | None = None,
) -> Trial:
    if timetable is not None:
        timetable.begin(job.block, treatment.levels)
    return run_trial(
        treatment,
        job.slot(position),
        target=job.target,
        tools=job.tools,
        builds=job.builds,
        run_context=run_context.named(f"block {job.block + 1}, {treatment.name}"),
        together=together,
    )


def _run_undisturbed(
    job: BlockJob,
    position: int,
    treatment: Treatment,
    run_context: RunContext,
    timetable: Timetable | None,
    *,
    on_trial: OnTrial,
) -> None:
    """The attempt from which least was stolen; what ends a repeat costs none that ended well."""
    found: list[Trial] = []
    try:
        while len(found) <= job.repeats and all(steal_time.warnings(one) for one in found):
            found.append(_run_one(job, position, treatment, run_context, timetable))
    except PgstowError as error:
        if not found or isinstance(error, StoppedError):
            raise
    finally:
        if found:
            if timetable is not None:
                timetable.end(job.block, treatment.levels)
            on_trial(replace(min(found, key=steal_time.share), attempts=len(found)))


def _side_by_side(
    job: BlockJob, run_context: RunContext, timetable: Timetable | None
) -> tuple[Trial, ...]:
    """Run all of a block's trials at once; where one fails, all end."""
    together = threading.Barrier(len(job.treatments))
    with ThreadPoolExecutor(len(job.treatments), thread_name_prefix="trial") as pool:
        futures = [
            pool.submit(
                _run_one, job, position, treatment, run_context, timetable, together=together
            )
            for position, treatment in job.treatments
        ]
        try:
            while not all(future.done() for future in futures):
                # Short waits: Ctrl-C is heard between them.
                ended, _ = wait(futures, _POLL_S, FIRST_EXCEPTION)
                if any(future.exception() is not None for future in ended):
                    break
        finally:
            if not all(future.done() and future.exception() is None for future in futures):
                run_context.stop()
                together.abort()
    _raise_cause(futures)
    return tuple(future.result() for future in futures)


def _raise_cause(futures: Sequence[Future[Trial]]) -> None:
    """Raise what one failed of, rather than that the others were stopped for it."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    causes = [
        error
        for error in errors
        if not isinstance(error, StoppedError | threading.BrokenBarrierError)
    ]
    for error in causes or errors:
        raise error


def _run_there(
    jobs: Sequence[BlockJob],
    executor: Executor,
    builds: Builds,
    timetable: Timetable,
    on_trial: OnTrial,
) -> None:
    """Have the executor run the blocks; nothing of a block is kept that was built differently."""
    treatments = {treatment.levels: treatment for job in jobs for _, treatment in job.treatments}
    pending = {executor.submit(run_block, job) for job in jobs}
    try:
        while pending:
            ended, pending = wait(pending, _POLL_S, FIRST_COMPLETED)
            timetable.report(f"{len(pending)} blocks to go")
            for future in ended:
                result = future.result()
                for trial in result.trials:
                    builds.hold(treatments[trial.levels], trial.build)
                    timetable.end(trial.block, trial.levels)
                    on_trial(trial)
                if result.error is not None:
                    raise result.error
    finally:
        for future in pending:
            future.cancel()
