"""pgbench as a load generator: any script, on pgbench's tables or the content platform's."""

from dataclasses import dataclass
from pathlib import Path

from pgstow.experiment.generator import Progress
from pgstow.experiment.workloads import content_platform, options, pgbench_data, pgbench_run, ready
from pgstow.experiment.workloads.pgbench_data import PgbenchData
from pgstow.experiment.workloads.pgbench_run import RunningPgbench
from pgstow.experiment.workloads.scripts import WorkloadSpec
from pgstow.host import programs
from pgstow.model.errors import UserError
from pgstow.model.experiment import DataChoice, WorkloadChoice

MAKERS = (pgbench_data.MAKER, ready.CONTENT_PLATFORM)


@dataclass(frozen=True, slots=True)
class Pgbench:
    """A workload of pgbench's and its data. ``bindir`` is where pgbench is; None: on PATH."""

    spec: WorkloadSpec
    data: DataChoice
    bindir: Path | None
    sampling_rate: float = 1.0

    @classmethod
    def of(
        cls,
        choice: WorkloadChoice,
        data: DataChoice,
        *,
        bindir: Path | None,
        scripts_directory: Path | None,
    ) -> "Pgbench":
        """The generator of a choice; UserError where there is no such workload or data."""
        if data.maker not in MAKERS:
            raise UserError(
                f"workload {choice.name} cannot run on data of {data.maker}",
                f"use data of {' or '.join(MAKERS)}",
            )
        check_data(data)
        if choice.latency_limit_ms is not None and choice.rate_per_s is None:
            raise UserError(
                f"workload {choice.name} has a latency limit but no rate",
                "give it a rate: without one no transaction has a time at which it is due",
            )
        spec = ready.spec_of(choice, data, scripts_directory)
        return cls(spec, data, bindir, choice.sampling_rate)

    @property
    def name(self) -> str:
        """The program's name."""
        return "pgbench"

    def version(self) -> str:
        """pgbench and its version."""
        program = pgbench_run.find(self.bindir)
        return programs.run([program, "--version"], timeout_s=10).strip()

    def check(self) -> None:
        """Raise HostError where pgbench is missing."""
        pgbench_run.find(self.bindir)

    def load(self, dsn: str, progress: Progress | None = None) -> None:
        """Make the data in the empty database that ``dsn`` names."""
        if self.data.maker == ready.CONTENT_PLATFORM:
            content_platform.load(
                dsn, database=None, scale=float(self.data.scale), progress=progress
            )
            return
        spec = PgbenchData.of(self.data)
        pgbench_data.load(spec, dsn, bindir=self.bindir, progress=progress)

    def start(
        self,
        dsn: str,
        *,
        duration_s: float,
        log_directory: Path,
        seed: int,
        progress: Progress | None = None,
    ) -> RunningPgbench:
        """Begin to send the load."""
        return pgbench_run.start(
            self.spec,
            dsn,
            duration_s=duration_s,
            log_directory=log_directory,
            seed=seed,
            bindir=self.bindir,
            progress=progress,
            sampling_rate=self.sampling_rate,
        )


def check_data(data: DataChoice) -> None:
    """Raise UserError for data that cannot be made."""
    if data.maker == pgbench_data.MAKER:
        PgbenchData.of(data)
    else:
        names = [name for name, _ in data.options]
        options.refuse_unknown(f"data of {data.maker}", names, (), "option")
        content_platform.extent(float(data.scale))
