"""A designed experiment: treatments made of factors' levels, run in blocks of random order."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model.errors import UserError
from pgstow.model.provenance import Warning
from pgstow.model.storage import Layout
from pgstow.units import Bytes

Target = Literal["emulated", "directories", "server"]
Caches = Literal["cold", "warm"]
MOST_PROBES_PER_S = 100  # more would be a load of its own
MOST_BLOCKS = 10_000  # more would be years
Levels = tuple[tuple[str, str], ...]  # factor and level, in the factors' order


@dataclass(frozen=True, slots=True)
class DataChoice:
    """What the tables hold. Equal choices are loaded once, and every trial gets a copy.

    ``options`` belong to the maker: ``fillfactor``, ``unlogged``, ``extra_indexes``, …
    """

    maker: str  # "pgbench", "content-platform", "go-tpc", "sysbench"
    scale: int
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.scale < 1:
            raise UserError(f"scale must be at least 1, not {self.scale}")


@dataclass(frozen=True, slots=True)
class WorkloadChoice:
    """Which transactions run, and how many clients send them.

    ``rate_per_s`` of None is a closed loop: each client sends the next when it has the answer.
    With a rate, transactions that are late by ``latency_limit_ms`` are skipped (None: none is).
    With ``transactions`` each client sends that many and ends; the schedule's duration is then the
    longest that a trial may take. ``sampling_rate`` is the part of the transactions that is logged.
    """

    name: str
    clients: int
    threads: int = 2
    rate_per_s: float | None = None
    variables: tuple[tuple[str, int], ...] = ()
    latency_limit_ms: float | None = None
    transactions: int | None = None  # of each client
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.clients < 1 or self.threads < 1:
            raise UserError(f"workload {self.name} needs at least one client and one thread")
        if self.rate_per_s is not None and self.rate_per_s <= 0:
            raise UserError(f"workload {self.name}: a rate must be over 0, not {self.rate_per_s}")
        if self.latency_limit_ms is not None and self.latency_limit_ms <= 0:
            limit = f"{self.latency_limit_ms} ms"
            raise UserError(f"workload {self.name}: a latency limit must be over 0, not {limit}")
        if self.transactions is not None and self.transactions < 1:
            what = f"workload {self.name}: transactions must be at least 1, not {self.transactions}"
            raise UserError(what)
        if not 0 < self.sampling_rate <= 1:
            what = f"sampling_rate must be over 0 and at most 1, not {self.sampling_rate:g}"
            raise UserError(f"workload {self.name}: {what}")


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """The server that a trial starts. ``memory_bytes`` holds it and its page cache."""

    version: int = 18
    settings: tuple[tuple[str, str], ...] = ()
    memory_bytes: Bytes | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one trial goes. A trial starts with cold caches, or warmed by a load.

    ``commit_probe_per_s`` test commits are sent beside the load, each timed; 0 sends none.
    """

    duration_s: float
    warm_up_s: float = 0.0
    caches: Caches = "cold"
    settle_s: float = 0.0  # nothing runs, after the load of the data or between trials
    commit_probe_per_s: float = 0.0

    def __post_init__(self) -> None:
        if self.duration_s < 1:
            raise UserError(f"a trial measures for at least 1 s, not {self.duration_s:g}")
        if not 0 <= self.commit_probe_per_s <= MOST_PROBES_PER_S:
            what = f"commit_probe must be 0 to {MOST_PROBES_PER_S} a second"
            raise UserError(f"{what}, not {self.commit_probe_per_s:g}")


@dataclass(frozen=True, slots=True)
class Treatment:
    """One combination of levels, with all that follows from it.

    ``layout`` is of the targets that pgstow makes; ``dsn``, with no password in it, of a server
    that is there already.
    """

    levels: Levels
    workload: WorkloadChoice
    data: DataChoice
    schedule: Schedule
    server: ServerChoice = ServerChoice()
    layout: Layout | None = None
    dsn: str | None = None

    def __post_init__(self) -> None:
        if self.workload.transactions is not None and self.schedule.warm_up_s > 0:
            raise UserError(
                "a load of a fixed number of transactions has no warm-up: all of it is measured",
                "drop schedule.warm_up, or workload.transactions",
            )

    @property
    def name(self) -> str:
        """The levels, as people say them."""
        return ", ".join(f"{factor} {level}" for factor, level in self.levels)

    def level(self, factor: str) -> str:
        """The level of a factor."""
        return dict(self.levels)[factor]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A randomised complete block design: every block has every treatment once, in random order.

    Levels of ``compare`` are held against its ``baseline`` where all other factors are equal. With
    ``side_by_side`` a block's treatments run at the same time, each on its own server.
    """

    name: str
    title: str
    target: Target
    treatments: tuple[Treatment, ...]
    compare: str
    baseline: str
    blocks: int
    seed: int
    study: str | None = None  # whose published figures it is held against
    profile: str = ""  # "quick", "full": which of the file's was taken
    side_by_side: bool = False

    def __post_init__(self) -> None:
        if not self.treatments:
            raise UserError(f"experiment {self.name} has no treatments", "give a factor its levels")
        if self.blocks < 1:
            raise UserError(f"experiment {self.name} needs at least one block, not {self.blocks}")
        if self.blocks > MOST_BLOCKS:
            raise UserError(
                f"experiment {self.name} has {self.blocks:,} blocks", f"use at most {MOST_BLOCKS:,}"
            )
        if len({treatment.levels for treatment in self.treatments}) < len(self.treatments):
            raise UserError(f"experiment {self.name} has a treatment twice")
        if self.compare not in self.factors:
            known = ", ".join(self.factors)
            raise UserError(f"experiment {self.name} has no factor {self.compare}", f"use {known}")
        if self.baseline not in self.levels_of(self.compare):
            known = ", ".join(self.levels_of(self.compare))
            what = f"factor {self.compare} of experiment {self.name} has no level {self.baseline}"
            raise UserError(what, f"use {known}")

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors' names, in order."""
        return tuple(factor for factor, _ in self.treatments[0].levels)

    def levels_of(self, factor: str) -> tuple[str, ...]:
        """A factor's levels, in the file's order."""
        return tuple(dict.fromkeys(treatment.level(factor) for treatment in self.treatments))


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Latencies of transactions by size. ``counts[i]`` are below ``upper_ms[i]``, not below the
    one before; the last bin has the largest."""

    upper_ms: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """Average active sessions by wait event, in slices of equal length, from sampling.

    ``sessions[event][i]`` is the mean of slice i; "CPU" stands for no wait.
    """

    slice_s: float
    samples: int
    sessions: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class WalUse:
    """What the WAL cost in a trial, from pg_stat_wal or, from 18 on, pg_stat_io."""

    bytes: float
    records: int
    full_page_images: int
    writes: int
    syncs: int
    write_ms: float | None  # None: the server does not time it
    sync_ms: float | None
    write_ms_worst_second: float | None = None  # the mean of a write in the second where it is most


@dataclass(frozen=True, slots=True)
class IoUse:
    """A row of pg_stat_io over a trial (PostgreSQL 16 and later)."""

    backend_type: str
    object: str
    context: str
    reads: int
    read_bytes: float
    read_ms: float | None
    writes: int
    write_bytes: float
    write_ms: float | None
    extends: int
    hits: int
    evictions: int
    fsyncs: int
    fsync_ms: float | None


@dataclass(frozen=True, slots=True)
class CheckpointUse:
    """Checkpoints that ended in a trial."""

    timed: int
    requested: int
    buffers_written: int
    write_ms: float
    sync_ms: float


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A block device over a trial, from /proc/diskstats; ``volume`` is the layout's name for it."""

    device: str
    volume: str | None
    reads_per_s: float
    writes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    read_await_ms: float | None
    write_await_ms: float | None
    flushes_per_s: float | None
    queue: float  # mean requests in flight
    await_ms_worst_second: float | None = None  # the mean wait of the second where it is longest


@dataclass(frozen=True, slots=True)
class CommitUse:
    """What test commits took that were sent beside the load."""

    commits: int
    mean_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Busy processors over a trial: the machine's, and of them the load generator's.

    ``stolen_cores`` is what the hypervisor kept from work that was ready.
    """

    cores: int
    busy_cores: float
    client_cores: float | None
    stolen_cores: float | None = None  # None: not read


@dataclass(frozen=True, slots=True)
class Instruments:
    """What was read beside the workload. None: it could not be, and a warning says why."""

    wal: WalUse | None = None
    io: tuple[IoUse, ...] | None = None
    checkpoints: CheckpointUse | None = None
    waits: Waits | None = None
    devices: tuple[DeviceUse, ...] | None = None
    cpu: CpuUse | None = None
    database_bytes: Bytes | None = None
    commits: CommitUse | None = None  # None: none were sent


@dataclass(frozen=True, slots=True)
class Build:
    """What was measured with: figures of different builds are not compared."""

    pgstow: str
    postgres: str  # server_version
    workload: str  # the load generator and its version
    kernel: str
    machine: str  # processor's model, cores and memory


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one workload's run gave. Latencies are as the clients saw them."""

    seconds: float
    transactions: int
    failed: int
    skipped: int  # too late for a rate-limited schedule
    tps: float
    tps_samples: tuple[float, ...]  # of each whole second
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    histogram: LatencyHistogram | None = None
    scripts: tuple[tuple[str, "Outcome"], ...] = ()  # by name, where there are several
    stddev_ms: float | None = None
    connection_ms: float | None = None  # until all clients were connected; None: not reported


@dataclass(frozen=True, slots=True)
class Trial:
    """One treatment's run in one block."""

    block: int
    position: int  # in the block's random order
    levels: Levels
    began_at: str  # ISO 8601, UTC
    outcome: Outcome
    instruments: Instruments
    build: Build
    usd_month: float | None
    host: str = ""  # the machine's name, where several share the matrix
    warnings: tuple[Warning, ...] = ()
    settings: tuple[tuple[str, str], ...] | None = None  # of the server; None: not read
    attempts: int = 1  # of which this had least stolen from it
