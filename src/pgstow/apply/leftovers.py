"""What an interrupted rebuild leaves: remembered before it begins, looked for until it is gone.

A rebuild is forgotten only when the catalog has shown that nothing of it is left, whoever asks
and in whichever run; until then every run looks. What came later is somebody else's.
"""

from dataclasses import asdict

from pgstow.apply.context import Context
from pgstow.postgres import changes, facts
from pgstow.workspace.journal import REBUILDS, StepRecord

_CLEANING_LOCK_S = 2.0  # what cannot be dropped now is dropped when apply runs again
_ORPHAN_PATIENCE_S = 5.0  # a killed client's statement notices within a second or two


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
        for schema, name in context.server.leftovers(rebuild):
            try:
                context.server.drop_index(rebuild.database, schema, name, _CLEANING_LOCK_S)
            except changes.LockTimeoutError:
                left.append(name)
        if context.server.leftovers(rebuild):
            kept.append(plain)
    context.journal.remember(record.id, {REBUILDS: kept})
    return tuple(left)


def clean_all(context: Context) -> tuple[str, ...]:
    """Drop what any run's rebuilds on this server left."""
    rebuilds = context.journal.rebuilds(context.state.system_identifier)
    return tuple(name for record in rebuilds for name in clean(context, record))


def await_orphan(context: Context, record: StepRecord) -> None:
    """The killed client's statement may still be under way, and may yet succeed."""
    backend = record.facts.get("backend")
    if backend is None:
        return
    identity = (backend[0], backend[1])
    clock = context.clock
    deadline = clock.monotonic() + _ORPHAN_PATIENCE_S
    is_ended = False
    while context.server.is_backend_there(identity):
        context.observer.waiting("waits for the interrupted statement to end")
        if clock.monotonic() > deadline and not is_ended:
            context.server.end_backend(identity[0])
            is_ended = True
        clock.sleep(0.1)
