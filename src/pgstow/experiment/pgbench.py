"""Run a workload with pgbench: to its end, or in the background while something else is done."""

import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pgstow.experiment.transactions import (
    Transactions,
    read_logs,
    samples_per_second,
    summarise_latency,
    summarise_scripts,
)
from pgstow.experiment.workload import WorkloadResult, WorkloadSpec
from pgstow.host import programs
from pgstow.host.background import BackgroundProgram, Ended
from pgstow.model.errors import PgstowError, ServerError, UserError
from pgstow.postgres import connect, redacted_dsn

Progress = Callable[[float, float], None]
_PROGRESS = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps, lat ([0-9.]+|NaN) ms")
_TPS = re.compile(r"^tps = ([0-9.]+) \(without", re.MULTILINE)
_PATIENCE_S = 30.0  # for the last transactions to end
_RETRY_S = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """A second of a running workload, as pgbench tells it."""

    at_s: float  # since this piece of the run began
    tps: float
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class _Run:
    """What is the same for all pieces of a run."""

    spec: WorkloadSpec
    dsn: str
    clients: int
    threads: int
    seed: int
    program: str
    log_prefix: Path
    environment: dict[str, str]
    sampling_rate: float

    def command(self, duration_s: int) -> list[str]:
        """pgbench's command line; a password goes through the environment."""
        options = [
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={self.clients}",
            f"--jobs={min(self.threads, self.clients)}",
            f"--time={duration_s}",
            f"--random-seed={self.seed}",
            "--progress=1",
            "--log",
            f"--log-prefix={self.log_prefix}",
        ]
        if self.sampling_rate < 1:
            options.append(f"--sampling-rate={self.sampling_rate}")
        options += [f"--define={name}={value}" for name, value in self.spec.variables]
        options += [f"--file={script.path}@{script.weight}" for script in self.spec.scripts]
        return [self.program, *options, redacted_dsn(self.dsn)]


@dataclass(slots=True)
class _Piece:
    """One pgbench process of a run; there are more where the server was restarted under it."""

    pid: int
    command: tuple[str, ...]
    ended: Ended | None = None
    interruption: str | None = None


@dataclass
class RunningWorkload:
    """A workload in the background. As a context manager it is stopped on the way out."""

    _run: _Run
    _duration_s: int
    _survive_restarts: bool
    _progress: Progress | None
    _samples: list[Sample] = field(default_factory=list)
    _pieces: list[_Piece] = field(default_factory=list)
    _program: BackgroundProgram | None = None
    _error: PgstowError | None = None

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self._start_piece(self._duration_s)
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self._supervisor.start()

    @property
    def pid(self) -> int | None:
        """pgbench's process id; None between two pieces and at the end."""
        program = self._program
        return program.pid if program is not None and program.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._supervisor.is_alive()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The seconds so far."""
        return tuple(self._samples)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        self._supervisor.join(timeout_s)
        return not self.is_running

    def stop(self) -> None:
        """Let the transactions under way end, and pgbench with them."""
        self._stopping.set()
        if self._program is not None:
            self._program.send(signal.SIGALRM)  # what ends pgbench when its time is up
        if not self.wait(_PATIENCE_S):
            self.kill()

    def kill(self) -> None:
        """End it at once; what was not logged is lost."""
        self._stopping.set()
        if self._program is not None:
            self._program.kill()
        self.wait(_PATIENCE_S)

    def result(
        self, began_at: float | None = None, ended_at: float | None = None
    ) -> WorkloadResult:
        """What it did, after its end; of the part between two times (``time.time()``) if given."""
        if self.is_running:
            raise AssertionError("the workload still runs: stop() or wait() first")
        if self._error is not None:
            raise self._error
        directory, name = self._run.log_prefix.parent, self._run.log_prefix.name
        pids = [piece.pid for piece in self._pieces]
        logs = [path for pid in pids for path in directory.glob(f"{name}.{pid}*")]
        return self._summarise(read_logs(logs), began_at, ended_at)

    def __enter__(self) -> "RunningWorkload":
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    def _start_piece(self, duration_s: int) -> None:
        command = self._run.command(duration_s)
        self._program = BackgroundProgram(
            command, environment=self._run.environment, on_error_line=self._hear
        )
        self._pieces.append(_Piece(self._program.pid, tuple(command)))

    def _hear(self, line: str) -> None:
        match = _PROGRESS.match(line)
        if match is None:
            return
        latency_ms = None if match[3] == "NaN" else float(match[3])
        self._samples.append(Sample(float(match[1]), float(match[2]), latency_ms))
        if self._progress is not None:
            done_s = time.monotonic() - self._began
            self._progress(min(done_s, self._duration_s), self._duration_s)

    def _supervise(self) -> None:
        try:
            while True:
                assert self._program is not None
                left_s = self._duration_s - (time.monotonic() - self._began)
                ended = self._program.wait(max(left_s, 0) + _PATIENCE_S)
                if ended is None:
                    self._program.kill()
                    raise ServerError("pgbench did not end in time", "see whether the server hangs")
                self._note_end(ended)
                if ended.status == 0 or self._stopping.is_set():
                    return
                if not self._survive_restarts:
                    self._raise_if_nothing_done(ended)
                    return
                left_s = self._wait_for_server()
                if left_s < 1 or self._stopping.is_set():
                    return
                self._start_piece(round(left_s))
        except PgstowError as error:
            self._error = error

    def _note_end(self, ended: Ended) -> None:
        piece = self._pieces[-1]
        piece.ended = ended
        if ended.status != 0 and not self._stopping.is_set():
            piece.interruption = _complaint(ended)

    def _raise_if_nothing_done(self, ended: Ended) -> None:
        if _TPS.search(ended.output) is None:
            raise ServerError(f"pgbench failed: {_complaint(ended)}")

    def _wait_for_server(self) -> float:
        """Wait until the server answers again; the seconds left of the run."""
        while True:
            left_s = self._duration_s - (time.monotonic() - self._began)
            if left_s < 1 or self._stopping.wait(_RETRY_S):
                return left_s
            try:
                connect(self._run.dsn, purpose="experiment").close()
            except PgstowError:
                continue
            return left_s

    def _summarise(
        self, logged: Transactions, began_at: float | None, ended_at: float | None
    ) -> WorkloadResult:
        complaints = tuple(p.interruption for p in self._pieces if p.interruption is not None)
        if len(logged) == 0:
            reason = complaints[-1] if complaints else "it was stopped too early"
            raise ServerError(f"workload {self._run.spec.name} finished no transaction: {reason}")
        first_us = logged.begin_us() if began_at is None else round(began_at * 1e6)
        last_us = int(logged.end_us.max()) + 1 if ended_at is None else round(ended_at * 1e6)
        if last_us <= first_us:
            raise ValueError("the part of the run to look at must have a length")
        part = logged.between(first_us, last_us)
        seconds = (last_us - first_us) / 1e6
        rate = self._run.sampling_rate
        scripts = summarise_scripts(part, self._run.spec.scripts, seconds, rate)
        done = sum(script.transactions for script in scripts)
        return WorkloadResult(
            workload=self._run.spec.name,
            began_at=first_us / 1e6,
            seconds=seconds,
            clients=self._run.clients,
            transactions=done,
            tps=done / seconds,
            tps_samples=samples_per_second(part, first_us, last_us, rate),
            latency=summarise_latency(part.latency_us),
            scripts=scripts,
            failed=sum(script.failed for script in scripts),
            skipped=sum(script.skipped for script in scripts),
            command=self._pieces[0].command,
            version=programs.run([self._run.program, "--version"], timeout_s=10).strip(),
            interruptions=complaints,
            reported_tps=self._reported_tps(),
        )

    def _reported_tps(self) -> float | None:
        ended = self._pieces[0].ended
        if len(self._pieces) > 1 or ended is None:
            return None
        match = _TPS.search(ended.output)
        return None if match is None else float(match[1])


def start(
    spec: WorkloadSpec,
    dsn: str,
    *,
    duration_s: float,
    log_directory: Path,
    clients: int | None = None,
    threads: int | None = None,
    seed: int = 1,
    bindir: Path | None = None,
    progress: Progress | None = None,
    survive_restarts: bool = False,
    sampling_rate: float = 1.0,
) -> RunningWorkload:
    """Start a workload in the background.

    With ``survive_restarts`` it begins again when a server that went away is back, and the result
    counts the gap as seconds without a transaction. ``sampling_rate`` is the share of the
    transactions that are logged; latencies are of those.
    """
    if duration_s < 1:
        raise UserError("a workload runs for at least 1 s", "give it a longer duration")
    program = programs.require("pgbench") if bindir is None else str(bindir / "pgbench")
    log_directory.mkdir(parents=True, exist_ok=True)
    environment = {}
    with connect(dsn, purpose="experiment") as connection:
        if connection.info.password:
            environment["PGPASSWORD"] = connection.info.password
    run_ = _Run(
        spec=spec,
        dsn=dsn,
        clients=clients or spec.clients,
        threads=threads or spec.threads,
        seed=seed,
        program=program,
        log_prefix=log_directory.absolute() / "transactions",
        environment=environment,
        sampling_rate=sampling_rate,
    )
    return RunningWorkload(run_, round(duration_s), survive_restarts, progress)


def run(
    spec: WorkloadSpec,
    dsn: str,
    *,
    duration_s: float,
    log_directory: Path,
    clients: int | None = None,
    threads: int | None = None,
    seed: int = 1,
    bindir: Path | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    sampling_rate: float = 1.0,
) -> WorkloadResult:
    """Run a workload to its end, or until ``stop`` is set; refuse a run that was interrupted."""
    with start(
        spec,
        dsn,
        duration_s=duration_s,
        log_directory=log_directory,
        clients=clients,
        threads=threads,
        seed=seed,
        bindir=bindir,
        progress=progress,
        sampling_rate=sampling_rate,
    ) as running:
        while not running.wait(0.2):
            if stop is not None and stop.is_set():
                running.stop()
        result = running.result()
    if result.interruptions:
        raise ServerError(f"workload {spec.name} was interrupted: {result.interruptions[0]}")
    return result


def _complaint(ended: Ended) -> str:
    """The line of pgbench's that says why it gave up."""
    lines = [line for line in ended.errors.splitlines() if not line.startswith("progress:")]
    errors = [line for line in lines if "error:" in line and "Run was aborted" not in line]
    text = (errors or lines or [f"pgbench ended with status {ended.status}"])[0]
    return text.removeprefix("pgbench: ").removeprefix("error: ").strip()
