"""Move one relation: look again, check space, get the lock without making others wait, watch."""

from collections.abc import Callable

from pgstow.apply import leftovers, looks, prechecks
from pgstow.apply.context import Context
from pgstow.apply.values import Outcome
from pgstow.host import directories
from pgstow.model import PgstowError, RelationId, ServerError, Step
from pgstow.postgres import changes, facts

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
_PROGRESS_INTERVAL_S = 0.5
_YIELDING_SHARE = 1.5  # of the time after which autovacuum makes way, how long it is waited for


def move(context: Context, step_id: int, step: Step) -> Outcome:
    """Move a relation to another tablespace, whichever way the step says."""
    relation, server = looks.relation_of(step), context.server
    found = server.relation(relation)
    source, target = step.argument("from"), step.argument("to")
    if found is None:
        raise ServerError(f"{relation} does not exist any more", "run diff again")
    if found.tablespace != source:
        raise ServerError(
            f"{relation} is in tablespace {found.tablespace!r} by now, not in {source!r}",
            "run diff again",
        )
    if step.argument("method") != "catalog":
        present = server.tablespace(target)
        location = present[0] if present and present[0] else context.state.data_directory
        prechecks.check_target_space(context, step, location, found.size_bytes)
    note = ""
    if step.argument("method") == "reindex":
        note = _rebuild(context, step_id, step, found)
    else:
        _copy(context, step, found)
    if not looks.is_moved(context, step):
        raise ServerError(f"{relation} is not in {target!r} after its move", "run diff again")
    return Outcome(step, "done", note=note)


def _rebuild(context: Context, step_id: int, step: Step, found: facts.RelationFacts) -> str:
    """One patient attempt: what waits here makes only DDL and VACUUM wait, never a query.

    It may fail with the new index in place, when some reader keeps the old one from being dropped:
    then the move is done, and the old one is dropped later.
    """
    relation, server = looks.relation_of(step), context.server
    rebuild = facts.Rebuild(
        relation.database,
        relation.name,
        found.oid,
        found.table_oid,
        server.indexes(relation.database, found.table_oid),
        found.tablespace,
        step.argument("to"),
    )
    leftovers.remember(context, step_id, rebuild)
    in_the_way: list[facts.Session] = []

    def watch() -> None:
        share = server.rebuild_progress(relation.database)
        context.observer.advanced((share or 0.0) * found.size_bytes, found.size_bytes)
        _note_blockers(context, relation, in_the_way)

    failure: PgstowError | None = None
    try:
        server.rebuild_index(relation, step.argument("to"), context.options.lock_wait_s, watch)
    except PgstowError as error:
        failure = error
    left = leftovers.clean(context, context.journal.step(step_id))
    if failure is None or looks.is_moved(context, step):
        return f"its old self, {left[0]}, is dropped when apply runs again" if left else ""
    if isinstance(failure, changes.LockTimeoutError):
        raise _gave_up(context, relation, in_the_way) from failure
    raise failure


def _copy(context: Context, step: Step, found: facts.RelationFacts) -> None:
    """Short attempts with growing pauses: a waiting ACCESS EXCLUSIVE makes every query wait."""
    relation, server, clock = looks.relation_of(step), context.server, context.clock
    deadline = clock.monotonic() + context.options.lock_wait_s
    pause_s = _FIRST_PAUSE_S
    in_the_way: list[facts.Session] = []
    kind = dict(step.arguments)["relation kind"]
    progress = _copy_progress(context, step, found)

    def watch() -> None:
        _note_blockers(context, relation, in_the_way)
        progress()

    while True:
        holders = server.lock_holders(relation.database, found.oid)
        long = _long_holders(context, holders)
        if not long:
            try:
                server.copy_relation(
                    relation,
                    kind,  # type: ignore[arg-type]
                    step.argument("to"),
                    _lock_timeout_s(context, relation, holders),
                    watch,
                )
            except changes.LockTimeoutError:
                long = in_the_way
            else:
                return
        in_the_way[:] = long or in_the_way
        if clock.monotonic() + pause_s > deadline:
            raise _gave_up(context, relation, in_the_way)
        context.observer.waiting(_named(in_the_way))
        clock.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _lock_timeout_s(
    context: Context, relation: RelationId, holders: tuple[facts.Session, ...]
) -> float:
    """How long an attempt may queue: longer than it takes autovacuum to make way, if it is there.

    Who may not set deadlock_timeout would else never wait long enough.
    """
    usual_s = context.options.lock_timeout_s
    if not any(holder.is_autovacuum for holder in holders):
        return usual_s
    yields_after_s = context.server.autovacuum_yields_after_s(relation.database)
    return max(usual_s, yields_after_s * _YIELDING_SHARE)


def _long_holders(context: Context, holders: tuple[facts.Session, ...]) -> list[facts.Session]:
    """Transactions that have been open longer than an attempt would wait: no use to queue."""
    return [
        holder
        for holder in holders
        if holder.transaction_s is not None
        and holder.transaction_s > context.options.lock_timeout_s
        and (not holder.is_autovacuum or holder.prevents_wraparound)
    ]


def _note_blockers(context: Context, relation: RelationId, in_the_way: list[facts.Session]) -> None:
    found = context.server.blockers(relation.database)
    if found:
        in_the_way[:] = found
        context.observer.waiting(_named(list(found)))


def _named(sessions: list[facts.Session]) -> str:
    return "waits for " + ", ".join(map(str, sessions[:3])) if sessions else "waits for a lock"


def _gave_up(
    context: Context, relation: RelationId, in_the_way: list[facts.Session]
) -> changes.LockTimeoutError:
    names = ", ".join(str(session) for session in in_the_way[:5]) or "short transactions"
    return changes.LockTimeoutError(
        f"{relation} was not free within {context.options.lock_wait_s:g} s; in the way: {names}",
        "end those, or give --lock-wait more time, and run apply again",
    )


def _copy_progress(context: Context, step: Step, found: facts.RelationFacts) -> Callable[[], None]:
    """Bytes in files that are new in the target; by time where they cannot be seen."""
    directory = None
    if context.state.is_local:
        directory = context.server.tablespace_directory(
            step.argument("to"), looks.relation_of(step).database, found.database_oid
        )
    before = (directories.file_sizes(directory) or {}) if directory else {}
    started = last = context.clock.monotonic()

    def report() -> None:
        nonlocal last
        now = context.clock.monotonic()
        if now - last < _PROGRESS_INTERVAL_S:
            return
        last = now
        sizes = directories.file_sizes(directory) if directory else None
        if sizes is None:
            done = found.size_bytes * min((now - started) / max(step.seconds, 0.1), 0.95)
        else:
            done = sum(size for name, size in sizes.items() if name not in before)
        context.observer.advanced(min(done, found.size_bytes), found.size_bytes)

    return report
