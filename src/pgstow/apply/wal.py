"""Move pg_wal to another directory; an error says what was put back.

The phases and the way back are :mod:`pgstow.apply.wal_phases`; what a kill left is resumed by
:mod:`pgstow.apply.wal_recovery`.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pgstow.apply.context import Context
from pgstow.apply.values import Observer, Outcome
from pgstow.apply.wal_phases import STARTING, STOPPED, Hook, Move, Moving
from pgstow.host import directories, locks
from pgstow.model import HostError, PgstowError, ServerState, Step, UserError
from pgstow.workspace.journal import MADE

_SPACE = 1.1
WAL = "wal"  # among a step's facts: the move


class UnfinishedError(HostError):
    """The move stopped half way; it stays in the journal as under way."""


class InterruptedMove(KeyboardInterrupt):  # it is Ctrl-C, not an error
    """Ctrl-C when the move could not be put back: it stays in the journal as under way."""


class BrokenMoveError(RuntimeError):
    """The same after an error that pgstow does not know: a defect of its own, most likely."""


HALF_WAY = (UnfinishedError, InterruptedMove, BrokenMoveError)


def out_of_sight(state: ServerState, step: Step) -> str:
    """Why nobody can see from here where pg_wal is, and what to do; empty: it can be seen."""
    if not state.is_local:
        by_hand = f"on the server's machine: stop it, move {step.argument('from')} to "
        by_hand += f"{step.argument('to')}, link pg_wal there, start it"
        return f"needs the server's machine; {by_hand}"
    try:
        os.lstat(f"{state.data_directory}/pg_wal")
    except PermissionError:
        return "needs to see the data directory: run pgstow as root or as the server's user"
    except OSError:
        return ""  # there is none, which is seen
    return ""


def is_there(data_directory: str, step: Step) -> bool:
    """Whether pg_wal is where the step is to bring it."""
    target = Path(step.argument("to"))
    real = os.path.realpath(f"{data_directory}/pg_wal")
    # The target itself may be the link, which leads away from where the files are to be.
    return real == os.path.join(os.path.realpath(target.parent), target.name)  # noqa: PTH118


def forget(context: Context, step_id: int) -> None:
    """A step that is about to begin (again, or backwards) has moved nothing yet."""
    context.journal.remember(step_id, {WAL: None, STOPPED: False, STARTING: False})


def way_back(context: Context, step: Step) -> tuple[tuple[str, str], ...]:
    """The arguments that bring pg_wal back, to a volume that is mounted then as it is now."""
    origin = step.argument("from")
    mount = directories.mount_point(origin)
    if mount == directories.mount_point(context.state.data_directory):
        mount = ""  # without it there would be no server
    return (("from", step.argument("to")), ("to", origin), ("mount", mount))


def move(context: Context, step_id: int, step: Step, hook: Hook = lambda _: None) -> Outcome:
    """Move pg_wal; skipped where the user has not allowed a restart."""
    state, world = context.state, context.world
    if not context.options.restart:
        return Outcome(step, "skipped", note="needs a restart; run again with --restart")
    with only_one(state.data_directory):
        prepared = _prepare(context, step)
        made = [*context.journal.step(step_id).made, *prepared.made]
        context.journal.remember(step_id, {WAL: asdict(prepared), STOPPED: False, MADE: made})
        moving = Moving(prepared, world.disk, world.postmasters, context.journal, step_id, hook)
        try:
            moving.first_copy(progress(context.observer, prepared))
            hook("after first copy")
            context.server.checkpoint()
            context.server.close()
            left = moving.complete()
        except BaseException as error:
            put_back(moving, error)
            raise
    context.server.lock()
    return Outcome(step, "done", note=kept(left))


def kept(left: tuple[str, ...]) -> str:
    """Names of files that are not pgstow's and were left."""
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return f"not pgstow's, and left: {', '.join(left[:3])}{more}" if left else ""


def put_back(moving: Moving, error: BaseException) -> None:
    """After a failure or Ctrl-C: as before, where that is still possible, and the error says so.

    Else the move stays open, to be resumed: an exception says so.
    """
    failure: BaseException | None = None
    try:
        if not moving.must_go_on():
            add_outcome(error, _as_before(moving, moving.abandon()))
            return
        found = f"the server has been started on {moving.move.target}, and the old pg_wal is to "
        found += f"go; {_server_is(moving)}"
    except (Exception, KeyboardInterrupt) as second:
        failure = second
        found = f"putting pg_wal back failed: {one_line(second)}; {where_it_is(moving)}"
    for one in (failure, error):
        if isinstance(one, Exception) and not isinstance(one, PgstowError):
            raise BrokenMoveError(f"{one_line(error)}; {found}") from one
    if not isinstance(error, PgstowError):
        raise InterruptedMove(found) from error
    remedy = "remedy that, then run apply again" if failure else "run apply --restart to go on"
    raise UnfinishedError(f"{error.message}; {found}", remedy) from error


def _as_before(moving: Moving, left: tuple[str, ...]) -> str:
    """What was put back."""
    was_stopped = moving.journal.facts(moving.step_id).get(STOPPED)
    runs = ", the server was started on it again" if was_stopped else ""
    more = f"; {kept(left)}" if left else ""
    return f"pg_wal is in {moving.move.source} as before{runs}{more}"


def where_it_is(moving: Moving) -> str:
    """Where the old pg_wal is after putting it back failed, and whether the server runs."""
    is_aside = os.path.lexists(moving.move.aside)
    path = moving.old() if is_aside else Path(moving.move.source)
    return f"the old pg_wal is untouched, in {path}; {_server_is(moving)}"


def _server_is(moving: Moving) -> str:
    """Whether the server runs, as text for the user."""
    if not moving.is_server_up():
        return "the server is down"
    if moving.postmasters.is_stopping(moving.move.server.data_directory):
        return "the server is stopping and is not started again"
    return "the server runs"


def one_line(error: BaseException) -> str:
    """An error of any kind in one line."""
    match error:
        case PgstowError():
            return str(error)
        case KeyboardInterrupt():
            return ": ".join(filter(None, ("interrupted", str(error))))
    return f"{type(error).__name__}: {error}"


def add_outcome(error: BaseException, more: str) -> None:
    """Add to an error what was done after it."""
    match error:
        case PgstowError():
            error.message = f"{error.message}; {more}"
        case KeyboardInterrupt():
            error.args = (more,)
        case _:
            error.add_note(more)


def _prepare(context: Context, step: Step) -> Move:
    data, config = context.server.server_paths()
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
    check_space(prepared)
    return prepared


def check_space(prepared: Move, kept_bytes: int = 0) -> None:
    """Refuse a move whose target has no space for what is still to be copied.

    ``kept_bytes`` are copied already, and stay.
    """
    needed = round(directories.tree_bytes(Path(prepared.source)) * _SPACE) - kept_bytes
    free = directories.free_bytes(str(prepared.staging))
    if free is not None and free < needed:
        raise HostError(f"{prepared.target} has no space for pg_wal", "make the volume larger")


@contextmanager
def only_one(data_directory: str) -> Iterator[None]:
    """A lock that the kernel drops with the process; the server's own is gone while it is down."""
    descriptor = os.open(data_directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not locks.try_exclusive(descriptor):
            raise UserError(
                "another apply is moving this server's pg_wal", "wait until it has finished"
            )
        yield
    finally:
        os.close(descriptor)


def progress(observer: Observer, prepared: Move) -> Callable[[int], None]:
    """Tells an observer how much of pg_wal is copied."""
    done, total = 0, directories.tree_bytes(Path(prepared.source))

    def advanced(count: int) -> None:
        nonlocal done
        done += count
        observer.advanced(min(done, total), total)

    return advanced
