"""Execute steps one after the other, or revert them. Each is recorded before and after.

After an error, the server and the disk are inspected, and the step is recorded as done, not done
or partly done. If they cannot be inspected, the step stays open, and the next run of apply
reconciles it before it does anything else.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from pgstow.apply import actions, leftovers, looks, prechecks
from pgstow.apply.context import Context
from pgstow.apply.live import live
from pgstow.apply.values import Observer, Options, Outcome, Result
from pgstow.apply.wal import HALF_WAY, one_line
from pgstow.apply.world import World
from pgstow.model import PgstowError, ServerError, ServerState, Step
from pgstow.model.result import StepStatus
from pgstow.postgres.changes import LockTimeoutError
from pgstow.workspace.journal import Journal, StepRecord

_LOOK_TIMEOUT_S = 10.0  # a server that lost a process is back within seconds
_LOOK_PAUSE_S = 0.5
_STATUS_OF_EFFECT: dict[looks.Effect, StepStatus] = {
    "all": "done",
    "part": "partial",
    "none": "failed",
}
_OTHER_WAY: dict[looks.Effect, looks.Effect] = {"all": "none", "part": "part", "none": "all"}
_MOVES = ("move index", "move table")


def run(
    steps: Sequence[Step],
    *,
    state: ServerState,
    layout: str,
    dsn: str,
    journal: Journal,
    options: Options | None = None,
    observer: Observer | None = None,
    world: World | None = None,
) -> Result:
    """Execute the steps of a migration to ``layout`` (its digest: by it a later run resumes).

    A step that gets no lock in time fails, and the others go on; any other error ends the run.
    Ctrl-C cancels the statement in progress and raises KeyboardInterrupt; running again resumes.
    """
    with _world(dsn, state, world) as there:
        context = Context(state, there, journal, options or Options(), observer or Observer())
        context.server.lock()
        reconcile(context)
        warnings = prechecks.check(context, steps)
        run_id = journal.begin(state.system_identifier, layout)
        step_ids = journal.plan(run_id, steps)
        outcomes: list[Outcome] = []
        try:
            for position, (step_id, step) in enumerate(zip(step_ids, steps, strict=True), 1):
                context.observer.step_started(position, len(steps), step)
                outcome = _execute(context, step_id, step)
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
    world: World | None = None,
) -> Result:
    """Revert a run's steps, the latest first: each record comes with its inverse.

    A step that cannot be reverted is named and stays recorded as done; the others go on.
    """
    with _world(dsn, state, world) as there:
        context = Context(state, there, journal, options or Options(), observer or Observer())
        context.server.lock()
        reconcile(context)
        in_effect = {record.id: record for record in journal.in_effect(run_id)}
        backward = [(in_effect[r.id], step) for r, step in backward if r.id in in_effect]
        outcomes: list[Outcome] = []
        for position, (record, step) in enumerate(backward, 1):
            context.observer.step_started(position, len(backward), step)
            outcome = _revert(context, record, step)
            outcomes.append(outcome)
            context.observer.step_finished(outcome)
        if not journal.in_effect(run_id):
            journal.finish(run_id, "undone")
        return Result(run_id, tuple(outcomes))


def reconcile(context: Context) -> None:
    """Find out how every step ended that any run on this server left open, and record it."""
    journal = context.journal
    for record in journal.open_steps(context.state.system_identifier):
        try:
            leftovers.await_orphan(context, record)
            effect = looks.effect(context, record.step, record.facts)
            effect_forward = _OTHER_WAY[effect] if record.status == "undoing" else effect
            actions.after_failure(context, record.step, effect_forward)
        except PgstowError as error:
            raise ServerError(
                f"how an interrupted step ended ({record.step.kind} {record.step.subject}) "
                f"cannot be determined: {error.message}",
                error.remedy or "remedy that, then run it again",
            ) from error
        if record.status == "undoing":
            journal.finished(
                record.id,
                "undone" if effect == "none" else _STATUS_OF_EFFECT[effect],
                note="reverting it was interrupted",
            )
        else:
            notes = {"all": "interrupted, but complete", "part": "interrupted half way"}
            journal.finished(
                record.id,
                _STATUS_OF_EFFECT[effect],
                bytes=record.step.bytes,
                note=notes.get(effect, "interrupted"),
            )
        actions.tidy(context, record, effect)
    leftovers.clean_all(context)


def _world(dsn: str, state: ServerState, world: World | None) -> AbstractContextManager[World]:
    return live(dsn, state) if world is None else nullcontext(world)


def _execute(context: Context, step_id: int, step: Step) -> Outcome:
    context.server.check()
    hidden = actions.out_of_sight(context, step)
    if hidden:
        context.journal.finished(step_id, "skipped", note=hidden)
        return Outcome(step, "skipped", note=hidden)
    if looks.effect(context, step, {}) == "all":
        actions.after_failure(context, step, "all")  # a setting may be written, not in force
        context.journal.finished(step_id, "skipped", note="already so")
        return Outcome(step, "skipped", note="already so")
    _begin(context, step_id, step, "running")
    started = context.clock.monotonic()
    try:
        outcome = actions.execute(context, step_id, step, is_undo=False)
    except HALF_WAY:
        raise  # it stays open: the run that resumes it sees what is left to do
    except BaseException as error:
        effect = _effect_after(context, step_id, step, error)
        seconds = context.clock.monotonic() - started
        note = _note(error, effect)
        status: StepStatus = "unknown" if effect is None else _STATUS_OF_EFFECT[effect]
        context.journal.finished(step_id, status, seconds=seconds, bytes=step.bytes, note=note)
        if effect is not None:
            actions.tidy(context, context.journal.step(step_id), effect)
        if isinstance(error, PgstowError) and effect == "all":
            return Outcome(step, "done", seconds, note)
        if isinstance(error, LockTimeoutError) and effect is not None:
            return Outcome(step, "failed", seconds, note)
        raise
    seconds = context.clock.monotonic() - started
    context.journal.finished(
        step_id, outcome.status, seconds=seconds, bytes=step.bytes, note=outcome.note
    )
    return Outcome(step, outcome.status, seconds, outcome.note)


def _revert(context: Context, record: StepRecord, step: Step) -> Outcome:
    context.server.check()
    gone = _nothing_to_revert(context, step)
    if gone:
        context.journal.finished(record.id, "undone", note=gone)
        return Outcome(step, "skipped", note=gone)
    hidden = actions.out_of_sight(context, step)
    if hidden:
        return Outcome(step, "skipped", note=hidden)
    if looks.effect(context, step, record.facts) == "all":
        actions.after_failure(context, step, "all")
        if record.step.kind == "create tablespace":
            actions.tidy(context, record, "none")
        context.journal.finished(record.id, "undone", note="was so already")
        return Outcome(step, "undone", note="was so already")
    _begin(context, record.id, step, "undoing")
    started = context.clock.monotonic()
    try:
        outcome = actions.execute(context, record.id, step, is_undo=True)
    except HALF_WAY:
        raise
    except BaseException as error:
        effect = _effect_after(context, record.id, step, error)
        seconds, note = context.clock.monotonic() - started, _note(error, effect)
        if effect is not None:
            status: StepStatus = "undone" if effect == "all" else _still_in_effect(context, record)
            context.journal.finished(record.id, status, seconds=seconds, note=note)
        if effect == "all" and record.step.kind == "create tablespace":
            actions.tidy(context, record, "none")
        if isinstance(error, PgstowError) and effect is not None:
            return Outcome(step, "undone" if effect == "all" else "failed", seconds, note)
        raise
    seconds = context.clock.monotonic() - started
    ended: StepStatus = "undone" if outcome.status == "done" else record.status
    context.journal.finished(record.id, ended, seconds=seconds, note=outcome.note)
    shown: StepStatus = "undone" if outcome.status == "done" else outcome.status
    return Outcome(step, shown, seconds, outcome.note)


def _still_in_effect(context: Context, record: StepRecord) -> StepStatus:
    """The status of a step that could not be reverted: a later --undo tries it again."""
    try:
        is_whole = looks.effect(context, record.step, record.facts) == "all"
    except PgstowError:
        return "undoing"
    return "done" if is_whole else "partial"


def _nothing_to_revert(context: Context, step: Step) -> str:
    """Why there is nothing to revert: its object is gone, or somebody else changed it."""
    if step.kind == "drop tablespace":
        return looks.elsewhere(context, step)
    if step.kind not in _MOVES:
        return ""
    found = context.server.relation(looks.relation_of(step))
    if found is None:
        return "it was dropped since"
    if found.tablespace not in (step.argument("from"), step.argument("to")):
        return f"somebody has moved it on, to tablespace {found.tablespace!r}"
    return ""


def _begin(context: Context, step_id: int, step: Step, status: StepStatus) -> None:
    """Record that a step begins, and in which session: a killed run leaves that one behind."""
    actions.prepare(context, step_id, step, is_undo=status == "undoing")
    backend = context.server.backend(step.database)
    context.journal.remember(step_id, {"backend": backend})
    context.journal.started(step_id, status)


def _effect_after(
    context: Context, step_id: int, step: Step, error: BaseException
) -> looks.Effect | None:
    """How far a step got, once the server answers after an error; None: it cannot be seen."""
    clock = context.clock
    deadline = clock.monotonic() + _LOOK_TIMEOUT_S
    record = context.journal.step(step_id)
    while True:
        try:
            if context.server.backend(step.database) != tuple(record.facts["backend"]):
                leftovers.await_orphan(context, record)  # the session is another by now
            effect = looks.effect(context, step, record.facts)
        except PgstowError:
            if clock.monotonic() >= deadline or isinstance(error, KeyboardInterrupt):
                return None
            clock.sleep(_LOOK_PAUSE_S)
            continue
        try:
            actions.after_failure(context, step, effect)
        except PgstowError:
            return "part"  # written, and not in force
        return effect


def _note(error: BaseException, effect: looks.Effect | None) -> str:
    text = one_line(error)
    if effect is None:
        return f"not known how it ended: {text}"
    return {"all": f"took effect, although: {text}", "part": f"half done: {text}", "none": text}[
        effect
    ]
