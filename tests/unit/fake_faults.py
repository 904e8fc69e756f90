"""What may go wrong at an effect, by a seed or by its number: errors, losses, kills, Ctrl-C."""

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pgstow.host.disk import Disk
from pgstow.workspace.journal import Journal

T = TypeVar("T")
KINDS = (
    "kill before",
    "kill during",
    "kill after",
    "interrupt before",
    "interrupt after",
    "error before",  # the effect is lost
    "error after",  # it took effect, and is reported as failed
    "full",
    "lock",
    "crash before",  # of the server, so that it recovers
    "crash after",
    "lock lost",  # somebody ends the session that keeps a second apply out
    "foreign",
)


class Killed(BaseException):
    """kill -9: whoever catches it finds that nothing has an effect any more."""


class Faults:
    """Which effect of a process suffers what; after a kill no effect is left to have."""

    def __init__(self, at: dict[int, str] | None = None) -> None:
        self.at = at or {}
        self.count = 0
        self.is_dead = False
        self.is_quiet = False  # the effect happens inside another
        self.happened: list[str] = []
        self.foreign: Callable[[], None] = lambda: None
        self.crash: Callable[[], None] = lambda: None
        self.lose_lock: Callable[[], None] = lambda: None

    def effect(
        self,
        name: str,
        do: Callable[[], T],
        error: Callable[[str], Exception] | None = None,
        half: Callable[[], None] | None = None,
    ) -> T:
        """Have an effect, or not. ``error`` makes the error of a kind; None: it cannot fail so."""
        if self.is_dead:
            raise Killed
        if self.is_quiet:
            return do()
        self.count += 1
        kind = self.at.get(self.count)
        if kind is None:
            return do()
        self.happened.append(f"{self.count}: {kind}: {name}")
        if kind == "foreign" and name.startswith("unlink"):
            done = do()  # between the last look at a file and its removal nobody can stand guard
            self.foreign()
            return done
        if kind in ("foreign", "lock lost"):
            (self.foreign if kind == "foreign" else self.lose_lock)()
            return do()
        return self._suffer(kind, do, error, half)

    def _suffer(
        self,
        kind: str,
        do: Callable[[], T],
        error: Callable[[str], Exception] | None,
        half: Callable[[], None] | None,
    ) -> T:
        what, _, when = kind.partition(" ")
        if what == "kill":
            if when == "during" and half is not None:
                half()
            if when == "after":
                do()
            self.is_dead = True
            raise Killed
        if what == "interrupt":
            if when == "after":
                do()
            raise KeyboardInterrupt
        if error is None:
            return do()
        if when == "after":
            do()
        if what == "crash":
            self.crash()
        raise error(what)


class FaultyDisk(Disk):
    """The real effects on files, each of which may go wrong; nothing waits for a device."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    def make_directory(self, path: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
        self._do(f"mkdir {path.name}", lambda: Disk.make_directory(self, path, mode, owner))

    def append(self, path: Path, text: str, owner: tuple[int, int] | None = None) -> None:
        self._do(
            f"append to {path.name}",
            lambda: Disk.append(self, path, text, owner),
            lambda: Disk.append(self, path, text[: len(text) // 2], owner),
        )

    def copy(self, source: Path, target: Path, advanced: Callable[[int], None]) -> None:
        def half() -> None:
            data = source.read_bytes()
            target.write_bytes(data[: len(data) // 2])

        self._do(f"copy {target.name}", lambda: Disk.copy(self, source, target, advanced), half)

    def dress(self, path: Path, like: os.stat_result) -> None:
        Disk.dress(self, path, like)

    def publish(self, source: Path, target: Path) -> None:
        self._do(f"publish {target.name}", lambda: Disk.publish(self, source, target))

    def rename(self, source: Path, target: Path) -> None:
        self._do(f"rename {source.name}", lambda: Disk.rename(self, source, target))

    def link(self, path: Path, target: str, owner: tuple[int, int] | None = None) -> None:
        self._do(f"link {path.name}", lambda: Disk.link(self, path, target, owner))

    def remove_file(self, path: Path) -> None:
        self._do(f"unlink {path.name}", lambda: Disk.remove_file(self, path))

    def remove_directory(self, path: Path) -> None:
        self._do(f"rmdir {path.name}", lambda: Disk.remove_directory(self, path))

    def sync(self, directory: Path) -> None:
        directory.stat()

    def _fsync(self, descriptor: int) -> None:
        pass

    def _do(
        self, name: str, do: Callable[[], None], half: Callable[[], None] | None = None
    ) -> None:
        self.faults.effect(name, do, _disk_error, half)


def _disk_error(kind: str) -> OSError:
    number = errno.ENOSPC if kind == "full" else errno.EIO
    return OSError(number, os.strerror(number))


class FaultyJournal(Journal):
    """The real journal, at whose writes a process may end."""

    faults = Faults()

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.touched: list[object] = []  # steps by their last change of status, the last one last

    def _write(self, statement: str, *values: object) -> int:
        def do() -> int:
            if statement.startswith("UPDATE apply_step SET status = ?"):
                self.touched = [*(id for id in self.touched if id != values[-1]), values[-1]]
            return Journal._write(self, statement, *values)

        return self.faults.effect(f"journal: {' '.join(statement.split()[:4])}", do)


def drawn(random_source: random.Random, effects: int, most: int = 3) -> dict[int, str]:
    """Faults at some of a process's effects."""
    count = random_source.randint(0, most)
    return {random_source.randint(1, effects): random_source.choice(KINDS) for _ in range(count)}
