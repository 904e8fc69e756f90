"""A load generator that is not pgbench, as it runs: its end, and what to do where it fails."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from pgstow.experiment.generator import Progress
from pgstow.host.background import BackgroundProgram, Ended
from pgstow.model.errors import ServerError, UserError
from pgstow.model.experiment import DataChoice, Outcome, WorkloadChoice
from pgstow.postgres import connect
from pgstow.postgres.connect import server_errors

OutcomeOf = Callable[[float | None, float | None], Outcome]
_TIMEOUT_S = 120.0  # for the last transactions to end
_LONGEST_S = 7 * 86400.0
_TELL_S = 0.5


class RunningProgram:
    """A program that sends a load. As a context manager it is killed on the way out.

    ``stop`` asks it to end; ``outcome`` reads its output.
    """

    def __init__(
        self,
        program: BackgroundProgram,
        *,
        name: str,
        duration_s: float,
        stop: Callable[[], None],
        outcome: OutcomeOf,
        progress: Progress | None,
    ) -> None:
        self._program = program
        self._name = name
        self._duration_s = duration_s
        self._stop = stop
        self._outcome = outcome
        self._began = time.monotonic()
        self._stopped = False
        self._ended: Ended | None = None
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(progress,), daemon=True)
        self._watcher.start()

    def pids(self) -> tuple[int, ...]:
        """The processes that send the load now."""
        return (self._program.pid,) if self._program.is_running else ()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        return self._done.wait(timeout_s)

    def stop(self) -> None:
        """Let the transactions under way end, and the load with them."""
        self._stopped = True
        self._stop()
        if not self.wait(_TIMEOUT_S):
            self._program.kill()
            self.wait(_TIMEOUT_S)

    def outcome(self, began_at: float | None = None, ended_at: float | None = None) -> Outcome:
        """The outcome, after its end; of the part between two times (``time.time()``) if given."""
        if not self._done.is_set():
            raise AssertionError("the workload still runs: stop() or wait() first")
        if self._ended is None:
            raise ServerError(f"{self._name} did not end in time", "see whether the server hangs")
        if self._ended.status != 0 and not self._stopped:
            raise ServerError(f"{self._name} failed: {complaint(self._ended)}")
        return self._outcome(began_at, ended_at)

    def __enter__(self) -> "RunningProgram":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done.is_set():
            self._stopped = True
            self._program.kill()
            self.wait(_TIMEOUT_S)

    def _watch(self, progress: Progress | None) -> None:
        while self._ended is None:
            past_s = time.monotonic() - self._began
            if past_s > self._duration_s + _TIMEOUT_S:
                self._program.kill()
                break
            self._ended = self._program.wait(_TELL_S)
            if progress is not None:
                progress(min(past_s, self._duration_s), self._duration_s)
        self._done.set()


def run_to_end(command: Sequence[str], environment: Mapping[str, str], what: str) -> None:
    """Run a program that may take hours; ServerError where it fails."""
    with BackgroundProgram(command, environment=environment) as program:
        ended = program.wait(_LONGEST_S)
    if ended is None or ended.status != 0:
        reason = "it did not end" if ended is None else complaint(ended)
        raise ServerError(f"{what} failed: {reason}")


def vacuum(dsn: str) -> None:
    """Freeze and analyse what was loaded."""
    with connect(dsn, purpose="experiment") as connection, server_errors("VACUUM"):
        connection.execute("VACUUM (FREEZE, ANALYZE)")


def refuse_present(dsn: str) -> None:
    """Raise UserError where the database has tables already."""
    with connect(dsn, purpose="experiment") as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p') ORDER BY 1"
        ).fetchone()
        if found is not None:
            raise UserError(
                f"relation {found[0]} is in database {connection.info.dbname} already",
                "load into an empty database",
            )


def check_choice(choice: WorkloadChoice, data: DataChoice, program: str) -> None:
    """Raise UserError for what only pgbench can do, and for another program's data."""
    if data.maker != program:
        raise UserError(
            f"workload {choice.name} needs data of {program}, not {data.maker}",
            "give it that data, or another workload",
        )
    if choice.rate_per_s is not None or choice.latency_limit_ms is not None:
        raise UserError(
            f"workload {choice.name} cannot be sent at a rate", "use a workload of pgbench's"
        )
    if choice.transactions is not None or choice.sampling_rate < 1:
        key = "transactions" if choice.transactions is not None else "sampling_rate"
        raise UserError(
            f"workload {choice.name} has no option {key}", "use a workload of pgbench's"
        )


def complaint(ended: Ended) -> str:
    """The line that says why a program gave up."""
    lines = [line.strip() for line in (ended.errors + "\n" + ended.output).splitlines()]
    errors = [line for line in lines if "FATAL" in line or "err" in line.lower()]
    return (errors or [f"it ended with status {ended.status}"])[0]
