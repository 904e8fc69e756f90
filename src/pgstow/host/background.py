"""A program that runs beside us: its lines as they come, its end by its own identity."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstow.host import processes, programs
from pgstow.model.errors import HostError

_KILL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, with all that it wrote."""

    status: int
    output: str
    errors: str


class BackgroundProgram:
    """A running program. As a context manager it is ended on the way out, if it still runs."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        on_error_line: Callable[[str], None] | None = None,
        on_output_line: Callable[[str], None] | None = None,
    ) -> None:
        self.arguments = tuple(arguments)
        self._on_output_line = on_output_line
        self._on_error_line = on_error_line
        self._output: list[str] = []
        self._errors: list[str] = []
        try:
            # A session of its own: Ctrl-C is ours to handle, and the program is ended in order.
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"LC_ALL": "C"} | dict(environment or {}),
                cwd=directory,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            name = self.arguments[0]
            reason = error.strerror or str(error)
            raise HostError(f"{name} did not start: {reason}", programs.remedy(name)) from error
        self.identity = processes.identify(self._process.pid)
        self._readers = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> Ended | None:
        """Wait for its end; None: it still runs after that time."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join()
        return Ended(status, "".join(self._output), "".join(self._errors))

    def kill(self) -> None:
        """End it at once."""
        if self.is_running:
            self._process.kill()
            self.wait(_KILL_TIMEOUT_S)

    def __enter__(self) -> "BackgroundProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._output.append(line)
                if self._on_output_line is not None:
                    self._on_output_line(line)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._errors.append(line)
                if self._on_error_line is not None:
                    self._on_error_line(line)
