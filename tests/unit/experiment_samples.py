"""Experiments and trials as values, for tests of what is made of them."""

from pgstow.model import (
    Build,
    CpuUse,
    DataChoice,
    Experiment,
    Instruments,
    Outcome,
    Schedule,
    Treatment,
    Trial,
    Waits,
    WorkloadChoice,
)

BUILD = Build("0.1.0", "18.4", "pgbench (PostgreSQL) 18.4", "Linux 6.18", "2 cores, 24 GiB")


def treatment(**levels: str) -> Treatment:
    """A treatment of those levels, of which nothing follows."""
    return Treatment(
        tuple(levels.items()),
        WorkloadChoice("tpcb-like", clients=8),
        DataChoice("pgbench", 10),
        Schedule(duration_s=30),
    )


def experiment(*levels: str, blocks: int = 3, side_by_side: bool = False) -> Experiment:
    """WAL here or there, or levels of the caller's choice; the first is the baseline."""
    levels = levels or ("shared", "apart")
    return Experiment(
        name="wal-split",
        title="WAL apart",
        target="emulated",
        treatments=tuple(treatment(wal=level) for level in levels),
        compare="wal",
        baseline=levels[0],
        blocks=blocks,
        seed=7,
        side_by_side=side_by_side,
    )


def trial(block: int, position: int, tps: float, **levels: str) -> Trial:
    """A trial that took place in that order, with that throughput."""
    number = 100 * block + position
    outcome = Outcome(
        seconds=30.0,
        transactions=round(30 * tps),
        failed=0,
        skipped=0,
        tps=tps,
        tps_samples=(tps,) * 30,
        mean_ms=8000 / tps,
        p50_ms=7000 / tps,
        p95_ms=15000 / tps,
        p99_ms=30000 / tps,
        max_ms=90000 / tps,
    )
    waits = Waits(1.0, 300, (("CPU", (0.5,) * 30), ("IO:WalSync", (3.0,) * 30)))
    return Trial(
        block,
        position,
        tuple(levels.items()),
        f"2026-11-21T00:{number // 60:02d}:{number % 60:02d}.000+00:00",
        outcome,
        Instruments(waits=waits, cpu=CpuUse(2, 1.5, 0.3)),
        BUILD,
        usd_month=100.0,
    )
