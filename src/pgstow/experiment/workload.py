"""A workload as a value: weighted scripts and their variables; and what a run of it gave."""

from dataclasses import dataclass
from pathlib import Path

from pgstow.model.errors import UserError


@dataclass(frozen=True, slots=True)
class Script:
    """One kind of transaction: a pgbench script, chosen in proportion to its weight."""

    name: str
    path: Path
    weight: int

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise UserError(f"script {self.name}: weight must be at least 1, not {self.weight}")


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Scripts and the variables they use (``-D``); how many clients unless a run says otherwise."""

    name: str
    scripts: tuple[Script, ...]
    variables: tuple[tuple[str, int], ...] = ()
    clients: int = 16
    threads: int = 2

    def __post_init__(self) -> None:
        if not self.scripts:
            raise UserError(f"workload {self.name} has no scripts", "name at least one")
        names = [script.name for script in self.scripts]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"workload {self.name} has script {name!r} twice")

    @property
    def total_weight(self) -> int:
        """What the scripts' weights are shares of."""
        return sum(script.weight for script in self.scripts)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies of transactions in milliseconds; None where there were none."""

    count: int
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What one script's transactions did."""

    name: str
    weight: int
    transactions: int
    failed: int
    skipped: int
    tps: float
    latency: LatencySummary


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """What a run, or a part of it, did. ``tps_samples`` are of each whole second.

    ``failed`` transactions were rolled back by the server (deadlocks, serialization); an
    ``interruption`` is why clients gave up, as when the server was restarted under them.
    """

    workload: str
    began_at: float  # seconds since the epoch
    seconds: float
    clients: int
    transactions: int
    tps: float
    tps_samples: tuple[float, ...]
    latency: LatencySummary
    scripts: tuple[ScriptResult, ...]
    failed: int
    skipped: int
    command: tuple[str, ...]
    version: str
    interruptions: tuple[str, ...] = ()
    reported_tps: float | None = None  # pgbench's own figure, of a run in one piece

    def script(self, name: str) -> ScriptResult:
        """The result of the script of that name."""
        return next(script for script in self.scripts if script.name == name)
