"""Run a workload with pgbench in the background, and read its outcome."""

import math
import re
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstow.experiment.generator import Progress
from pgstow.experiment.workloads.outcome import outcome_of_logs
from pgstow.experiment.workloads.scripts import WorkloadSpec
from pgstow.host import open_files, programs
from pgstow.host.background import BackgroundProgram, Ended
from pgstow.model.errors import HostError, PgstowError, ServerError, UserError
from pgstow.model.experiment import Outcome
from pgstow.postgres import connect, redacted_dsn

_PROGRESS = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps, lat ([0-9.]+|NaN) ms")
_CONNECTION = re.compile(r"^initial connection time = ([0-9.]+) ms", re.MULTILINE)
_TPS = re.compile(r"^tps = ([0-9.]+) \(without", re.MULTILINE)
_TIMEOUT_S = 120.0  # for the last transactions to end: a scan may take a while
_RETRY_S = 0.25
_OTHER_FILES = 64  # that pgbench has open, beside one a client and a log a thread
# What pgbench or the server says to it, and what to do.
_REMEDIES = (
    (r"too many clients|remaining connection slots", "raise the server's max_connections"),
    (r"open files|could not create connection", "raise the limit of open files: ulimit -n"),
    (r"relation .* does not exist|is not present", "load the workload's data first"),
)


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
            f"--client={self.spec.clients}",
            f"--jobs={min(self.spec.threads, self.spec.clients)}",
            f"--time={duration_s}"
            if self.spec.transactions is None
            else f"--transactions={self.spec.transactions}",
            f"--random-seed={self.seed}",
            "--progress=1",
            "--log",
            f"--log-prefix={self.log_prefix}",
        ]
        if self.sampling_rate < 1:
            options.append(f"--sampling-rate={self.sampling_rate}")
        if self.spec.rate_per_s is not None:
            options.append(f"--rate={self.spec.rate_per_s:g}")
        if self.spec.latency_limit_ms is not None:
            options.append(f"--latency-limit={self.spec.latency_limit_ms:g}")
        options += [f"--define={name}={value}" for name, value in self.spec.variables]
        options += [script.option for script in self.spec.scripts]
        return [self.program, *options, redacted_dsn(self.dsn)]

    def logs(self, pid: int) -> list[Path]:
        """What the threads of one pgbench logged."""
        first = self.log_prefix.with_name(f"{self.log_prefix.name}.{pid}")
        return [path for path in (first, *first.parent.glob(f"{first.name}.*")) if path.exists()]


@dataclass(slots=True)
class _Piece:
    """One pgbench process of a run; there are more where the server was restarted under it."""

    pid: int
    command: tuple[str, ...]
    ended: Ended | None = None
    interruption: str | None = None


@dataclass
class RunningPgbench:
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

    def pids(self) -> tuple[int, ...]:
        """The processes that send the load now."""
        pid = self.pid
        return () if pid is None else (pid,)

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
        if not self.wait(_TIMEOUT_S):
            self.kill()

    def kill(self) -> None:
        """End it at once; transactions not yet logged are lost."""
        self._stopping.set()
        if self._program is not None:
            self._program.kill()
        self.wait(_TIMEOUT_S)

    @property
    def command(self) -> tuple[str, ...]:
        """pgbench's command line."""
        return self._pieces[0].command

    @property
    def interruptions(self) -> tuple[str, ...]:
        """Why clients gave up before the end, as where the server was restarted under them."""
        return tuple(p.interruption for p in self._pieces if p.interruption is not None)

    @property
    def reported_tps(self) -> float | None:
        """pgbench's own figure, of a run in one piece that has ended."""
        ended = self._pieces[0].ended
        if len(self._pieces) > 1 or ended is None:
            return None
        match = _TPS.search(ended.output)
        return None if match is None else float(match[1])

    @property
    def connection_ms(self) -> float | None:
        """How long it took to connect all clients, by pgbench's own word at its end."""
        ended = self._pieces[0].ended
        match = None if ended is None else _CONNECTION.search(ended.output)
        return None if match is None else float(match[1])

    def outcome(self, began_at: float | None = None, ended_at: float | None = None) -> Outcome:
        """The outcome, after its end; of the part between two times (``time.time()``) if given."""
        if self.is_running:
            raise AssertionError("the workload still runs: stop() or wait() first")
        if self._error is not None:
            raise self._error
        name = self._run.spec.name
        if self.interruptions and not self._survive_restarts:
            raise _failure(f"workload {name} was interrupted", self.interruptions[0])
        logs = [path for piece in self._pieces for path in self._run.logs(piece.pid)]
        names, rate = self._run.spec.script_names, self._run.sampling_rate
        found = outcome_of_logs(logs, names, began_at, ended_at, rate)
        if found is None:
            reason = self.interruptions[-1] if self.interruptions else "it was stopped too early"
            raise _failure(f"workload {name} finished no transaction", reason)
        return replace(found, connection_ms=self.connection_ms)

    def __enter__(self) -> "RunningPgbench":
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
                ended = self._program.wait(max(left_s, 0) + _TIMEOUT_S)
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
            raise _failure("pgbench failed", _complaint(ended))

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


def start(
    spec: WorkloadSpec,
    dsn: str,
    *,
    duration_s: float,
    log_directory: Path,
    seed: int = 1,
    bindir: Path | None = None,
    progress: Progress | None = None,
    survive_restarts: bool = False,
    sampling_rate: float = 1.0,
) -> RunningPgbench:
    """Start a workload in the background.

    With ``survive_restarts`` it begins again when a server that went away is back, and the outcome
    counts the gap as seconds without a transaction. ``sampling_rate`` is the share of the
    transactions that are logged; latencies are of those.
    """
    if duration_s < 1:
        raise UserError("a workload runs for at least 1 s", "give it a longer duration")
    open_files.allow(spec.clients + min(spec.threads, spec.clients) + _OTHER_FILES)
    log_directory.mkdir(parents=True, exist_ok=True)
    run_ = _Run(
        spec=spec,
        dsn=dsn,
        seed=seed,
        program=find(bindir),
        log_prefix=log_directory.absolute() / "transactions",
        environment=password_environment(dsn),
        sampling_rate=sampling_rate,
    )
    return RunningPgbench(run_, math.ceil(duration_s), survive_restarts, progress)


def find(bindir: Path | None) -> str:
    """pgbench in that directory, or on PATH where none is named; HostError if it is not there."""
    if bindir is None:
        return programs.require("pgbench")
    program = bindir / "pgbench"
    if not program.exists():
        raise HostError(f"{bindir} has no pgbench", programs.remedy("pgbench"))
    return str(program)


def password_environment(dsn: str) -> dict[str, str]:
    """The password with which a server lets ``dsn`` in, where libpq looks for it."""
    with connect(dsn, purpose="experiment") as connection:
        password = connection.info.password
    return {"PGPASSWORD": password} if password else {}


def _failure(what: str, reason: str) -> ServerError:
    remedies = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, reason))
    return ServerError(f"{what}: {reason}", next(remedies, ""))


def _complaint(ended: Ended) -> str:
    """The line of pgbench's that says why it gave up."""
    lines = [line for line in ended.errors.splitlines() if not line.startswith("progress:")]
    errors = [line for line in lines if "error:" in line and "Run was aborted" not in line]
    texts = [
        line.removeprefix("pgbench: ").removeprefix("error: ").strip() for line in errors or lines
    ]
    texts = [text for text in texts if text not in ("", "error:")]  # libpq's, of a missing file
    return (texts or [f"pgbench ended with status {ended.status}"])[0]
