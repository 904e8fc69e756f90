"""sysbench's OLTP tests as workloads, where it is installed: ``sysbench:oltp_read_write``.

Its transactions are logged as pgbench's are, by a script around its own. It takes a connection a
thread, so ``threads`` has no meaning; keys are drawn uniformly.
"""

import math
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from pgstow.experiment.generator import Progress
from pgstow.experiment.workloads import options
from pgstow.experiment.workloads.endpoint import Endpoint
from pgstow.experiment.workloads.outcome import outcome_of_logs
from pgstow.experiment.workloads.program_run import (
    RunningProgram,
    check_choice,
    refuse_present,
    run_to_end,
    vacuum,
)
from pgstow.host import open_files, programs
from pgstow.host.background import BackgroundProgram
from pgstow.model.errors import ServerError, UserError
from pgstow.model.experiment import DataChoice, Outcome, WorkloadChoice

TESTS = (
    "oltp_read_write",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
)
ROWS_PER_SCALE = 100_000  # of each table
_OTHER_FILES = 64
_VARIABLES = (
    "delete_inserts",
    "distinct_ranges",
    "index_updates",
    "non_index_updates",
    "order_ranges",
    "point_selects",
    "range_size",
    "simple_ranges",
    "sum_ranges",
)


@dataclass(frozen=True, slots=True)
class Sysbench:
    """One of sysbench's tests on its tables."""

    program: ClassVar[str] = "sysbench"
    test: str
    choice: WorkloadChoice
    rows: int
    tables: int

    @classmethod
    def of(cls, choice: WorkloadChoice, data: DataChoice) -> "Sysbench":
        """The generator of a choice; UserError where there is no such test or data."""
        check_choice(choice, data, cls.program)
        test = choice.name.partition(":")[2]
        if test not in TESTS:
            raise UserError(
                f"sysbench has no test {test!r}", f"use sysbench:NAME with {', '.join(TESTS)}"
            )
        names = [name for name, _ in choice.variables]
        options.refuse_unknown(f"workload {choice.name}", names, _VARIABLES, "variable")
        names = [name for name, _ in data.options]
        options.refuse_unknown("data of sysbench", names, ("tables",), "option")
        tables = options.whole_number(data, "tables", 1, least=1, most=10_000)
        return cls(test, choice, data.scale * ROWS_PER_SCALE, tables)

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program

    def version(self) -> str:
        """sysbench and its version."""
        return programs.run([self.program, "--version"], timeout_s=10).strip()

    def check(self) -> None:
        """Raise HostError where sysbench is missing."""
        programs.require(self.program)

    def load(self, dsn: str, progress: Progress | None = None) -> None:
        """Make the tables in the empty database that ``dsn`` names."""
        refuse_present(dsn)
        endpoint = Endpoint.of(dsn)
        command = [*self.command(endpoint), "--threads=2", self.test, "prepare"]
        run_to_end(command, endpoint.environment, "loading sysbench's tables")
        vacuum(dsn)
        if progress is not None:
            progress(1, 1)

    def start(
        self,
        dsn: str,
        *,
        duration_s: float,
        log_directory: Path,
        seed: int,
        progress: Progress | None = None,
    ) -> RunningProgram:
        """Begin to send the load."""
        open_files.allow(2 * self.choice.clients + _OTHER_FILES)  # connections and logs
        log_directory.mkdir(parents=True, exist_ok=True)
        prefix = log_directory.absolute() / "transactions"
        for stale in prefix.parent.glob(f"{prefix.name}.*"):
            stale.unlink()
        endpoint = Endpoint.of(dsn)
        environment = endpoint.environment | self.logging(prefix)
        script = str(files("pgstow").joinpath("data/workloads/sysbench_log.lua"))
        command = [
            *self.command(endpoint),
            *(f"--{name}={value}" for name, value in self.choice.variables),
            f"--threads={self.choice.clients}",
            f"--time={math.ceil(duration_s)}",
            f"--rand-seed={seed}",
            script,
            "run",
        ]
        return RunningProgram(
            BackgroundProgram(command, environment=environment),
            name=self.choice.name,
            duration_s=duration_s,
            stop=prefix.with_name(f"{prefix.name}.stop").touch,
            outcome=partial(_outcome, prefix, self.choice.name),
            progress=progress,
        )

    def command(self, endpoint: Endpoint) -> list[str]:
        """Arguments of both loading and running; a password goes through the environment."""
        return [
            programs.require(self.program),
            "--db-driver=pgsql",
            f"--pgsql-host={endpoint.host}",
            f"--pgsql-port={endpoint.port}",
            f"--pgsql-user={endpoint.user}",
            f"--pgsql-db={endpoint.database}",
            f"--tables={self.tables}",
            f"--table_size={self.rows}",
            "--rand-type=uniform",
        ]

    def logging(self, prefix: Path) -> dict[str, str]:
        """Arguments of the script around the test."""
        return {"PGSTOW_SYSBENCH_LOG": str(prefix), "PGSTOW_SYSBENCH_TEST": self.test}


def _outcome(prefix: Path, name: str, began_at: float | None, ended_at: float | None) -> Outcome:
    logs = [path for path in prefix.parent.glob(f"{prefix.name}.*") if path.suffix[1:].isdigit()]
    found = outcome_of_logs(logs, (name,), began_at, ended_at)
    if found is None:
        raise ServerError(f"workload {name} finished no transaction: it was stopped too early")
    return found
