"""Move pg_wal to another directory, or say why not; finish or give up what was interrupted.

The phases and the way back are :mod:`pgstow.apply.wal_phases`.
"""

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pgstow.apply.context import Context
from pgstow.apply.values import Observer, Options, Outcome
from pgstow.apply.wal_phases import STOPPED, Hook, Move, Moving
from pgstow.apply.world import Postmasters
from pgstow.host import directories, postmaster
from pgstow.host.disk import Disk
from pgstow.model import HostError, PgstowError, Step, UserError
from pgstow.workspace.journal import MADE, OPEN, Journal, StepRecord, StepStatus

_SPACE = 1.1
_WAL = "wal"  # among a step's facts: the move


class UnfinishedError(HostError):
    """The move stopped half way; it stays in the journal as under way."""


class InterruptedMove(KeyboardInterrupt):  # it is Ctrl-C, not an error
    """Ctrl-C when the server had been started on the new directory: it stays to be completed."""


def is_there(data_directory: str, step: Step) -> bool:
    """Whether pg_wal is where the step is to bring it."""
    target = Path(step.argument("to"))
    real = os.path.realpath(f"{data_directory}/pg_wal")
    # The target itself may be the link, which leads away from where the files are wanted.
    return real == os.path.join(os.path.realpath(target.parent), target.name)  # noqa: PTH118


def forget(context: Context, step_id: int) -> None:
    """A step that is about to begin (again, or backwards) has moved nothing yet."""
    context.journal.remember(step_id, {_WAL: None, STOPPED: False})


def move(context: Context, step_id: int, step: Step, hook: Hook = lambda _: None) -> Outcome:
    """Move pg_wal, or say what is missing: the machine, or the user's leave to restart."""
    state, world = context.state, context.world
    if not state.is_local:
        by_hand = f"on the server's machine: stop it, move {step.argument('from')} to "
        by_hand += f"{step.argument('to')}, link pg_wal there, start it"
        return Outcome(step, "skipped", note=f"needs the server's machine; {by_hand}")
    if not context.options.restart:
        return Outcome(step, "skipped", note="needs a restart; run again with --restart")
    with _only_one(state.data_directory):
        prepared = _prepare(context, step)
        made = [*context.journal.step(step_id).made, *prepared.made]
        context.journal.remember(step_id, {_WAL: asdict(prepared), STOPPED: False, MADE: made})
        moving = Moving(prepared, world.disk, world.postmasters, context.journal, step_id, hook)
        try:
            total = directories.tree_bytes(Path(prepared.source))
            moving.first_copy(_progress(context.observer, total))
            hook("after first copy")
            context.server.checkpoint()
            context.server.close()
            left = moving.complete()
        except BaseException as error:
            _put_back(moving, error)
            raise
    context.server.lock()
    return Outcome(step, "done", note=_kept(left))


def _kept(left: tuple[str, ...]) -> str:
    """What was found that is not pgstow's."""
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return f"not pgstow's, and left: {', '.join(left[:3])}{more}" if left else ""


def _put_back(moving: Moving, error: BaseException) -> None:
    """After a failure or Ctrl-C: as before, where that is still possible.

    Else the move stays open, to be resumed: that is said by raising.
    """
    second = ""
    try:
        if not moving.ran_on_copy():
            moving.abandon()
            return
    except (PgstowError, KeyboardInterrupt) as failure:
        second = str(failure) or "interrupted"
    if not isinstance(error, PgstowError):
        raise InterruptedMove from error
    if second:
        raise UnfinishedError(
            f"{error.message}; and putting pg_wal back failed: {second}",
            "run apply again when that is mended; the old pg_wal is whole",
        ) from error
    raise UnfinishedError(error.message, "run apply --restart again to go on") from error


def recover(
    journal: Journal,
    *,
    options: Options | None = None,
    observer: Observer | None = None,
    disk: Disk | None = None,
    postmasters: Postmasters = postmaster,
) -> tuple[str, ...]:
    """Finish, or give up, moves of pg_wal that were killed; says what was done.

    To be called before connecting: the server may be down. A move goes on where the restart is
    allowed (``options.restart``) or the server was started on the new directory already; else
    everything is put back as it was.
    """
    said = []
    for known in journal.unfinished_wal_moves():
        if known.facts.get(_WAL) is None:
            continue  # it had not begun to copy
        prepared = Move.of(known.facts[_WAL])
        data_directory = prepared.server.data_directory
        if postmasters.system_identifier(data_directory) != prepared.identifier:
            continue  # another machine's, or gone
        with _only_one(data_directory):
            record = journal.step(known.id)
            if record.status not in OPEN:
                continue  # another apply has settled it meanwhile
            moving = Moving(prepared, disk or Disk(), postmasters, journal, record.id)
            said.append(_recover(record, moving, options or Options()))
            (observer or Observer()).waiting(said[-1])
    return tuple(said)


def _recover(record: StepRecord, moving: Moving, options: Options) -> str:
    journal, prepared = moving.journal, moving.move
    was: StepStatus = "done" if record.status == "undoing" else "failed"
    if options.restart or moving.ran_on_copy():
        try:
            left = moving.complete()
        except BaseException as error:
            _put_back(moving, error)
            journal.finished(record.id, was, note=f"put back: {error}")
            raise
        journal.finished(
            record.id,
            "undone" if record.status == "undoing" else "done",
            bytes=record.step.bytes,
            note=_kept(left) or "completed after an interruption",
        )
        said = f"completed the interrupted move of pg_wal to {prepared.target}"
    else:
        left = moving.abandon()
        journal.finished(record.id, was, note=_kept(left) or "given up")
        said = f"gave up the interrupted move of pg_wal to {prepared.target}; it is in "
        said += f"{prepared.source} as before"
    return f"{said} ({_kept(left)})" if left else said


def _prepare(context: Context, step: Step) -> Move:
    data, config = context.server.places()
    link = f"{data.rstrip('/')}/pg_wal"
    mount = dict(step.arguments).get("mount")
    if mount and not context.options.plain_directories:
        directories.check_mounted(mount, "the volume of pg_wal")
    target = step.argument("to")
    inward = os.path.realpath(Path(target).parent) == os.path.realpath(data)
    prepared = Move(
        server=context.world.postmasters.find_postmaster(data, config),
        identifier=context.state.system_identifier,
        link=link,
        source=os.path.realpath(link),
        target=link if inward else target,
        started_at=context.clock.time(),
        token=uuid.uuid4().hex,
        made=() if inward else directories.missing_directories(target),
    )
    if not inward:
        directories.check_tablespace_directory(target, mount or None, data)
    for name in (prepared.aside, *((prepared.staging,) if inward else ())):
        is_empty = name.is_dir() and not name.is_symlink() and not any(name.iterdir())
        if os.path.lexists(name) and not (is_empty and name != prepared.aside):
            raise HostError(
                f"{name} is left from an earlier move",
                "make sure that the server needs it no more, then remove it",
            )
    needed = round(directories.tree_bytes(Path(prepared.source)) * _SPACE)
    free = directories.free_bytes(str(prepared.staging))
    if free is not None and free < needed:
        raise HostError(f"{target} has no space for pg_wal", "make the volume larger")
    return prepared


@contextmanager
def _only_one(data_directory: str) -> Iterator[None]:
    """A lock that the kernel drops with the process; the server's own is gone while it is down."""
    descriptor = os.open(data_directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                "another apply is moving this server's pg_wal", "wait until it has finished"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _progress(observer: Observer, total: int) -> Callable[[int], None]:
    done = 0

    def advanced(count: int) -> None:
        nonlocal done
        done += count
        observer.advanced(min(done, total), total)

    return advanced
