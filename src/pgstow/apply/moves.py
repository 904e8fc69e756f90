"""Move one relation: look again, check space, get the lock without making others wait, watch."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from pgstow.apply import prechecks
from pgstow.apply.context import Context
from pgstow.apply.values import Outcome
from pgstow.host import directories
from pgstow.model import PgstowError, RelationId, ServerError, Step
from pgstow.postgres import Connection, changes, facts
from pgstow.workspace.journal import StepRecord

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
_PROGRESS_INTERVAL_S = 0.5
_CLEANING_LOCK_S = 2.0  # what cannot be dropped now is dropped when apply runs again
_ORPHAN_PATIENCE_S = 5.0  # a killed client's statement notices within a second or two


def move(context: Context, step_id: int, step: Step) -> Outcome:
    """Move a relation to another tablespace, whichever way the step says."""
    relation = _relation(step)
    watcher = context.sessions.to_watch(relation.database)
    found = facts.relation_facts(watcher, relation)
    source, target = step.argument("from"), step.argument("to")
    if found is None:
        raise ServerError(f"{relation} does not exist any more", "run diff again")
    if found.tablespace == target:
        return Outcome(step, "skipped", note="already there")
    if found.tablespace != source:
        raise ServerError(
            f"{relation} is in tablespace {found.tablespace!r} by now, not in {source!r}",
            "run diff again",
        )
    place = facts.tablespace_facts(watcher, target)
    location = place[0] if place and place[0] else context.state.data_directory
    prechecks.check_target_space(context, step, location, found.size_bytes)
    known = facts.index_oids(watcher, found.table_oid)
    context.journal.remember(
        step_id, {"oid": found.oid, "table_oid": found.table_oid, "indexes": known}
    )
    note = ""
    if step.argument("method") == "reindex":
        note = _rebuild(context, step_id, step, found, watcher)
    else:
        _copy(context, step, found, watcher)
    if not _has_arrived(watcher, relation, target):
        raise ServerError(f"{relation} is not in {target!r} after its move", "run diff again")
    return Outcome(step, "done", note=note)


def _has_arrived(watcher: Connection, relation: RelationId, target: str) -> bool:
    found = facts.relation_facts(watcher, relation)
    return found is not None and found.tablespace == target and found.is_valid


def _relation(step: Step) -> RelationId:
    assert step.relation is not None, f"{step.kind} has a relation"
    return step.relation


def _rebuild(
    context: Context, step_id: int, step: Step, found: facts.RelationFacts, watcher: Connection
) -> str:
    """One patient attempt: what waits here makes only DDL and VACUUM wait, never a query.

    It may fail with the new index in place, when some reader keeps the old one from being dropped:
    then the move is done, and the old one is dropped later.
    """
    relation = _relation(step)
    session = context.sessions.to_change(relation.database)
    changes.prepare_session(session, lock_timeout_s=context.options.lock_wait_s)
    pid = facts.backend_pid(session)
    in_the_way: list[facts.Session] = []

    def watch() -> None:
        share = facts.rebuild_progress(watcher, pid)
        context.observer.advanced((share or 0.0) * found.size_bytes, found.size_bytes)
        _note_blockers(context, watcher, pid, in_the_way)

    try:
        changes.rebuild_index(session, relation, step.argument("to"), watch)
    except PgstowError as error:
        left = _drop_leftovers(context, step, context.journal.facts(step_id))
        context.journal.remember(step_id, {"leftovers": bool(left)})
        if _has_arrived(watcher, relation, step.argument("to")):
            return f"its old self, {left[0]}, is dropped when apply runs again" if left else ""
        if isinstance(error, changes.LockTimeoutError):
            raise _gave_up(context, relation, in_the_way) from error
        raise
    return ""


def _copy(context: Context, step: Step, found: facts.RelationFacts, watcher: Connection) -> None:
    """Short attempts with growing pauses: a waiting ACCESS EXCLUSIVE makes every query wait."""
    relation = _relation(step)
    session = context.sessions.to_change(relation.database)
    changes.prepare_session(session, lock_timeout_s=context.options.lock_timeout_s)
    pid = facts.backend_pid(session)
    deadline = time.monotonic() + context.options.lock_wait_s
    pause_s = _FIRST_PAUSE_S
    in_the_way: list[facts.Session] = []
    kind = dict(step.arguments)["relation kind"]
    progress = _copy_progress(context, step, found, watcher)

    def watch() -> None:
        _note_blockers(context, watcher, pid, in_the_way)
        progress()

    while True:
        long = _long_holders(context, watcher, found.oid, pid)
        if not long:
            try:
                changes.copy_relation(session, relation, kind, step.argument("to"), watch)  # type: ignore[arg-type]
            except changes.LockTimeoutError:
                long = in_the_way
            else:
                return
        in_the_way[:] = long or in_the_way
        if time.monotonic() + pause_s > deadline:
            raise _gave_up(context, relation, in_the_way)
        context.observer.waiting(_named(in_the_way))
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _long_holders(
    context: Context, watcher: Connection, relation_oid: int, pid: int
) -> list[facts.Session]:
    """Transactions that have been open longer than an attempt would wait: no use to queue."""
    holders = facts.lock_holders(watcher, relation_oid, pid)
    return [
        holder
        for holder in holders
        if holder.transaction_s is not None
        and holder.transaction_s > context.options.lock_timeout_s
        and (not holder.is_autovacuum or holder.prevents_wraparound)
    ]


def _note_blockers(
    context: Context, watcher: Connection, pid: int, in_the_way: list[facts.Session]
) -> None:
    found = facts.blockers(watcher, pid)
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


def _copy_progress(
    context: Context, step: Step, found: facts.RelationFacts, watcher: Connection
) -> Callable[[], None]:
    """Bytes in files that are new in the target; by time where they cannot be seen."""
    directory = None
    if context.state.is_local:
        directory = facts.tablespace_directory(watcher, step.argument("to"), found.database_oid)
    before = (directories.file_sizes(directory) or {}) if directory else {}
    started = last = time.monotonic()

    def report() -> None:
        nonlocal last
        now = time.monotonic()
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


def settle(context: Context, record: StepRecord) -> None:
    """After a kill: wait for the orphaned statement, then drop what a rebuild left behind."""
    if record.status in ("running", "undoing"):
        _await_orphan(context, record)
    elif not record.facts.get("leftovers"):
        return
    if record.step.relation is not None and "table_oid" in record.facts:
        left = _drop_leftovers(context, record.step, record.facts)
        context.journal.remember(record.id, {"leftovers": bool(left)})


def _await_orphan(context: Context, record: StepRecord) -> None:
    """The killed client's statement may still be under way, and may yet succeed."""
    backend = record.facts.get("backend")
    if backend is None:
        return
    identity = (backend[0], backend[1])
    watcher = context.sessions.to_watch()
    deadline = time.monotonic() + _ORPHAN_PATIENCE_S
    is_ended = False
    while facts.is_backend_there(watcher, identity):
        context.observer.waiting("waits for the interrupted statement to end")
        if time.monotonic() > deadline and not is_ended:
            changes.end_session(watcher, identity[0])
            is_ended = True
        time.sleep(0.1)


def _drop_leftovers(context: Context, step: Step, remembered: Mapping[str, Any]) -> tuple[str, ...]:
    """Drop what a rebuild that this step began left behind; gives those that could not be."""
    if step.argument("method") != "reindex":
        return ()
    relation = _relation(step)
    session = context.sessions.to_change(relation.database)
    changes.prepare_session(session, lock_timeout_s=_CLEANING_LOCK_S)
    known, original = frozenset(remembered["indexes"]), (remembered["oid"], relation.name)
    table_oid = remembered["table_oid"]
    left = []
    for schema, name in facts.leftover_indexes(session, table_oid, known, original):
        try:
            changes.drop_index_concurrently(session, schema, name)
        except changes.LockTimeoutError:
            left.append(name)
    return tuple(left)
