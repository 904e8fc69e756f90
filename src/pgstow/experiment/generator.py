"""What makes an experiment's tables and puts them under load, whatever program does it."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from pgstow.model.experiment import Outcome

Progress = Callable[[float, float], None]


class Running(Protocol):
    """A load under way. As a context manager it is killed on the way out, if it still runs."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def pids(self) -> tuple[int, ...]:
        """The load generator's processes."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        ...

    def stop(self) -> None:
        """Let the transactions under way end, and the program with them."""
        ...

    def outcome(self, began_at: float | None = None, ended_at: float | None = None) -> Outcome:
        """The outcome, after its end; of the part between two times (``time.time()``) if given."""
        ...


class Generator(Protocol):
    """A program that makes tables and puts them under load."""

    @property
    def name(self) -> str:
        """Its name, such as "pgbench"."""
        ...

    def version(self) -> str:
        """The program's name and version, as it says them."""
        ...

    def check(self) -> None:
        """Raise HostError, with the remedy, where the program is missing."""
        ...

    def load(self, dsn: str, progress: Progress | None = None) -> None:
        """Make the tables in the empty database that ``dsn`` names."""
        ...

    def start(
        self,
        dsn: str,
        *,
        duration_s: float,
        log_directory: Path,
        seed: int,
        progress: Progress | None = None,
    ) -> Running:
        """Put the tables under load, in the background."""
        ...
