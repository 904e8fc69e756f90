"""The result of a run: the machine, every sample, the verdicts."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstow import __version__
from pgstow.emulate.bench.measure import Sample
from pgstow.emulate.bench.plan import BenchPlan
from pgstow.emulate.bench.rows import Row
from pgstow.emulate.bench.verdict import OURS, Compared, Measured, compare, judge
from pgstow.host import cpu
from pgstow.model import Warning

Samples = Mapping[tuple[str, str], Sequence[Sample]]  # by trial and subject


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured. ``busy_cores`` is what others used just before."""

    processor: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str
    versions: tuple[tuple[str, str], ...]
    busy_cores: float | None = None


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row with what pgstow made of it, and each peer."""

    row: Row
    measured: tuple[Measured, ...]

    @property
    def ours(self) -> Measured:
        """pgstow's."""
        return next(one for one in self.measured if one.subject == OURS)


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All of it; ``commands`` are those of each peer for one target, to repeat them by hand."""

    machine: Machine
    plan: BenchPlan
    seconds: float
    rows: tuple[RowResult, ...]
    compared: tuple[Compared, ...]
    commands: tuple[tuple[str, tuple[str, ...]], ...] = ()
    warnings: tuple[Warning, ...] = ()

    @property
    def failed(self) -> tuple[str, ...]:
        """Keys of the rows whose bar pgstow does not meet."""
        return tuple(result.row.key for result in self.rows if result.ours.passed is False)


def machine(versions: Mapping[str, str], busy_cores: float | None) -> Machine:
    """This machine."""
    return Machine(
        _processor(),
        cpu.cores(),
        cpu.memory_bytes(),
        os.uname().release,
        platform.python_version(),
        (("pgstow", __version__), *versions.items()),
        busy_cores,
    )


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def make_rows(
    plan: BenchPlan,
    samples: Samples,
    others: Mapping[str, Sequence[float]],
    cannot: Mapping[tuple[str, str], tuple[str, ...]],
) -> tuple[RowResult, ...]:
    """The rows of a plan; ``others`` are the values of those that fio does not measure, by key."""
    found = []
    for row in plan.rows:
        if row.key in others:
            found.append(RowResult(row, (judge(row, OURS, others[row.key]),)))
            continue
        if row.trial is None or row.figure == "share":
            continue  # the replay had none of that kind
        measured = []
        for subject in (OURS, *plan.peers):
            values = _values(row, samples.get((row.trial.key, subject), ()))
            if values:
                measured.append(
                    judge(row, subject, values, cannot.get((row.trial.key, subject), ()))
                )
        if any(one.subject == OURS for one in measured):
            found.append(RowResult(row, tuple(measured)))
    return tuple(found)


def _values(row: Row, samples: Sequence[Sample]) -> list[float]:
    values = (sample.figure(row.figure) for sample in samples)
    return [value for value in values if value is not None]


def make_comparisons(rows: Sequence[RowResult], samples: Samples) -> tuple[Compared, ...]:
    """Each row that peers were measured on too, and says something by itself."""
    found = []
    for result in rows:
        trial = result.row.trial
        if trial is None or result.row.figure in ("cores", "iops_per_cpu_s"):
            continue
        for peer in result.measured:
            if peer.subject != OURS:
                ratio = tuple(_efficiency(samples, trial.key, who) for who in (OURS, peer.subject))
                found.append(compare(result.row, result.ours, peer, (ratio[0], ratio[1])))
    return tuple(found)


def _efficiency(samples: Samples, trial: str, subject: str) -> float | None:
    """Operations per CPU-second over all repeats."""
    runs = samples.get((trial, subject), ())
    cores = sum(sample.cores for sample in runs)
    return sum(sample.iops for sample in runs) / cores if cores > 0 else None
