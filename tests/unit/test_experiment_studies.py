"""Studies held against trials: what of a claim holds, what does not, and what nobody knows."""

from dataclasses import replace

import pytest
from experiment_samples import experiment, trial
from hypothesis import given
from hypothesis import strategies as st

from pgstow.model import (
    Claim,
    Column,
    Experiment,
    Instruments,
    Levels,
    PublishedRow,
    Study,
    Trial,
    UserError,
    Waits,
)
from pgstow.studies_file import read_study, study_names
from pgstow.verification import Interval
from pgstow.verification.experiments import hold_against
from pgstow.verification.experiments.metrics import known_metric
from pgstow.verification.experiments.studies import verdict_on

APART, SHARED = (("wal", "apart"),), (("wal", "shared"),)


def study(*claims: Claim, metric: str | None = "tps") -> Study:
    rows = (PublishedRow("shared", (("x", 1.0),), SHARED), PublishedRow("other", (("x", 2.0),)))
    columns = (Column("x", "x", "", metric), Column("y", "y", ""))
    return Study("s", "S", "d", "p", "2026", "w", (), columns, rows, claims)


def trials(ratio: float, blocks: int = 4) -> tuple[Trial, ...]:
    """The same ratio in every block but for a hundredth; blocks differ by much more."""
    return tuple(
        trial(block, place, 100.0 * (1 + block) * (ratio * (1 + block / 500) if place else 1.0),
              wal=level)
        for block in range(blocks)
        for place, level in enumerate(("shared", "apart"))
    )  # fmt: skip


def claim(ratio: float, metric: str = "tps") -> Claim:
    return Claim("a claim", metric, APART, SHARED, ratio)


def held(made: Claim, found: tuple[Trial, ...]) -> tuple[float | None, str]:
    (outcome,) = hold_against(study(made), experiment(), found).claims
    return outcome.ratio, outcome.verdict


@pytest.mark.parametrize(
    ("published", "measured", "verdict"),
    [
        (1.36, 1.30, "holds"),
        (1.36, 2.20, "does not hold"),  # more than a quarter away
        (1.36, 0.90, "does not hold"),
        (0.50, 0.55, "holds"),
        (1.10, 0.95, "does not hold"),  # within the tolerance, on the other side of 1
        (1.00, 1.02, "holds"),
        (1.00, 1.60, "does not hold"),
    ],
)
def test_a_claim_holds_or_not(published: float, measured: float, verdict: str) -> None:
    ratio, found = held(claim(published), trials(measured))
    assert ratio == pytest.approx(measured, rel=0.01) and found == verdict


def test_too_few_blocks_show_nothing() -> None:
    ratio, verdict = held(claim(1.36), trials(1.36, blocks=2))
    assert ratio == pytest.approx(1.36, rel=0.01) and verdict == "not shown"


def test_what_was_not_measured_has_no_ratio() -> None:
    elsewhere = Claim("elsewhere", "tps", (("wal", "nvme"),), SHARED, 2.0)
    assert held(elsewhere, trials(1.3)) == (None, "not shown")
    assert held(claim(1.3, "wal_sync_ms"), trials(1.3)) == (None, "not shown")


intervals = st.tuples(st.floats(0.01, 100), st.floats(1, 3), st.floats(1, 3))


@given(intervals, st.floats(0.05, 40))
def test_a_wider_interval_never_decides_more(
    found: tuple[float, float, float], said: float
) -> None:
    ratio, below, above = found
    narrow = Interval(ratio, ratio / below, ratio * above, 5, 0.99)
    wide = Interval(ratio, ratio / below / 1.5, ratio * above * 1.5, 5, 0.99)
    one, other = (verdict_on(claim(said), ratio, interval) for interval in (narrow, wide))
    assert other in (one, "not shown")


def test_cells_are_means_over_blocks_where_levels_fit() -> None:
    outcome = hold_against(study(claim(1.3)), experiment(), trials(1.3))
    (shared, unpublished), other = outcome.measured
    assert shared is not None and shared.mean == pytest.approx(250.0) and len(shared.values) == 4
    assert unpublished is None and other == (None, None)


def test_factors_that_a_study_does_not_name_are_averaged() -> None:
    speeds = {"8": 1.0, "64": 4.0}
    found = tuple(
        trial(block, 0, 100.0 * speed * (1.5 if wal == "apart" else 1.0), wal=wal, chunk=chunk)
        for block in range(3)
        for chunk, speed in speeds.items()
        for wal in ("shared", "apart")
    )
    made = crossed(tuple({one.levels for one in found}))
    outcome = hold_against(study(claim(1.5)), made, found)
    assert outcome.claims[0].ratio == pytest.approx(1.5) and outcome.claims[0].blocks == 3
    shared = outcome.measured[0][0]
    assert shared is not None and shared.mean == pytest.approx(250.0)


def crossed(levels: tuple[Levels, ...]) -> Experiment:
    base = experiment()
    treatments = tuple(replace(base.treatments[0], levels=one) for one in sorted(levels))
    return replace(base, treatments=treatments)


def test_other_builds_are_refused() -> None:
    first, *rest = trials(1.3)
    other = replace(first, build=replace(first.build, postgres="17.1"))
    with pytest.raises(UserError, match="different builds"):
        hold_against(study(claim(1.3)), experiment(), (other, *rest))


def test_waits_and_scripts_are_metrics() -> None:
    one = trials(1.3)[0]
    waits = Waits(1.0, 10, (("CPU", (1.0, 2.0)), ("IO:WalSync", (1.0, 0.0))))
    outcome = replace(one.outcome, scripts=(("read.sql", replace(one.outcome, p99_ms=3.0)),))
    one = replace(one, instruments=Instruments(waits=waits), outcome=outcome)
    assert known_metric("waits.IO:WalSync").read(one) == pytest.approx(25.0)
    assert known_metric("waits.LWLock:WALWrite").read(one) == 0.0
    assert known_metric("scripts.read.sql.p99_ms").read(one) == 3.0
    assert known_metric("scripts.write.p99_ms").read(one) is None
    assert known_metric("waits.CPU").read(replace(one, instruments=Instruments())) is None
    for name in ("waits.", "scripts.read.speed", "scripts.p99_ms", "speed"):
        with pytest.raises(UserError, match="no metric"):
            known_metric(name)


@pytest.mark.parametrize("name", study_names())
def test_every_metric_of_the_studies_is_known(name: str) -> None:
    found = read_study(name)
    columns = [column.metric for column in found.columns if column.metric is not None]
    for metric in (*columns, *(one.metric for one in found.claims)):
        known_metric(metric)
