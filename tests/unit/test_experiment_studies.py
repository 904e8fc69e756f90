"""Studies held against trials: what of a claim holds, what does not, and what nobody knows."""

from dataclasses import replace

import pytest
from experiment_samples import experiment, trial
from hypothesis import given
from hypothesis import strategies as st

from pgstow.model import (
    Claim,
    Column,
    CommitUse,
    DeviceUse,
    Experiment,
    Instruments,
    Levels,
    PublishedRow,
    Study,
    Trial,
    UserError,
    Waits,
    WalUse,
    Warning,
)
from pgstow.model.statistics import Interval
from pgstow.studies_file import read_study, study_names
from pgstow.verification.experiments import LIMITED_BY_EMULATOR, hold_against, summaries
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
    assert ratio == pytest.approx(1.36, rel=0.01) and verdict == "not demonstrated"


def test_what_was_not_measured_has_no_ratio() -> None:
    elsewhere = Claim("elsewhere", "tps", (("wal", "nvme"),), SHARED, 2.0)
    assert held(elsewhere, trials(1.3)) == (None, "not demonstrated")
    assert held(claim(1.3, "wal_sync_ms"), trials(1.3)) == (None, "not demonstrated")


def test_an_interval_that_reaches_out_of_the_tolerance_does_not_hold() -> None:
    claimed = claim(1.36)  # 1.02 to 1.70
    within = Interval(1.30, 1.20, 1.41, 5, 0.99)
    assert verdict_on(claimed, 1.30, within) == "holds"
    assert verdict_on(claimed, 1.60, Interval(1.60, 1.45, 1.77, 5, 0.99)) == "not demonstrated"
    assert verdict_on(claimed, 1.30, Interval(1.30, 0.99, 1.50, 5, 0.99)) == "not demonstrated"
    assert verdict_on(claimed, 0.90, Interval(0.90, 0.80, 1.10, 5, 0.99)) == "not demonstrated"
    assert verdict_on(claimed, 2.00, Interval(2.00, 1.80, 2.20, 5, 0.99)) == "does not hold"


@pytest.mark.parametrize(
    ("published", "inside"), [(1.30, True), (1.36, False), (1.0, False), (None, None)]
)
def test_the_strict_reading_asks_where_the_published_ratio_is(
    published: float | None, inside: bool | None
) -> None:
    side = None if published is not None else "higher"
    made = Claim("a claim", "tps", APART, SHARED, published, side=side)  # type: ignore[arg-type]
    (outcome,) = hold_against(study(made), experiment(), trials(1.30, blocks=6)).claims
    assert outcome.is_published_inside == inside


def test_a_claim_without_a_figure_holds_on_its_side_of_one() -> None:
    fewer = Claim("fewer", "tps", APART, SHARED, None, side="lower")
    assert held(fewer, trials(0.7))[1] == "holds"
    assert held(fewer, trials(1.3))[1] == "does not hold"
    assert verdict_on(fewer, 0.9, Interval(0.9, 0.7, 1.1, 4, 0.99)) == "not demonstrated"
    with pytest.raises(UserError, match="which side"):
        Claim("neither", "tps", APART, SHARED, None)


def regimes(trial_: Trial, *speeds: float) -> Trial:
    samples = tuple(speed * trial_.outcome.tps for speed in speeds for _ in range(10))
    return replace(trial_, outcome=replace(trial_.outcome, tps_samples=samples))


def test_regimes_within_trials_are_told_apart() -> None:
    made = [
        regimes(one, 1.0, 0.5, 0.5) if dict(one.levels)["wal"] == "shared" else one
        for one in trials(6.0)
    ]
    (outcome,) = hold_against(study(claim(6.0)), experiment(), made).claims
    assert outcome.thirds == pytest.approx((6.0, 12.0, 12.0), rel=0.01)
    (latency,) = hold_against(study(claim(6.0, "p99_ms")), experiment(), made).claims
    assert latency.thirds is None
    shared, _ = summaries(experiment(), made)
    assert shared.tps_thirds == pytest.approx((250.0, 125.0, 125.0))


def test_a_claim_on_trials_that_the_emulator_limited_is_marked() -> None:
    found = trials(1.3)
    late = replace(found[0], warnings=(Warning(LIMITED_BY_EMULATOR, "late"),))
    (outcome,) = hold_against(study(claim(1.3)), experiment(), (late, *found[1:])).claims
    (sound,) = hold_against(study(claim(1.3)), experiment(), found).claims
    assert outcome.is_limited and not sound.is_limited


def test_what_commits_writes_and_connections_took_are_metrics() -> None:
    wal = WalUse(4096e3, 10, 0, writes=2000, syncs=1000, write_ms=100.0, sync_ms=500.0)
    device = DeviceUse("loop0", "data", 5.0, 200.0, 0.0, 200 * 8192.0, None, 1.0, 0.0, 1.0, 7.5)
    outcome = replace(
        trials(1.3)[0].outcome, transactions=1000, tps=100.0, stddev_ms=2.5, connection_ms=44.0
    )
    used = Instruments(
        wal=replace(wal, write_ms_worst_second=0.9),
        devices=(device, replace(device, await_ms_worst_second=None)),
        commits=CommitUse(50, 1.0, 3.0, 4.0),
    )
    one = replace(trials(1.3)[0], outcome=outcome, instruments=used)
    expected = {
        "stddev_ms": 2.5,
        "seconds": 30.0,
        "connection_ms": 44.0,
        "commit_mean_ms": 1.0,
        "commit_p99_ms": 3.0,
        "commit_max_ms": 4.0,
        "wal_sync_us": 500.0,
        "wal_write_us": 100.0,
        "wal_write_max_ms": 0.9,
        "wal_writes": 2.0,
        "wal_write_kib": 2.0,
        "await_max_ms": 7.5,
        "device_writes": 4.0,
        "device_write_kib": 8.0,
    }
    assert {name: known_metric(name).read(one) for name in expected} == pytest.approx(expected)
    bare = replace(one, instruments=Instruments())
    unread = [name for name in expected if name not in ("stddev_ms", "seconds", "connection_ms")]
    assert [known_metric(name).read(bare) for name in unread] == [None] * len(unread)


intervals = st.tuples(st.floats(0.01, 100), st.floats(1, 3), st.floats(1, 3))


@given(intervals, st.floats(0.05, 40))
def test_a_wider_interval_never_decides_more(
    found: tuple[float, float, float], claimed: float
) -> None:
    ratio, below, above = found
    narrow = Interval(ratio, ratio / below, ratio * above, 5, 0.99)
    wide = Interval(ratio, ratio / below / 1.5, ratio * above * 1.5, 5, 0.99)
    one, other = (verdict_on(claim(claimed), ratio, interval) for interval in (narrow, wide))
    assert other in (one, "not demonstrated")


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
