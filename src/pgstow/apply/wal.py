"""Move pg_wal to another directory: stop, copy, link, start; resumable from wherever it was killed.

The move is a row of phases, each of which can be run again; how far it came is told from the files
themselves. Until the server has been started on the new directory the old one is whole and the
move can be given up; from then on it can only be completed (and then undone by a move back).
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pgstow.apply.context import Context
from pgstow.apply.values import Observer, Options, Outcome
from pgstow.host import directories, postmaster
from pgstow.host.postmaster import Postmaster
from pgstow.model import HostError, PgstowError, Step, UserError
from pgstow.postgres import changes, facts
from pgstow.workspace.journal import Journal, StepRecord

Hook = Callable[[str], None]
_SETTLED_S = 10.0  # a file older than this when the first copy began, and unchanged, is copied
_SPACE = 1.1


@dataclass(frozen=True, slots=True)
class Move:
    """One move of pg_wal: from ``source`` to ``target``, which may be inside the data directory."""

    server: Postmaster
    identifier: str
    link: str  # the name pg_wal in the data directory
    source: str  # where the files are, a real path
    target: str
    started_at: float

    @property
    def is_inward(self) -> bool:
        """Whether the files go back into the data directory, where no link is needed."""
        return self.target == self.link

    @property
    def staging(self) -> Path:
        """Where the copy is made."""
        return Path(f"{self.link}.pgstow-new" if self.is_inward else self.target)

    @property
    def aside(self) -> Path:
        """What the old pg_wal, directory or link, is called between the switch and the end."""
        return Path(f"{self.link}.pgstow-old")

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Move":
        """Read one back from the journal."""
        server = dict(plain["server"])
        for name in ("options", "cgroups", "unit"):
            server[name] = tuple(server[name])
        return cls(**(plain | {"server": Postmaster(**server)}))


class UnfinishedError(HostError):
    """The move stopped half way; it stays in the journal as under way."""


def is_there(data_directory: str, step: Step) -> bool:
    """Whether pg_wal is where the step is to bring it."""
    target = Path(step.argument("to"))
    real = os.path.realpath(f"{data_directory}/pg_wal")
    # The target itself may be the link, which leads away from where the files are wanted.
    return real == os.path.join(os.path.realpath(target.parent), target.name)  # noqa: PTH118


def move(context: Context, step_id: int, step: Step, hook: Hook = lambda _: None) -> Outcome:
    """Move pg_wal, or say what is missing: the machine, or the user's leave to restart."""
    state = context.state
    if not state.is_local:
        by_hand = f"on the server's machine: stop it, move {step.argument('from')} to "
        by_hand += f"{step.argument('to')}, link pg_wal there, start it"
        return Outcome(step, "skipped", note=f"needs the server's machine; {by_hand}")
    if not context.options.restart:
        return Outcome(step, "skipped", note="needs a restart; run again with --restart")
    with _only_one(state.data_directory):
        prepared = _prepare(context, step)
        context.journal.remember(step_id, {"wal": asdict(prepared)})
        try:
            total = directories.tree_bytes(Path(prepared.source))
            _first_copy(prepared, _progress(context.observer, total))
            hook("after first copy")
            changes.checkpoint(context.sessions.to_change())
            context.sessions.close()
            complete(prepared, hook)
        except PgstowError as error:
            _back_out(prepared, error)
            raise
        except KeyboardInterrupt:
            if not _ran_on_copy(prepared):  # else the server is up, or about to be
                abandon(prepared)
            raise
    context.sessions.lock()
    return Outcome(step, "done")


def complete(prepared: Move, hook: Hook = lambda _: None) -> None:
    """Go through all phases; those that were gone through before do nothing."""
    phases: tuple[tuple[str, Callable[[], None]], ...] = (
        ("stop", lambda: postmaster.stop(prepared.server)),
        ("copy", lambda: _last_copy(prepared)),
        ("switch", lambda: _switch(prepared, hook)),
        ("start", lambda: postmaster.start(prepared.server)),
        ("clean", lambda: _clean(prepared)),
    )
    for name, phase in phases if not _ran_on_copy(prepared) else phases[3:]:
        hook(f"before {name}")
        phase()
        hook(f"after {name}")


def abandon(prepared: Move) -> None:
    """Put everything back as it was and start the server; only before it ran on the copy."""
    assert not _ran_on_copy(prepared), "the server has written to the new pg_wal"
    link = Path(prepared.link)
    if _is_switched(prepared):
        if prepared.is_inward:
            link.rename(prepared.staging)
        else:
            link.unlink()
    if not os.path.lexists(link):
        prepared.aside.rename(link)
        directories.sync_directory(link.parent)
    _empty(prepared, prepared.staging)
    postmaster.start(prepared.server)


def _back_out(prepared: Move, error: PgstowError) -> None:
    """After a failure: as before, if that is still possible; else the move stays to be resumed."""
    if _ran_on_copy(prepared):
        raise UnfinishedError(error.message, "run apply --restart again to go on") from error
    try:
        abandon(prepared)
    except PgstowError as second:
        raise UnfinishedError(
            f"{error.message}; and putting pg_wal back failed: {second.message}",
            "run apply again when that is mended; the old pg_wal is whole",
        ) from error


def recover(
    journal: Journal, *, options: Options | None = None, observer: Observer | None = None
) -> tuple[str, ...]:
    """Finish, or give up, moves of pg_wal that were killed; says what was done.

    To be called before connecting: the server may be down. A move goes on where the restart is
    allowed (``options.restart``) or the server was started on the new directory already; else
    everything is put back as it was.
    """
    said = []
    for record in journal.unfinished_wal_moves():
        if "wal" not in record.facts:
            continue
        prepared = Move.of(record.facts["wal"])
        data_directory = prepared.server.data_directory
        if postmaster.system_identifier(data_directory) != prepared.identifier:
            continue  # another machine's, or gone
        with _only_one(data_directory):
            said.append(_recover(journal, record, prepared, options or Options()))
            (observer or Observer()).waiting(said[-1])
    return tuple(said)


def _recover(journal: Journal, record: StepRecord, prepared: Move, options: Options) -> str:
    if options.restart or _ran_on_copy(prepared):
        complete(prepared)
        journal.finished(
            record.id,
            "undone" if record.status == "undoing" else "done",
            bytes=record.step.bytes,
            note="completed after an interruption",
        )
        return f"completed the interrupted move of pg_wal to {prepared.target}"
    abandon(prepared)
    journal.finished(record.id, "done" if record.status == "undoing" else "failed", note="given up")
    return (
        f"gave up the interrupted move of pg_wal to {prepared.target}; it is in "
        f"{prepared.source} as before"
    )


def _prepare(context: Context, step: Step) -> Move:
    data, config = facts.server_places(context.sessions.to_change())
    link = f"{data.rstrip('/')}/pg_wal"
    mount = dict(step.arguments).get("mount")
    if mount and not context.options.plain_directories:
        directories.check_mounted(mount, "the volume of pg_wal")
    target = step.argument("to")
    inward = os.path.realpath(Path(target).parent) == os.path.realpath(data)
    prepared = Move(
        server=postmaster.find_postmaster(data, config),
        identifier=context.state.system_identifier,
        link=link,
        source=os.path.realpath(link),
        target=link if inward else target,
        started_at=time.time(),
    )
    if not inward:
        directories.check_tablespace_directory(target, mount or None, data)
    if os.path.lexists(prepared.aside):
        raise HostError(
            f"{prepared.aside} is left from an earlier move",
            "make sure that the server needs it no more, then remove it",
        )
    needed = round(directories.tree_bytes(Path(prepared.source)) * _SPACE)
    free = directories.free_bytes(str(prepared.staging))
    if free is not None and free < needed:
        raise HostError(f"{target} has no space for pg_wal", "make the volume larger")
    return prepared


def _first_copy(prepared: Move, advanced: Callable[[int], None]) -> None:
    """Copy while the server runs, so that it is down only for what changes meanwhile."""
    if prepared.is_inward:
        _empty(prepared, prepared.staging)
    else:
        directories.make_directory(str(prepared.staging), prepared.server.data_directory)
    directories.copy_tree(Path(prepared.source), prepared.staging, advanced)


def _last_copy(prepared: Move) -> None:
    if os.path.lexists(prepared.aside):
        return  # the copy was complete when the old name was put aside
    if postmaster.running_pid(prepared.server.data_directory) is not None:
        raise HostError("the server was started by someone else meanwhile", "run apply again")
    directories.copy_tree(
        Path(prepared.source),
        prepared.staging,
        lambda _: None,
        unchanged_before=prepared.started_at - _SETTLED_S,
    )
    directories.sync_directory(prepared.staging.parent)


def _switch(prepared: Move, hook: Hook) -> None:
    """Give the name pg_wal to the copy; the old one keeps its contents under another name."""
    link = Path(prepared.link)
    if _is_switched(prepared):
        return
    if os.path.lexists(link):
        link.rename(prepared.aside)
        directories.sync_directory(link.parent)
    hook("between renames")
    if prepared.is_inward:
        prepared.staging.rename(link)
    else:
        link.symlink_to(prepared.target)
        if os.geteuid() == 0:
            os.lchown(link, prepared.server.uid, prepared.server.gid)
    directories.sync_directory(link.parent)


def _is_switched(prepared: Move) -> bool:
    """Whether the name pg_wal stands for the copy."""
    link = Path(prepared.link)
    if prepared.is_inward:  # before, it was a link
        return link.is_dir() and not link.is_symlink()
    return link.is_symlink() and os.path.realpath(link) == os.path.realpath(prepared.target)


def _ran_on_copy(prepared: Move) -> bool:
    """Whether the server has been started on the copy, by whomever: then only it is good.

    Told from the files, since any start writes to the WAL: the copies have the times of what they
    were copied from.
    """
    if not _is_switched(prepared):
        return False
    if not os.path.lexists(prepared.aside):
        return True  # the old one is being removed already
    if postmaster.running_pid(prepared.server.data_directory) is not None:
        return True
    return _listing(_old(prepared)) != _listing(Path(prepared.link).resolve())


def _old(prepared: Move) -> Path:
    """Where the old files are after the switch."""
    return Path(prepared.source) if prepared.aside.is_symlink() else prepared.aside


def _listing(directory: Path) -> set[tuple[str, int, int]]:
    found = set()
    for path in directory.rglob("*"):
        if path.is_file():
            status = path.stat()
            found.add((str(path.relative_to(directory)), status.st_size, status.st_mtime_ns))
    return found


def _clean(prepared: Move) -> None:
    """Remove the old files: the server runs on the new ones."""
    if postmaster.running_pid(prepared.server.data_directory) is None:
        raise HostError("the server did not start on the moved pg_wal", "see its log")
    assert _is_switched(prepared), "pg_wal must be the new one before the old one is removed"
    if prepared.aside.is_symlink():
        _empty(prepared, Path(prepared.source))
        prepared.aside.unlink()
        directories.sync_directory(prepared.aside.parent)
    elif prepared.aside.exists():
        directories.remove_tree(prepared.aside)


def _empty(prepared: Move, directory: Path) -> None:
    """Remove a directory that is not pg_wal; of a mount point, only what is in it."""
    if not directory.is_dir() or directory.is_symlink():
        return
    in_use = os.path.realpath(prepared.link)
    assert os.path.realpath(directory) != in_use, f"{directory} is pg_wal"
    if not directory.is_mount():
        directories.remove_tree(directory)
        return
    for path in list(directory.iterdir()):
        directories.remove_tree(path)


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
