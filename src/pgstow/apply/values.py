"""The options of apply, what it reports while it runs, and its result."""

from dataclasses import dataclass, field

from pgstow.model import Step, Warning
from pgstow.model.result import StepStatus


@dataclass(frozen=True, slots=True)
class Options:
    """How long apply waits for locks, and what it may do.

    ``lock_timeout_s`` is how long one attempt may wait for a lock (others queue behind it),
    ``lock_wait_s`` how long attempts go on in all. ``restart``: the server may be restarted.
    ``plain_directories``: volumes' mounts may be plain directories, with nothing mounted on them.
    """

    lock_timeout_s: float = 0.5
    lock_wait_s: float = 600.0
    restart: bool = False
    plain_directories: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one step ended."""

    step: Step
    status: StepStatus
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended; ``run`` is its number in the journal."""

    run: int
    outcomes: tuple[Outcome, ...]
    warnings: tuple[Warning, ...] = field(default=())

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The steps that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def skipped(self) -> tuple[Outcome, ...]:
        """The steps that were not executed; their notes say why."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "skipped")


class Observer:
    """Callbacks for progress; these do nothing."""

    def step_started(self, position: int, total: int, step: Step) -> None:
        """Step ``position`` of ``total`` (from 1) begins."""

    def advanced(self, done_bytes: float, total_bytes: float) -> None:
        """The current step has done so many bytes."""

    def waiting(self, text: str) -> None:
        """What the current step waits for; empty: it waits no longer."""

    def step_finished(self, outcome: Outcome) -> None:
        """The current step has ended."""
