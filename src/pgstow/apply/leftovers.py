"""What an interrupted rebuild leaves: remembered before it begins, looked for until it is gone.

A rebuild is forgotten only when the catalog has shown that nothing of it is left, whoever asks
and in whichever run; until then every run looks. What came later is somebody else's.
"""

from dataclasses import asdict

from pgstow.apply.context import Context
from pgstow.model import ServerError
from pgstow.postgres import changes, facts
from pgstow.workspace.journal import REBUILDS, StepRecord

_CLEANING_LOCK_S = 2.0  # what cannot be dropped now is dropped when apply runs again
_ORPHAN_TIMEOUT_S = 5.0  # a killed client's statement notices within a second or two
_ENDING_TIMEOUT_S = 60.0  # one that is terminated removes the files that it has written


def remember(context: Context, step_id: int, rebuild: facts.Rebuild) -> None:
    """Note a rebuild that is about to begin."""
    known = list(context.journal.facts(step_id).get(REBUILDS) or ())
    context.journal.remember(step_id, {REBUILDS: [*known, asdict(rebuild)]})


def clean(context: Context, record: StepRecord) -> tuple[str, ...]:
    """Drop what a step's rebuilds left; gives what could not be dropped now."""
    left: list[str] = []
    kept = []
    for plain in record.facts.get(REBUILDS) or ():
        rebuild = facts.Rebuild(**(plain | {"indexes": tuple(plain["indexes"])}))
        for schema, name in context.server.leftovers(rebuild) or ():
            try:
                context.server.drop_index(rebuild.database, schema, name, _CLEANING_LOCK_S)
            except changes.LockTimeoutError:
                left.append(name)
        if context.server.leftovers(rebuild) != ():  # some, or nobody can tell
            kept.append(plain)
    context.journal.remember(record.id, {REBUILDS: kept})
    return tuple(left)


def clean_all(context: Context) -> tuple[str, ...]:
    """Drop what any run's rebuilds on this server left."""
    rebuilds = context.journal.rebuilds(context.state.system_identifier)
    return tuple(name for record in rebuilds for name in clean(context, record))


def await_orphan(context: Context, record: StepRecord) -> None:
    """The killed client's statement may still be under way, and may yet succeed.

    It is ended after a while. Of one that goes on even so nobody can say what it will have done:
    that is an error, and the step stays open.
    """
    backend = record.facts.get("backend")
    if backend is None:
        return
    identity = (backend[0], backend[1])
    clock, step = context.clock, record.step
    began = clock.monotonic()
    is_ended = False
    while context.server.is_backend_there(identity):
        waited_s = clock.monotonic() - began
        if waited_s > _ORPHAN_TIMEOUT_S and not is_ended:
            context.server.end_backend(identity)
            is_ended = True
        if waited_s > _ORPHAN_TIMEOUT_S + _ENDING_TIMEOUT_S:
            raise ServerError(
                f"its session (pid {identity[0]}) goes on, {_ENDING_TIMEOUT_S:g} s after it was "
                "terminated",
                f"see what it waits for, in pg_stat_activity where pid = {identity[0]}; when it is "
                "gone, run apply again",
            )
        context.observer.waiting(
            f"waits for pid {identity[0]}, left at {step.kind} {step.subject}, to end: "
            f"{waited_s:.0f} of at most {_ORPHAN_TIMEOUT_S + _ENDING_TIMEOUT_S:.0f} s"
        )
        clock.sleep(0.1)
    context.observer.waiting("")
