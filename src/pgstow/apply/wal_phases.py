"""The phases of a move of pg_wal, each of which can be run again, and the way back.

How far a move got is read from the files themselves. Until the server has been started on the
new directory the old one is whole and the move can be given up; from then on it can only be
completed. Nothing is removed but what the copy's own list says that it wrote, or copied.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstow.apply.world import Postmasters
from pgstow.host import directories
from pgstow.host.copies import Copy
from pgstow.host.disk import Disk, disk_errors
from pgstow.host.postmaster import Postmaster
from pgstow.model import HostError
from pgstow.workspace.journal import Journal

Hook = Callable[[str], None]
# Among a step's facts: whether it has begun to stop the server, and to start it on the copy.
STOPPED = "stopped"
STARTING = "starting"
_STABLE_S = 10.0  # a file older than this when a copy began, and unchanged since, is copied


@dataclass(frozen=True, slots=True)
class Move:
    """One move of pg_wal: from ``source`` to ``target``, which may be inside the data directory."""

    server: Postmaster
    identifier: str
    link: str  # the name pg_wal in the data directory
    source: str  # where the files are, a real path
    target: str
    started_at: float  # when the last whole copy began that was made beside the server
    token: str  # of its copy
    made: tuple[str, ...]  # directories it was to make

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

    @property
    def owner(self) -> tuple[int, int]:
        """Who the files belong to."""
        return self.server.uid, self.server.gid

    @property
    def stable_before(self) -> float:
        """What was last written before this, and is as its copy, was copied at rest."""
        return self.started_at - _STABLE_S

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Move":
        """Read one back from the journal."""
        server = dict(plain["server"])
        for name in ("options", "cgroups", "unit"):
            server[name] = tuple(server[name])
        # An older version wrote neither: without a list none of its copy is known to be ours.
        known = {"token": "", "made": ()} | plain
        return cls(**(known | {"server": Postmaster(**server), "made": tuple(known["made"])}))


@dataclass(frozen=True, slots=True)
class Moving:
    """A move under way: its phases, each of which may be run again, and the way back."""

    move: Move
    disk: Disk
    postmasters: Postmasters
    journal: Journal
    step_id: int
    hook: Hook = lambda _: None

    @property
    def copy(self) -> Copy:
        """The copy, wherever it is by now: staged, or called pg_wal already."""
        at = Path(self.move.link) if self.is_switched() else self.move.staging
        return Copy(Path(self.move.source), at, self.move.token, self.disk)

    def first_copy(self, advanced: Callable[[int], None], *, unchanged_before: float = 0.0) -> None:
        """Copy while the server runs, so that it is down only for what changes meanwhile.

        ``unchanged_before`` is for a resumed copy: see :class:`Copy`.
        """
        staging, data = str(self.move.staging), self.move.server.data_directory
        directories.make_directory(staging, data, self.disk)
        self.copy.update(advanced, unchanged_before=unchanged_before)

    def complete(self) -> tuple[str, ...]:
        """Go through all phases; those that were gone through before do nothing.

        Gives the files that were left where pg_wal was, since they are not its own.
        """
        phases: tuple[tuple[str, Callable[[], None]], ...] = (
            ("stop", self._stop),
            ("copy", self._last_copy),
            ("switch", self._switch),
            ("start", self._start),
        )
        for name, phase in phases if not self.ran_on_copy() else phases[3:]:
            self.hook(f"before {name}")
            with disk_errors(f"pg_wal cannot be moved ({name})"):
                phase()
            self.hook(f"after {name}")
        self.hook("before clean")
        with disk_errors("the old pg_wal cannot be removed"):
            left = self._clean()
        self.hook("after clean")
        return left

    def abandon(self) -> tuple[str, ...]:
        """Put everything back as it was, the server first; only before it ran on the copy.

        Gives the files in the copy's directory that are someone else's: they stay.
        """
        if self.ran_on_copy():
            raise HostError("the server has written to the new pg_wal", "run apply --restart")
        with disk_errors(f"{self.move.link} cannot be put back"):
            self._switch_back()
        if self.journal.facts(self.step_id).get(STOPPED):
            self.postmasters.start(self.move.server)
        left = self.copy.remove()
        inside = (str(self.move.staging),) if self.move.is_inward else ()
        directories.remove_directories((*self.move.made, *inside), self.disk)
        return left

    def is_switched(self) -> bool:
        """Whether the name pg_wal stands for the copy."""
        link = Path(self.move.link)
        if self.move.is_inward:  # before, it was a link
            return link.is_dir() and not link.is_symlink()
        return link.is_symlink() and os.path.realpath(link) == os.path.realpath(self.move.target)

    def must_go_on(self) -> bool:
        """Whether the move can only be completed; to be asked before it is given up.

        A start whose client was cut off may go on by itself, and bring the server up on the copy
        while the old pg_wal is being put back: it is seen to its end first.
        """
        if self.ran_on_copy():
            return True
        if not (self.is_switched() and self.journal.facts(self.step_id).get(STARTING)):
            return False
        with suppress(HostError):  # it does not start there
            self._start()
        return self.ran_on_copy()

    def ran_on_copy(self) -> bool:
        """Whether the server has been started on the copy, by whomever: then only it is good.

        Read from the files, since any start writes to the WAL: the copies have the times of what
        they were copied from. While they are looked at, somebody may start it.
        """
        if not self.is_switched():
            return False
        if not os.path.lexists(self.move.aside):
            return True  # the old one is being removed already
        if self.is_server_up():
            return True
        copy = self.copy
        with disk_errors(f"{copy.list_file} cannot be read"):
            is_there = copy.is_there()
        if self.move.token and not is_there:
            raise HostError(
                f"{self.move.link} leads to {self.move.target}, where the copy is not (any more)",
                "mount its volume, then run apply again",
            )
        with disk_errors(f"{self.move.link} cannot be looked at"):
            self._check_old()
            is_other = copy.listing(self.old()) != copy.listing(Path(self.move.link).resolve())
        return is_other or self.is_server_up()

    def is_server_up(self) -> bool:
        """Whether the server runs, by whomever it was started."""
        return self.postmasters.running_pid(self.move.server.data_directory) is not None

    def old(self) -> Path:
        """Where the old files are after the switch."""
        aside = self.move.aside
        return Path(self.move.source) if aside.is_symlink() else aside

    def _check_old(self) -> None:
        """Without the old files nobody can tell what became of them."""
        if not self.old().is_dir():
            raise HostError(
                f"{self.old()}, where the old pg_wal is, is not there: its volume must be mounted",
                "mount it, then run apply again",
            )

    def _stop(self) -> None:
        self.journal.remember(self.step_id, {STOPPED: True})
        try:
            self.postmasters.stop(self.move.server)
        except KeyboardInterrupt:
            # The stop may go on without its client, and would end a server that is found running.
            self.postmasters.stop(self.move.server)
            raise

    def _start(self) -> None:
        self.journal.remember(self.step_id, {STARTING: True})
        try:
            self.postmasters.start(self.move.server)
        except HostError:  # seen to its end
            self.journal.remember(self.step_id, {STARTING: False})
            raise

    def _last_copy(self) -> None:
        if self.is_switched() or not os.path.lexists(self.move.link):
            return  # the copy was complete when the old name was put aside
        if self.is_server_up():
            raise HostError("the server was started by someone else meanwhile", "run apply again")
        copy = self.copy
        copy.update(lambda _: None, unchanged_before=self.move.stable_before)
        if copy.listing(Path(self.move.source)) != copy.listing(self.move.staging):
            raise HostError(
                f"{self.move.staging} is not a true copy of {self.move.source}", "run apply again"
            )
        copy.list_source()
        self.disk.sync(self.move.staging.parent)

    def _switch(self) -> None:
        """Give the name pg_wal to the copy; the old keeps its contents under another name."""
        link = Path(self.move.link)
        if self.is_switched():
            return
        if os.path.lexists(link):
            self.disk.rename(link, self.move.aside)
        self.hook("between renames")
        if self.move.is_inward:
            self.disk.rename(self.move.staging, link)
        else:
            self.disk.link(link, self.move.target, self.move.owner)

    def _switch_back(self) -> None:
        link, aside = Path(self.move.link), self.move.aside
        if self.is_switched():
            if self.move.is_inward:
                self.disk.rename(link, self.move.staging)
            else:
                self.disk.remove_file(link)
        if not os.path.lexists(link) and os.path.lexists(aside):
            self.disk.rename(aside, link)

    def _clean(self) -> tuple[str, ...]:
        """Remove the old files: the server runs on the new ones."""
        if not self.is_server_up():
            raise HostError("the server did not start on the moved pg_wal", "see its log")
        old, in_use = self.old(), os.path.realpath(self.move.link)
        if not self.is_switched() or os.path.realpath(old) == in_use:
            raise HostError(
                f"{self.move.link} is not the new pg_wal: the old one stays", "check it by hand"
            )
        copy = self.copy
        left: tuple[str, ...] = ()
        if os.path.lexists(self.move.aside):
            self._check_old()
            left = copy.remove_source(old)
            if self.move.aside.is_symlink():
                self.disk.remove_file(self.move.aside)
            elif not left:
                directories.remove_directories((str(old),), self.disk)
        known = self.journal.made_directories(self.move.identifier)
        made = tuple(d for d in known if f"{self.move.source}/".startswith(f"{d}/"))
        directories.remove_directories(made, self.disk)
        copy.finish()
        return left
