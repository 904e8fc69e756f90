"""What pgstow says: goals, predictions, plans, steps and measurements."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model.bound import Bound
from pgstow.model.provenance import Provenance, Warning
from pgstow.model.storage import Layout, RelationId

# What a step is known to be. "running" and "undoing" are also what a kill leaves, when nobody could
# look. "unknown": it ended in an error, and its effect could not be looked at. Those three are
# looked at before anything else is done. "partial": part of it took effect, which undo reverts.
StepStatus = Literal[
    "planned", "running", "done", "failed", "skipped", "undoing", "undone", "unknown", "partial"
]


@dataclass(frozen=True, slots=True)
class Goal:
    """What the user wants. ``tps`` of None: at least what was observed.

    With ``budget_usd_month`` the goal is the fastest layout within it, else the cheapest one that
    meets the rest. ``headroom`` is the share of every limit that must stay free. ``pins`` are
    (what, where): a relation's name or pattern, "wal" or "temp", and a volume or volume type.
    """

    commit_p99_ms: float | None = None
    read_p99_ms: float | None = None
    tps: float | None = None
    headroom: float = 0.2
    budget_usd_month: float | None = None
    allow_types: tuple[str, ...] = ()  # empty: all of the platform
    forbid_types: tuple[str, ...] = ()
    max_volumes: int = 6
    max_stripes: int = 8
    free_space: float = 0.3  # share to leave free of what is bought; see CandidateVolume.kept_gib
    horizon_s: float | None = None  # relations as large as they will be after so long
    instance: str | None = None  # None: the one there is
    any_instance: bool = False  # the instance is planned too, and its price is part of the price
    max_move_bytes: int | None = None
    pins: tuple[tuple[str, str], ...] = ()
    max_failure_rate: float | None = None  # of one volume, a year
    data_on_ephemeral: bool = False  # tables and indexes may be lost: a standby holds them
    backup_bytes: int | None = None  # a volume of its own for backups of so much
    settings: bool = False  # plan the server's settings too


@dataclass(frozen=True, slots=True)
class LatencyMs:
    """A latency's mean and 99th percentile; None: not known."""

    mean: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class VolumeLoad:
    """What a layout's volume would bear, or bore."""

    volume: str
    reads: float  # per second
    writes: float
    bytes_per_second: float
    iops_limit: float | None
    bytes_limit: float | None
    utilisation: float  # of the limit that is nearest
    binding: Literal["iops", "throughput", "latency", "none"]
    read_ms: float | None
    write_ms: float | None
    usd_month: float | None


@dataclass(frozen=True, slots=True)
class Performance:
    """Speed and price of one layout under one workload, whichever way they became known."""

    tps: float
    latency_ms: LatencyMs
    commit_ms: LatencyMs
    wal_sync_us: float | None
    usd_month: float | None
    provenance: Provenance
    read_ms: LatencyMs | None = None  # of one device read

    @property
    def usd_per_1000_tps(self) -> float | None:
        """Monthly price of a thousand transactions per second."""
        if self.usd_month is None or self.tps <= 0:
            return None
        return self.usd_month / self.tps * 1000


@dataclass(frozen=True, slots=True)
class Prediction:
    """What pgstow expects of a layout. ``tps_interval`` covers the truth in about 9 of 10 cases."""

    layout: Layout
    performance: Performance
    tps_interval: tuple[float, float]
    volumes: tuple[VolumeLoad, ...]
    host_utilisation: float | None  # of the instance's storage cap
    cpu_utilisation: float | None
    bottleneck: str  # "volume data: iops", "cpu", "clients", "host cap"
    warnings: tuple[Warning, ...] = ()
    p99_interval: tuple[float, float] | None = None  # of the transactions' p99, in ms


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of a layout, with its spread."""

    layout: Layout
    performance: Performance
    seconds: float
    tps_samples: tuple[float, ...]
    volumes: tuple[VolumeLoad, ...]
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one choice was made: the next best one and what it would cost or lose."""

    subject: str  # "wal", "temp", "volume fast", or a relation's name
    choice: str
    because: str
    next_best: str
    next_best_usd_month: float | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the server, or of one tablespace, that belongs to a layout's storage."""

    name: str
    value: str
    present: str | None  # None: not known
    because: str
    source: str
    tablespace: str | None = None  # None: the whole server's


@dataclass(frozen=True, slots=True)
class Plan:
    """A layout for a goal, with what was proved of all that were considered."""

    goal: Goal
    layout: Layout
    prediction: Prediction
    present: Prediction
    reasons: tuple[Reason, ...]
    warnings: tuple[Warning, ...] = ()
    settings: tuple[Setting, ...] = ()  # what of the layout's settings is changed, and why
    instance_usd_month: float | None = None  # None: not known; the bound has it with any_instance
    present_instance_usd_month: float | None = None
    bound: Bound | None = None  # None: a plan of before there were any

    @property
    def total_usd_month(self) -> float:
        """What the bound is held against: the volumes, with the instance where that is planned."""
        instance = self.instance_usd_month if self.goal.any_instance else None
        return (self.prediction.performance.usd_month or 0.0) + (instance or 0.0)

    @property
    def gap_pct(self) -> float | None:
        """How much more than the optimum it may cost, in percent; None: not known."""
        return None if self.bound is None else self.bound.gap_pct(self.total_usd_month)

    @property
    def proof(self) -> str | None:
        """What was proved, in a sentence."""
        return None if self.bound is None else self.bound.sentence(self.total_usd_month)


StepKind = Literal[
    "create tablespace",
    "alter tablespace",
    "move index",
    "move table",
    "move wal",
    "set setting",
    "set temp tablespaces",
    "drop tablespace",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One change. ``action`` and ``undo`` are shown to people; ``arguments`` is what runs."""

    kind: StepKind
    subject: str
    action: str  # the SQL or the operation, as text
    undo: str
    lock: str  # "none", "SHARE UPDATE EXCLUSIVE on shop.public.orders", "server restart"
    bytes: int
    wal_bytes: int
    seconds: float  # estimate
    database: str | None = None
    relation: RelationId | None = None
    arguments: tuple[tuple[str, str], ...] = ()
    undo_arguments: tuple[tuple[str, str], ...] = ()
    needs_restart: bool = False
    seconds_loaded: float | None = None  # beside the observed load; None: no load is known

    def argument(self, name: str) -> str:
        """An argument that this kind of step has."""
        return dict(self.arguments)[name]
