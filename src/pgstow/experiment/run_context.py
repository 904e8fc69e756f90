"""What whoever runs trials hears of them, and how he ends them."""

import threading
import time
from collections.abc import Callable

from pgstow.model.errors import PgstowError
from pgstow.units import format_duration

_POLL_S = 0.2


class StoppedError(PgstowError):
    """A trial was told to end before its time."""


class RunContext:
    """Told what is being done, several times a second; asked whether to go on."""

    def __init__(
        self, say: Callable[[str], None] | None = None, stopping: threading.Event | None = None
    ) -> None:
        self._say = say
        self._stopping = stopping or threading.Event()

    def named(self, name: str) -> "RunContext":
        """The same, for one of several: it says which one speaks."""
        return RunContext(lambda what: self.say(f"{name}: {what}"), self._stopping)

    def say(self, what: str) -> None:
        """Tell what is being done; raise where it is to end."""
        if self._stopping.is_set():
            raise StoppedError("the run was stopped", "run it again: it goes on from there")
        if self._say is not None:
            self._say(what)

    def progress(self, what: str) -> Callable[[float, float], None]:
        """Hears how much is done, of how much in all, and tells it with the time left."""
        began_s = time.monotonic()

        def hear(done: float, total: float) -> None:
            if not 0 < done < total:
                self.say(what)
                return
            left_s = (time.monotonic() - began_s) * (total / done - 1)
            self.say(f"{what} ({done / total:.0%}, {format_duration(left_s)} left)")

        return hear

    def pause(self, what: str) -> None:
        """Wait a moment for what only others can bring about."""
        self.say(what)
        self._stopping.wait(_POLL_S)

    def sleep(self, seconds: float, what: str) -> None:
        """Let time pass."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.say(what)
            self._stopping.wait(min(_POLL_S, left_s))
        self.say(what)

    def stop(self) -> None:
        """Have every trial end at once and clear up."""
        self._stopping.set()
