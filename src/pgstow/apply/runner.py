"""Take steps one after the other, each written down before and after; or take them back."""

import time
from collections.abc import Callable, Sequence

from pgstow.apply import actions, moves, prechecks
from pgstow.apply.context import Context
from pgstow.apply.sessions import Sessions
from pgstow.apply.values import Observer, Options, Outcome, Result
from pgstow.apply.wal import UnfinishedError
from pgstow.model import PgstowError, ServerState, Step
from pgstow.postgres import facts
from pgstow.postgres.changes import LockTimeoutError
from pgstow.workspace.journal import Journal, StepRecord, StepStatus


def run(
    steps: Sequence[Step],
    *,
    state: ServerState,
    layout: str,
    dsn: str,
    journal: Journal,
    options: Options | None = None,
    observer: Observer | None = None,
) -> Result:
    """Take the steps of a migration to ``layout`` (its digest: what a later run may take up).

    What has no lock in time fails by itself and the rest goes on; anything else ends the run.
    Ctrl-C cancels the statement in progress and raises KeyboardInterrupt; running again resumes.
    """
    with Sessions(dsn, state) as sessions:
        context = Context(state, sessions, journal, options or Options(), observer or Observer())
        sessions.lock()
        last = journal.last_run(state.system_identifier)
        if last is not None:
            _settle(context, journal.steps(last.id))
        warnings = prechecks.check(context, steps)
        run_id = journal.begin(state.system_identifier, layout)
        step_ids = journal.plan(run_id, steps)
        outcomes: list[Outcome] = []
        try:
            for position, (step_id, step) in enumerate(zip(step_ids, steps, strict=True), 1):
                context.observer.step_started(position, len(steps), step)
                outcome = _take(context, step_id, step)
                outcomes.append(outcome)
                context.observer.step_finished(outcome)
        except BaseException:
            journal.finish(run_id, "failed")
            raise
        failed = any(outcome.status == "failed" for outcome in outcomes)
        journal.finish(run_id, "failed" if failed else "done")
        return Result(run_id, tuple(outcomes), warnings)


def undo(
    backward: Sequence[tuple[StepRecord, Step]],
    *,
    run_id: int,
    state: ServerState,
    dsn: str,
    journal: Journal,
    options: Options | None = None,
    observer: Observer | None = None,
) -> Result:
    """Take a run's steps back: each record with its inverse, the last one taken first."""
    with Sessions(dsn, state) as sessions:
        context = Context(state, sessions, journal, options or Options(), observer or Observer())
        sessions.lock()
        backward = [pair for pair in backward if _is_to_be_taken_back(context, pair[0])]
        outcomes: list[Outcome] = []
        for position, (record, step) in enumerate(backward, 1):
            context.observer.step_started(position, len(backward), step)
            outcome = _take_back(context, record, step)
            outcomes.append(outcome)
            context.observer.step_finished(outcome)
        if not any(outcome.status in ("failed", "skipped") for outcome in outcomes):
            journal.finish(run_id, "undone")
        return Result(run_id, tuple(outcomes))


def _take(context: Context, step_id: int, step: Step) -> Outcome:
    context.sessions.check()
    if actions.took_effect(context, step):
        context.journal.finished(step_id, "skipped", note="already so")
        return Outcome(step, "skipped", note="already so")
    _begin(context, step_id, step, "running")
    outcome = _timed(context, step_id, step, lambda: actions.take(context, step_id, step))
    context.journal.finished(
        step_id, outcome.status, seconds=outcome.seconds, bytes=step.bytes, note=outcome.note
    )
    return outcome


def _take_back(context: Context, record: StepRecord, step: Step) -> Outcome:
    context.sessions.check()
    if actions.took_effect(context, step):
        context.journal.finished(record.id, "undone", note="was so already")
        return Outcome(step, "undone", note="was so already")
    _begin(context, record.id, step, "undoing")
    outcome = _timed(
        context,
        record.id,
        step,
        lambda: actions.take(context, record.id, step, record.facts),
        on_failure="done",
    )
    # What could not be taken back is still done, and a later --undo tries it again.
    ended: StepStatus = "undone" if outcome.status == "done" else "done"
    context.journal.finished(record.id, ended, seconds=outcome.seconds, note=outcome.note)
    status: StepStatus = "undone" if outcome.status == "done" else outcome.status
    return Outcome(step, status, outcome.seconds, outcome.note)


def _begin(context: Context, step_id: int, step: Step, status: StepStatus) -> None:
    """Write down that a step begins, and in which session, should nobody be left to end it."""
    backend = facts.backend_identity(context.sessions.to_change(step.database))
    context.journal.remember(step_id, {"backend": backend})
    context.journal.started(step_id, status)


def _is_to_be_taken_back(context: Context, record: StepRecord) -> bool:
    """A step that was under way when its run ended counts only if it took effect."""
    moves.settle(context, record)
    if record.status != "running" or actions.took_effect(context, record.step):
        return True
    context.journal.finished(record.id, "failed", note="interrupted")
    return False


def _timed(
    context: Context,
    step_id: int,
    step: Step,
    action: Callable[[], Outcome],
    on_failure: StepStatus = "failed",
) -> Outcome:
    """Run an action; a lock that was not granted is an outcome, anything else is raised."""
    started = time.monotonic()
    try:
        outcome = action()
    except LockTimeoutError as error:
        return Outcome(step, "failed", time.monotonic() - started, str(error))
    except KeyboardInterrupt:
        raise  # the step stays "running": what became of it is seen when it is taken up again
    except UnfinishedError:
        raise  # likewise
    except PgstowError as error:
        context.journal.finished(
            step_id, on_failure, seconds=time.monotonic() - started, note=str(error)
        )
        raise
    return Outcome(step, outcome.status, time.monotonic() - started, outcome.note)


def _settle(context: Context, records: Sequence[StepRecord]) -> None:
    """Find out what became of the steps that were under way when the last run ended."""
    for record in records:
        moves.settle(context, record)
        if record.status == "running":
            done = actions.took_effect(context, record.step)
            context.journal.finished(
                record.id,
                "done" if done else "failed",
                bytes=record.step.bytes,
                note="interrupted, but complete" if done else "interrupted",
            )
        elif record.status == "undoing":
            still = actions.took_effect(context, record.step)
            note = "taking it back was interrupted"
            context.journal.finished(record.id, "done" if still else "undone", note=note)
