"""A pgbench workload as a value: weighted scripts, their variables, how many clients, what rate."""

from dataclasses import dataclass
from pathlib import Path

from pgstow.model.errors import UserError


@dataclass(frozen=True, slots=True)
class Script:
    """One kind of transaction, chosen in proportion to its weight.

    ``path`` of None: it is pgbench's built-in script of that name.
    """

    name: str
    path: Path | None
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise UserError(f"script {self.name}: weight must be at least 1, not {self.weight}")

    @property
    def option(self) -> str:
        """pgbench's arguments for it."""
        if self.path is None:
            return f"--builtin={self.name}@{self.weight}"
        return f"--file={self.path}@{self.weight}"


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Scripts and the variables they use (``-D``), and how they are sent.

    ``rate_per_s`` of None: each client sends its next transaction when the last one ended. With a
    rate, transactions later than ``latency_limit_ms`` are skipped (None: none is). With
    ``transactions`` each client sends that many, however long it takes.
    """

    name: str
    scripts: tuple[Script, ...]
    variables: tuple[tuple[str, int], ...] = ()
    clients: int = 16
    threads: int = 2
    rate_per_s: float | None = None
    latency_limit_ms: float | None = None
    transactions: int | None = None

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

    @property
    def script_names(self) -> tuple[str, ...]:
        """The scripts, in the order in which the log numbers them."""
        return tuple(script.name for script in self.scripts)
