"""How trials report what they do, and how they are stopped."""

import threading
import time
from collections.abc import Callable

from pgstow.model.errors import PgstowError
from pgstow.units import format_duration

_POLL_S = 0.2


class StoppedError(PgstowError):
    """A trial was asked to stop early."""


class RunContext:
    """Passes on what is being done, several times a second, and says whether to go on."""

    def __init__(
        self, report: Callable[[str], None] | None = None, stopping: threading.Event | None = None
    ) -> None:
        self._report = report
        self._stopping = stopping or threading.Event()

    def named(self, name: str) -> "RunContext":
        """The same for one of several: its name comes before each report."""
        return RunContext(lambda what: self.report(f"{name}: {what}"), self._stopping)

    def report(self, what: str) -> None:
        """Report what is being done; raise if the run is to stop."""
        if self._stopping.is_set():
            raise StoppedError("the run was stopped", "run it again: it goes on from there")
        if self._report is not None:
            self._report(what)

    def progress(self, what: str) -> Callable[[float, float], None]:
        """A callback that is given how much is done, of how much, and reports the time left."""
        began_s = time.monotonic()

        def update(done: float, total: float) -> None:
            if not 0 < done < total:
                self.report(what)
                return
            left_s = (time.monotonic() - began_s) * (total / done - 1)
            self.report(f"{what} ({done / total:.0%}, {format_duration(left_s)} left)")

        return update

    def pause(self, what: str) -> None:
        """Wait a moment for what others have to do."""
        self.report(what)
        self._stopping.wait(_POLL_S)

    def sleep(self, seconds: float, what: str) -> None:
        """Sleep, and report meanwhile."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.report(what)
            self._stopping.wait(min(_POLL_S, left_s))
        self.report(what)

    def stop(self) -> None:
        """Make every trial end at once and clean up."""
        self._stopping.set()
