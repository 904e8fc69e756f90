"""Resume moves of pg_wal that were killed: finish them, or give them up."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from pgstow.apply.values import Observer, Options
from pgstow.apply.wal import (
    WAL,
    add_outcome,
    check_space,
    kept,
    only_one,
    progress,
    put_back,
    where_it_is,
)
from pgstow.apply.wal_phases import Move, Moving
from pgstow.apply.world import Clock, Postmasters
from pgstow.host import postmaster
from pgstow.host.disk import Disk
from pgstow.model.result import StepStatus
from pgstow.workspace.journal import OPEN, Journal, StepRecord


def recover(
    journal: Journal,
    *,
    options: Options | None = None,
    observer: Observer | None = None,
    disk: Disk | None = None,
    postmasters: Postmasters = postmaster,
    clock: Clock = time,
    checkpoint: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """Finish or give up moves of pg_wal that were killed; returns what was done.

    To be called before connecting: the server may be down. A move goes on where the restart is
    allowed (``options.restart``) or the server was started on the new directory already; else
    everything is put back as it was. ``checkpoint`` makes one, if it can, on the server of that
    identifier, so that its stop is short.
    """
    messages = []
    options, observer = options or Options(), observer or Observer()
    for known in journal.unfinished_wal_moves():
        if known.facts.get(WAL) is None:
            continue  # it had not begun to copy
        prepared = Move.of(known.facts[WAL])
        data_directory = prepared.server.data_directory
        if postmasters.system_identifier(data_directory) != prepared.identifier:
            continue  # another machine's, or gone
        with only_one(data_directory):
            record = journal.step(known.id)
            if record.status not in OPEN:
                continue  # another apply has reconciled it meanwhile
            moving = Moving(prepared, disk or Disk(), postmasters, journal, record.id)
            observer.step_started(1, 1, record.step)
            resumed = _ResumedMove(record, moving, options, observer, clock, checkpoint)
            messages.append(resumed.reconcile())
            observer.waiting(messages[-1])
    return tuple(messages)


@dataclass(frozen=True, slots=True)
class _ResumedMove:
    """One move that was killed, and what is needed to reconcile it."""

    record: StepRecord
    moving: Moving
    options: Options
    observer: Observer
    clock: Clock
    checkpoint: Callable[[str], None]

    def reconcile(self) -> str:
        """Finish it or give it up; returns which, as text."""
        target = self.moving.move.target
        unmounted = self._unmounted()
        if self.moving.must_go_on() or (self.options.restart and not unmounted):
            left = self._complete()
            message = f"completed the interrupted move of pg_wal to {target}"
        else:
            is_copy_seen = os.path.lexists(self.moving.move.staging)
            left = self._abandon()
            self.moving.journal.finished(self.record.id, self._was, note=kept(left) or "given up")
            message = f"gave up the interrupted move of pg_wal to {target}; it is in "
            message += f"{self.moving.move.source} as before"
            if unmounted:
                message += f"; {unmounted} is not mounted"
            if unmounted and not is_copy_seen:
                message += ", and what was copied to it is still on it"
        return f"{message} ({kept(left)})" if left else message

    def _abandon(self) -> tuple[str, ...]:
        """Put everything back; an error says how far that got."""
        try:
            return self.moving.abandon()
        except BaseException as error:
            add_outcome(error, where_it_is(self.moving))
            raise

    @property
    def _was(self) -> StepStatus:
        return "done" if self.record.status == "undoing" else "failed"

    def _unmounted(self) -> str:
        """The mount of the volume it goes to, where nothing is mounted (any more)."""
        step, move = self.record.step, self.moving.move
        arguments = step.undo_arguments if self.record.status == "undoing" else step.arguments
        mount = dict(arguments).get("mount", "")
        if not mount or move.is_inward or self.options.plain_directories:
            return ""
        return "" if os.path.ismount(mount) else mount

    def _complete(self) -> tuple[str, ...]:
        record, moving, journal = self.record, self.moving, self.moving.journal
        try:
            if not moving.ran_on_copy():
                moving = self._copy_ahead()
            left = moving.complete()
        except BaseException as error:
            put_back(moving, error)
            text = str(error) or type(error).__name__
            journal.finished(record.id, self._was, note=f"put back: {text}")
            raise
        journal.finished(
            record.id,
            "undone" if record.status == "undoing" else "done",
            bytes=record.step.bytes,
            note=kept(left) or "completed after an interruption",
        )
        return left

    def _copy_ahead(self) -> Moving:
        """Copy what is missing while the server runs, so that it is down for the remainder only.

        One that somebody has stopped is copied as it is. The new copy's time counts only when the
        copy is whole: until then a file may still be as the killed one found it, half written.
        """
        moving, move = self.moving, self.moving.move
        if moving.is_switched() or not (os.path.lexists(move.link) and moving.is_server_up()):
            return moving
        check_space(move, kept_bytes=moving.copy.kept_bytes())
        began_at = self.clock.time()
        advanced = progress(self.observer, move)
        moving.first_copy(advanced, unchanged_before=move.stable_before)
        move = replace(move, started_at=began_at)
        moving.journal.remember(self.record.id, {WAL: asdict(move)})
        self.checkpoint(move.identifier)
        return replace(moving, move=move)
