"""The rows of the fidelity table: a figure of a trial, what the model says, and the bar."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pgstow.emulate.bench import trials
from pgstow.emulate.bench.trials import Target, Trial
from pgstow.model import UserError
from pgstow.units import MIB, format_duration

# "seconds" and "share" are not fio's to measure; a share is of a deviation from what was recorded.
Figure = Literal[
    "iops",
    "bytes_per_s",
    "p50_us",
    "p99_us",
    "mean_us",
    "cores",
    "iops_per_cpu_s",
    "seconds",
    "share",
]
BarKind = Literal["within share", "within", "at least", "at most", "none"]


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a median has to keep to: near what the model says, or a limit of its own.

    ``value`` is a share of the model's figure for "within share", else in the figure's unit.
    """

    kind: BarKind
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; ``wanted`` of None: the model does not say, more (or less) is better.

    ``trial`` of None: not measured with fio. ``is_quick``: also in a quick run.
    """

    key: str
    what: str
    figure: Figure
    wanted: float | None
    bar: Criterion
    trial: Trial | None = None
    is_quick: bool = False


_LIMIT = Criterion("within share", 0.005)
_LATENCY = Criterion("within share", 0.05)
_TAIL = Criterion("within", 300.0)  # µs
_QUICK = {
    "limit-read-8k-3000", "limit-write-8k-3000", "limit-read-256k", "latency-read-1ms",
    "scale-read-16", "speed-read", "floor-read", "floor-sync",
}  # fmt: skip
_PATTERNS = {
    "randread": "random reads",
    "randwrite": "random writes",
    "randrw": "random reads and writes",
    "read": "sequential reads",
    "write": "sequential writes",
}


def _rows_of(trial: Trial) -> list[Row]:
    quick = trial.key in _QUICK
    group = trial.key.partition("-")[0]
    makers = {
        "limit": _limit,
        "latency": _latency,
        "tail": _tail,
        "scale": _scale,
        "speed": _speed,
        "floor": _floor,
        "replay": _replay,
    }
    return [
        Row(key, what, figure, wanted, bar, trial, quick)
        for key, what, figure, wanted, bar in makers[group](trial)
    ]


_Parts = tuple[str, str, Figure, float | None, Criterion]


def _limit(trial: Trial) -> list[_Parts]:
    target, job = trial.target, trial.job
    shown = _name(trial)
    iops, rate = _limits(target)
    binds_bytes = rate is not None and (iops is None or iops * job.block_bytes > rate)
    if binds_bytes:
        return [(trial.key, shown, "bytes_per_s", rate, _LIMIT)]
    return [(trial.key, shown, "iops", iops, _LIMIT)]


def _limits(target: Target) -> tuple[float | None, float | None]:
    """What all volumes together may do."""

    def least(each: float | None, cap: float | None) -> float | None:
        known = [] if each is None else [each * target.volumes]
        known += [] if cap is None else [cap]
        return min(known, default=None)

    cap = target.host_cap
    return (
        least(target.iops, None if cap is None else cap.iops),
        least(target.bytes_per_second, None if cap is None else cap.bytes_per_second),
    )


def _name(trial: Trial) -> str:
    job, target = trial.job, trial.target
    size = f"{job.block_bytes // 1024} KiB" if job.block_bytes < MIB else "1 MiB"
    text = f"{_PATTERNS[job.pattern]} of {size}"
    if target.volumes > 1:
        text += f" on {target.volumes} volumes"
    return text + (" under a host cap" if target.host_cap is not None else "")


def _latency(trial: Trial) -> list[_Parts]:
    kind, wanted = _kind(trial), _modelled(trial, "p50")
    what = f"p50 of one {kind} at a time, {format_duration(wanted / 1e6)}"
    return [(trial.key, what, "p50_us", wanted, _LATENCY)]


def _tail(trial: Trial) -> list[_Parts]:
    kind = _kind(trial)
    return [
        (
            f"{trial.key}-p50",
            f"p50 of one {kind} at a time, with a tail",
            "p50_us",
            _modelled(trial, "p50"),
            _LATENCY,
        ),
        (
            f"{trial.key}-p99",
            f"p99 of one {kind} at a time, with a tail",
            "p99_us",
            _modelled(trial, "p99"),
            _TAIL,
        ),
    ]


def _kind(trial: Trial) -> Literal["read", "write"]:
    return "read" if "read" in trial.job.pattern else "write"


def _modelled(trial: Trial, percentile: str) -> float:
    wanted: float = getattr(trial.target.latency, f"{_kind(trial)}_us_{percentile}")
    return wanted


def _scale(trial: Trial) -> list[_Parts]:
    shown, wanted = _name(trial), _limits(trial.target)[0]
    return [
        (trial.key, shown, "iops", wanted, Criterion("at least", 47_500)),
        (
            f"{trial.key}-cores",
            f"cores of the server for {shown}",
            "cores",
            None,
            Criterion("at most", 1),
        ),
        (
            f"{trial.key}-cpu",
            f"IOPS per CPU-second of the server for {shown}",
            "iops_per_cpu_s",
            None,
            Criterion("none"),
        ),
    ]


def _speed(trial: Trial) -> list[_Parts]:
    shown = f"{_name(trial)}, no limits"
    least = 120_000 if _kind(trial) == "read" else 100_000
    return [
        (trial.key, shown, "iops", None, Criterion("at least", least)),
        (
            f"{trial.key}-cpu",
            f"IOPS per CPU-second of the server for {shown}",
            "iops_per_cpu_s",
            None,
            Criterion("none"),
        ),
    ]


def _floor(trial: Trial) -> list[_Parts]:
    syncs = trial.job.fdatasync
    what = "8 KiB write + fdatasync, no delay" if syncs else "8 KiB read, no delay"
    most = Criterion("at most", 150.0 if syncs else 55.0)
    return [
        (f"{trial.key}-mean", f"{what}, mean", "mean_us", None, most),
        (f"{trial.key}-p50", f"{what}, p50", "p50_us", None, most),
    ]


def _replay(trial: Trial) -> list[_Parts]:
    bar = Criterion("within", 0.05)
    return [
        (
            f"{trial.key}-{kind}-{figure}",
            f"simulator beside emulator on one recorded trace: {figure} of {kind}s",
            "share",
            0.0,
            bar,
        )
        for kind in ("read", "write")
        for figure in ("mean", "p99")
    ]


GP2_BURST = Row(
    "gp2-burst",
    "gp2 100 GiB at 3,000 IOPS: full credits last (virtual clock)",
    "seconds",
    2000.0,
    Criterion("within share", 0.01),
    is_quick=True,
)
GP2_AFTER = Row(
    "gp2-after",
    "gp2 100 GiB: afterwards (virtual clock)",
    "iops",
    300.0,
    Criterion("within share", 0.01),
    is_quick=True,
)
ROWS = (*(row for trial in trials.TRIALS for row in _rows_of(trial)), GP2_BURST, GP2_AFTER)


def select(patterns: str | None, *, quick: bool) -> tuple[Row, ...]:
    """The rows whose keys match one of the shell patterns; all of them where none is given.

    >>> [row.key for row in select("gp2-*", quick=False)]
    ['gp2-burst', 'gp2-after']
    """
    selected = [part.strip() for part in (patterns or "").split(",") if part.strip()]
    for pattern in selected:
        if not any(fnmatchcase(row.key, pattern) for row in ROWS):
            keys = ", ".join(sorted({row.key.partition("-")[0] + "-*" for row in ROWS}))
            raise UserError(f"--rows {pattern!r} matches no row", f"use keys, or: {keys}")
    if not selected:
        return tuple(row for row in ROWS if row.is_quick or not quick)
    return tuple(row for row in ROWS if any(fnmatchcase(row.key, one) for one in selected))
