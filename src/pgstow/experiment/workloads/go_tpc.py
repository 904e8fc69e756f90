"""go-tpc's TPC-C and TPC-H as workloads, where it is installed: ``go-tpc:tpcc``, ``go-tpc:tpch``.

It has no log and no seed: what it tells of each interval is put together (`go_tpc_output`).
"""

import math
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode

from pgstow.experiment.generator import Progress
from pgstow.experiment.workloads import options
from pgstow.experiment.workloads.endpoint import Endpoint
from pgstow.experiment.workloads.go_tpc_output import OutputLine, outcome_of
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

BENCHMARKS = {"tpcc": "--warehouses", "tpch": "--sf"}  # with the option for the scale
# A transaction of TPC-C is counted in its second; of TPC-H's queries it gives only means, so that
# an interval is to have no more than one of each.
_INTERVALS_S = {"tpcc": 1.0, "tpch": 0.1}
_TLS = {"PGSSLROOTCERT": "sslrootcert", "PGSSLCERT": "sslcert", "PGSSLKEY": "sslkey"}
_OTHER_FILES = 64


@dataclass(frozen=True, slots=True)
class GoTpc:
    """TPC-C or TPC-H; ``data`` is of as many warehouses, or of that scale factor."""

    program: ClassVar[str] = "go-tpc"
    benchmark: str
    choice: WorkloadChoice
    data: DataChoice

    @classmethod
    def of(cls, choice: WorkloadChoice, data: DataChoice) -> "GoTpc":
        """The generator of a choice; UserError where there is no such benchmark or data."""
        check_choice(choice, data, cls.program)
        benchmark = choice.name.partition(":")[2]
        known = ", ".join(f"go-tpc:{name}" for name in BENCHMARKS)
        if benchmark not in BENCHMARKS:
            raise UserError(f"there is no workload {choice.name}", f"use {known}")
        names = [name for name, _ in choice.variables]
        options.refuse_unknown(f"workload {choice.name}", names, (), "variable")
        names = [name for name, _ in data.options]
        options.refuse_unknown("data of go-tpc", names, ("benchmark",), "option")
        loaded = dict(data.options).get("benchmark", "tpcc")
        if loaded != benchmark:
            raise UserError(
                f"workload {choice.name} needs data of go-tpc with benchmark {benchmark},"
                f" not {loaded}",
                f'give the data the option benchmark = "{benchmark}"',
            )
        return cls(benchmark, choice, data)

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program

    def version(self) -> str:
        """go-tpc and its version."""
        output = programs.run([self.program, "version"], timeout_s=10)
        lines = dict(line.partition(":")[::2] for line in output.splitlines())
        release = lines.get("Release version", "").strip()
        commit = lines.get("Git Commit Hash", "").strip()
        return f"{self.program} {release or 'unknown'} ({commit or 'unknown'})"

    def check(self) -> None:
        """Raise HostError where go-tpc is missing."""
        programs.require(self.program)

    def load(self, dsn: str, progress: Progress | None = None) -> None:
        """Make the tables in the empty database that ``dsn`` names."""
        refuse_present(dsn)
        endpoint = Endpoint.of(dsn)
        command = [*self.command(endpoint), "prepare", "--threads=2"]
        if self.benchmark == "tpcc":
            command.append("--no-check")  # of the data, which takes longer than making it
        run_to_end(command, _environment(endpoint), f"loading go-tpc's {self.benchmark}")
        vacuum(dsn)
        if progress is not None:
            progress(1, 1)

    def start(
        self,
        dsn: str,
        *,
        duration_s: float,
        log_directory: Path,  # noqa: ARG002 go-tpc writes no log
        seed: int,  # noqa: ARG002 nor can its random numbers be chosen
        progress: Progress | None = None,
    ) -> RunningProgram:
        """Begin to send the load. go-tpc draws other random numbers each time."""
        open_files.allow(self.choice.clients + _OTHER_FILES)
        endpoint = Endpoint.of(dsn)
        interval_s = _INTERVALS_S[self.benchmark]
        command = [
            *self.command(endpoint),
            "run",
            f"--threads={self.choice.clients}",
            f"--time={math.ceil(duration_s)}s",
            f"--interval={interval_s:g}s",
            "--output=json",
        ]
        output: list[OutputLine] = []
        program = BackgroundProgram(
            command,
            environment=_environment(endpoint),
            on_output_line=lambda line: output.append((time.time(), line)),
        )

        def outcome(began_at: float | None, ended_at: float | None) -> Outcome:
            found = outcome_of(output, interval_s, began_at, ended_at)
            if found is None:
                raise ServerError(f"workload {self.choice.name} finished no transaction")
            return found

        return RunningProgram(
            program,
            name=self.choice.name,
            duration_s=duration_s,
            stop=lambda: program.send(signal.SIGINT),
            outcome=outcome,
            progress=progress,
        )

    def command(self, endpoint: Endpoint) -> list[str]:
        """Arguments of both loading and running; a password goes through the environment."""
        # The driver knows fewer modes of encryption than libpq, and asks for one by default.
        mode = endpoint.environment.get("PGSSLMODE", "disable")
        parameters = {"sslmode": mode if mode in _MODES else "disable"}
        parameters |= {
            name: endpoint.environment[variable]
            for variable, name in _TLS.items()
            if variable in endpoint.environment
        }
        address = [f"--host={endpoint.host}", f"--port={endpoint.port}"]
        if endpoint.host.startswith("/"):  # a socket's directory is no host of a URL
            address = [f"--targets=:{endpoint.port}"]
            parameters["host"] = endpoint.host
        return [
            programs.require(self.program),
            self.benchmark,
            f"{BENCHMARKS[self.benchmark]}={self.data.scale}",
            "--driver=postgres",
            *address,
            f"--user={endpoint.user}",
            f"--db={endpoint.database}",
            f"--conn-params={urlencode(parameters)}",
        ]


_MODES = ("require", "verify-ca", "verify-full", "disable")


def _environment(endpoint: Endpoint) -> dict[str, str]:
    """The driver takes the password from PGPASSWORD where none is in the URL."""
    password = endpoint.environment.get("PGPASSWORD")
    return {} if password is None else {"PGPASSWORD": password}
