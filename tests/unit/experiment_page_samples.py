"""Sections on experiments as a real run would leave them: drawn from distributions, seeded."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import experiment_samples as samples

from pgstow.model import (
    CheckpointUse,
    CpuUse,
    DeviceUse,
    Experiment,
    Instruments,
    LatencyHistogram,
    Levels,
    Outcome,
    Trial,
    Waits,
    WalUse,
    Warning,
)
from pgstow.report import ExperimentSection
from pgstow.studies_file import read_study
from pgstow.units import GIB, Bytes
from pgstow.verification import experiments as statistics

BINS = tuple(round(0.05 * 10 ** (place / 20), 4) for place in range(100))  # 0.05 ms to 4.5 s
SECONDS = 60
HOSTILE = (
    "<script>alert(1)</script>",
    '=cmd|"/c calc"!A1',
    'line\nbreak\u202e\' id="x"',
    "';DROP TABLE trial;--\\",
    "ext4",
)


def wal_split(blocks: int = 6) -> ExperimentSection:
    """Two levels: a clear effect."""
    return section(
        design("wal-split", "WAL on its own volume", {"wal": ("shared", "apart")}, "wal", blocks),
        lambda levels: 1800.0 * (1.36 if dict(levels)["wal"] == "apart" else 1.0),
    )


def studied(blocks: int = 6) -> ExperimentSection:
    """Two levels, held against the study that published them."""
    made = wal_split(blocks)
    outcome = statistics.hold_against(read_study("wal-split"), made.experiment, made.trials)
    return replace(made, study=outcome)


def filesystem(blocks: int = 6) -> ExperimentSection:
    """Three levels: one differs by less than the noise."""
    speeds = {"ext4": 1500.0, "xfs": 1508.0, "btrfs": 980.0}
    return section(
        design(
            "filesystem", "XFS against ext4", {"filesystem": tuple(speeds)}, "filesystem", blocks
        ),
        lambda levels: speeds[dict(levels)["filesystem"]],
    )


def striping(blocks: int = 4) -> ExperimentSection:
    """Sixteen levels in three strata."""
    layouts = tuple(f"{n} × gp3, {c} kB" for n, c in product((2, 4, 8, 16), (8, 16, 32, 64)))[:15]
    reads = {"key read": 3000.0, "batch read": 60.0, "full scan": 0.021}
    factors = {"reads": tuple(reads), "stripes": ("1 × gp3", *layouts)}

    def speed(levels: Levels) -> float:
        found = dict(levels)
        return reads[found["reads"]] * min(6.5, int(found["stripes"].split()[0]) ** 0.9)

    return section(design("striping", "Striping gp3 volumes", factors, "stripes", blocks), speed)


def hostile(blocks: int = 3) -> ExperimentSection:
    """Text that means harm wherever text comes from outside."""
    text = "".join(HOSTILE[:3]) + "</title></style></script>"
    made = section(
        design(text, text, {HOSTILE[0]: HOSTILE, "b": HOSTILE[:2]}, HOSTILE[0], blocks),
        lambda levels: 100.0 + 20 * HOSTILE.index(levels[0][1]),
    )
    build = replace(samples.BUILD, machine=text, workload=text, postgres=text, kernel=text)
    waits = Waits(1.0, 10, tuple((name, (1.0,) * 5) for name in HOSTILE))
    trials = tuple(
        replace(
            trial,
            build=build,
            host=text,
            instruments=replace(trial.instruments, waits=waits),
            warnings=(Warning("x", text, text),),
        )
        for trial in made.trials
    )
    return replace(made, trials=trials)


def design(
    name: str, title: str, factors: Mapping[str, Sequence[str]], compare: str, blocks: int
) -> Experiment:
    """Every combination of the factors' levels."""
    treatments = tuple(
        samples.treatment(**dict(zip(factors, levels, strict=True)))
        for levels in product(*factors.values())
    )
    return Experiment(
        name=name,
        title=title,
        target="emulated",
        treatments=treatments,
        compare=compare,
        baseline=factors[compare][0],
        blocks=blocks,
        seed=7,
        profile="full",
    )


def section(
    experiment: Experiment, speed: Callable[[Levels], float], seed: int = 3
) -> ExperimentSection:
    """Its trials, and what the statistics say of them."""
    draw = random.Random(seed)
    trials: list[Trial] = []
    for block in range(experiment.blocks):
        mood = math.exp(draw.gauss(0, 0.03))
        order = draw.sample(experiment.treatments, len(experiment.treatments))
        for position, treatment in enumerate(order):
            tps = speed(treatment.levels) * mood * math.exp(draw.gauss(0, 0.01))
            trials.append(trial(draw, block, position, treatment.levels, tps, len(trials)))
    return of(experiment, tuple(trials))


def of(experiment: Experiment, trials: tuple[Trial, ...]) -> ExperimentSection:
    """The section on these trials."""
    return ExperimentSection(
        experiment=experiment,
        trials=trials,
        summaries=statistics.summaries(experiment, trials),
        comparisons=(
            *statistics.compare(experiment, trials),
            *statistics.compare(experiment, trials, metric="p99_ms"),
        ),
        warnings=statistics.validity_checks(experiment, trials),
        run=1,
    )


def trial(
    draw: random.Random, block: int, position: int, levels: Levels, tps: float, number: int
) -> Trial:
    """One minute of eight clients, with a checkpoint in it."""
    mean_ms = 8000 / tps
    dips = [0.7 if 35 <= second < 41 else 1.0 for second in range(SECONDS)]
    outcome = Outcome(
        seconds=float(SECONDS),
        transactions=round(SECONDS * tps),
        failed=0,
        skipped=0,
        tps=tps,
        tps_samples=tuple(tps * dip * math.exp(draw.gauss(0, 0.06)) for dip in dips),
        mean_ms=mean_ms,
        p50_ms=mean_ms * 0.8,
        p95_ms=mean_ms * 2.2,
        p99_ms=mean_ms * 4 * math.exp(draw.gauss(0, 0.1)),
        max_ms=mean_ms * 12,
        histogram=histogram(draw, mean_ms, tps),
    )
    return Trial(
        block=block,
        position=position,
        levels=levels,
        began_at=f"2026-11-21T{1 + number // 60:02d}:{number % 60:02d}:00.000+00:00",
        outcome=outcome,
        instruments=instruments(draw, tps, dips),
        build=samples.BUILD,
        usd_month=round(80 + 60 * draw.random() ** 0, 2) + tps / 100,
    )


def histogram(draw: random.Random, mean_ms: float, tps: float) -> LatencyHistogram:
    """Log-normal, with a tenth of the transactions behind a flush."""
    bins: dict[float, int] = {}
    for _ in range(2000):
        middle = math.log(mean_ms * (3.5 if draw.random() < 0.1 else 0.7))
        value = math.exp(draw.gauss(middle, 0.4))
        upper = next((one for one in BINS if value < one), BINS[-1])
        bins[upper] = bins.get(upper, 0) + 1
    ordered = sorted(bins)
    scale = max(1, round(tps * SECONDS / 2000))
    return LatencyHistogram(tuple(ordered), tuple(bins[upper] * scale for upper in ordered))


def instruments(draw: random.Random, tps: float, dips: Sequence[float]) -> Instruments:
    """What such a trial's instruments read."""
    weights = {
        "CPU": 1.6, "IO:WalSync": 2.2, "IO:DataFileRead": 1.4, "LWLock:WALWrite": 1.2,
        "IO:WalWrite": 0.3, "Client:ClientRead": 0.4, "LWLock:BufferContent": 0.25,
        "Lock:transactionid": 0.2, "Timeout:VacuumDelay": 0.05, "IPC:ProcarrayGroupUpdate": 0.04,
    }  # fmt: skip
    sessions = tuple(
        (event, tuple(round(w * (0.8 + 0.4 * draw.random()) / dip, 3) for dip in dips))
        for event, w in weights.items()
    )
    return Instruments(
        wal=WalUse(tps * 3200 * SECONDS, round(tps * 400), 900, round(tps * 30), round(tps * 20),
                   None, tps * 21.5),
        checkpoints=CheckpointUse(1, 0, 12_000, 4100.0, 220.0),
        waits=Waits(1.0 + draw.random() / 1000, 600, sessions),
        devices=(
            DeviceUse("loop3", "data", tps * 0.6, tps * 0.4, tps * 4915, tps * 3300, 0.8, 1.4, 3.0,
                      2.1),
            DeviceUse("loop4", "wal", 0.0, tps * 0.5, 0.0, tps * 4400, None, 0.9, tps * 0.3, 0.7),
        ),
        cpu=CpuUse(2, 1.7, 0.3),
        database_bytes=Bytes(3 * GIB),
    )  # fmt: skip
