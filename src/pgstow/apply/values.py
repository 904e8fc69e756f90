"""What apply is told, what it tells while it works, and what it gives back."""

from dataclasses import dataclass, field

from pgstow.model import Step, Warning
from pgstow.workspace.journal import StepStatus


@dataclass(frozen=True, slots=True)
class Options:
    """How patient and how free apply is.

    ``lock_timeout_s`` is how long one attempt may queue for a lock that blocks others (they queue
    behind it), ``lock_wait_s`` how long to go on attempting. ``plain_directories`` takes a volume's
    mount as a mere directory, where no volume is meant to be mounted.
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
        """The steps that were not taken, each with its reason."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "skipped")


class Observer:
    """Who watches; this one sees nothing."""

    def step_started(self, position: int, total: int, step: Step) -> None:
        """Step ``position`` of ``total`` (from 1) begins."""

    def advanced(self, done_bytes: float, total_bytes: float) -> None:
        """The present step has got so far."""

    def waiting(self, text: str) -> None:
        """The present step waits, and for what; empty: no longer."""

    def step_finished(self, outcome: Outcome) -> None:
        """The present step has ended."""
