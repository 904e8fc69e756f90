"""Trials summarised, compared in pairs of a block, and how many blocks it takes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from experiment_samples import BUILD, experiment, treatment, trial
from hypothesis import given
from hypothesis import strategies as st

from pgstow.model import Experiment, Instruments, Trial, UserError, WalUse
from pgstow.verification import mean_interval
from pgstow.verification.experiments import (
    compare,
    needed_blocks,
    summaries,
)

pair = st.tuples(st.floats(min_value=1, max_value=1e5), st.floats(min_value=1, max_value=1e5))
pairs = st.lists(pair, min_size=3, max_size=12)


def trials(values: list[tuple[float, ...]], *levels: str) -> tuple[Trial, ...]:
    """One block a tuple, one level a value; the order in a block turns from block to block."""
    return tuple(
        trial(block, (place + block) % len(values[0]), tps, wal=level)
        for block, one in enumerate(values)
        for place, (level, tps) in enumerate(zip(levels or ("shared", "apart"), one, strict=True))
    )


def without(made: tuple[Trial, ...], block: int, level: str) -> tuple[Trial, ...]:
    return tuple(t for t in made if (t.block, t.levels) != (block, (("wal", level),)))


def test_a_summary_has_mean_interval_spread_and_price() -> None:
    made = trials([(99.0, 200.0), (100.0, 200.0), (101.0, 200.0)])
    shared, apart = summaries(experiment(), made, confidence=0.95)
    assert shared.tps is not None and shared.tps.interval is not None
    assert (shared.levels, shared.trials) == ((("wal", "shared"),), 3)
    assert shared.tps.mean == pytest.approx(100) and shared.tps.cv == pytest.approx(0.01)
    # Student's for 2 degrees of freedom: 4.303 standard errors
    assert shared.tps.interval.high == pytest.approx(100 + 4.303 / math.sqrt(3), abs=1e-3)
    assert shared.tps.values == (99.0, 100.0, 101.0)
    assert shared.p99_ms is not None and shared.p99_ms.mean == pytest.approx(300, rel=1e-3)
    assert shared.usd_month == 100 and shared.usd_per_1000_tps == pytest.approx(1000)
    assert apart.usd_per_1000_tps == pytest.approx(500)


def test_what_a_summary_does_not_know_stays_unknown() -> None:
    one = trial(0, 0, 100.0, wal="shared")
    one = replace(one, usd_month=None, outcome=replace(one.outcome, p99_ms=None))
    shared, apart = summaries(experiment(), [one])
    assert shared.usd_month is None and shared.usd_per_1000_tps is None
    assert shared.p99_ms is None
    assert shared.tps is not None and shared.tps.interval is None and shared.tps.cv is None
    assert apart.trials == 0 and apart.tps is None


def test_a_treatment_that_did_nothing_has_no_price_for_its_work() -> None:
    one = trial(0, 0, 100.0, wal="shared")
    (shared, _) = summaries(experiment(), [replace(one, outcome=replace(one.outcome, tps=0.0))])
    assert shared.tps is not None and shared.tps.mean == 0
    assert shared.usd_month == 100 and shared.usd_per_1000_tps is None


def test_pairs_of_a_block_show_what_blocks_hide() -> None:
    made = trials([(100, 110), (200, 221), (400, 439), (800, 882), (300, 330), (500, 551)])
    (found,) = compare(experiment(blocks=6), made)
    assert found.verdict == "higher" and found.is_shown and found.method == "t"
    assert found.ratio == pytest.approx(1.10, abs=0.01)
    assert found.ratio_interval is not None and found.difference_interval is not None
    assert 1.09 < found.ratio_interval.low < found.ratio_interval.high < 1.12
    assert found.difference == pytest.approx(233 / 6)
    assert found.blocks == (0, 1, 2, 3, 4, 5) and found.blocks_left_out == ()
    assert (found.factor, found.level, found.baseline) == ("wal", "apart", "shared")


def test_few_blocks_are_compared_as_paired_samples_are() -> None:
    before, after = [100.0, 120.0, 90.0, 110.0, 101.0], [104.0, 121.0, 97.0, 113.0, 108.0]
    expected = mean_interval(
        [math.log(b / a) for a, b in zip(before, after, strict=True)], confidence=0.99
    )
    (found,) = compare(experiment(), trials(list(zip(before, after, strict=True))))
    assert found.ratio_interval is not None and expected is not None
    assert found.ratio == pytest.approx(math.exp(expected.mean))
    assert found.ratio_interval.low == pytest.approx(math.exp(expected.low))
    assert found.ratio_interval.high == pytest.approx(math.exp(expected.high))


@given(pairs, st.floats(min_value=0.01, max_value=100))
def test_the_unit_does_not_matter(values: list[tuple[float, float]], factor: float) -> None:
    (one,) = compare(experiment(), trials(values))
    (other,) = compare(experiment(), trials([(a * factor, b * factor) for a, b in values]))
    assert other.ratio == pytest.approx(one.ratio)
    assert other.p_value == pytest.approx(one.p_value, abs=2e-4)
    assert one.difference is not None
    assert other.difference == pytest.approx(one.difference * factor, rel=1e-6, abs=1e-6)


@given(pairs)
def test_changing_places_inverts_the_ratio(values: list[tuple[float, float]]) -> None:
    (one,) = compare(experiment(), trials(values))
    (other,) = compare(experiment(), trials([(b, a) for a, b in values]))
    assert one.ratio is not None and other.ratio is not None
    assert one.ratio * other.ratio == pytest.approx(1)
    mirrored = {"higher": "lower", "lower": "higher"}
    assert other.verdict == mirrored.get(one.verdict, one.verdict)


@given(pairs, st.sampled_from([0.9, 0.95, 0.99]))
def test_a_lone_verdict_is_what_its_interval_says(
    values: list[tuple[float, float]], confidence: float
) -> None:
    (found,) = compare(experiment(), trials(values), confidence=confidence)
    interval = found.ratio_interval
    assert interval is not None and found.p_value is not None
    assert interval.low <= interval.mean * (1 + 1e-9) and interval.mean <= interval.high * 1.000001
    if abs(found.p_value - (1 - confidence)) > 1e-9:
        leaves_out_1 = interval.low > 1 or interval.high < 1
        assert found.is_shown == leaves_out_1


def test_the_order_of_the_trials_does_not_matter_and_repeating_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    made = trials([tuple(v) for v in rng.lognormal(5, 0.05, (9, 2)).tolist()])
    one = compare(experiment(), made)
    assert one[0].method == "bootstrap"
    assert compare(experiment(), tuple(reversed(made))) == one
    assert compare(experiment(), made) == one
    other = compare(replace(experiment(), seed=8), made)
    assert other[0].ratio == one[0].ratio
    assert other[0].ratio_interval != one[0].ratio_interval


def test_a_block_without_its_partner_is_left_out_and_said() -> None:
    made = trials([(100, 110), (100, 111), (100, 112), (100, 113), (50, 500)])
    (found,) = compare(experiment(), without(made, 4, "shared"))
    assert found.blocks == (0, 1, 2, 3) and found.blocks_left_out == (4,)
    assert found.ratio == pytest.approx((1.10 * 1.11 * 1.12 * 1.13) ** 0.25)


def test_too_few_blocks_give_no_verdict() -> None:
    (found,) = compare(experiment(), trials([(100, 400), (100, 401)]))
    assert found.verdict == "too few blocks" and not found.is_shown
    assert found.ratio == pytest.approx(4.005, abs=1e-3) and found.ratio_interval is None
    (found,) = compare(experiment(), [])
    assert (found.ratio, found.difference, found.p_value) == (None, None, None)
    assert found.verdict == "too few blocks"


def test_blocks_all_alike_are_taken_as_they_are() -> None:
    (same,) = compare(experiment(), trials([(100, 100)] * 8))
    assert same.verdict == "no difference demonstrated" and same.p_value == 1
    for blocks in (3, 8):
        (found,) = compare(experiment(), trials([(100, 110)] * blocks))
        assert found.verdict == "higher" and found.relative_half_width == pytest.approx(0, abs=1e-6)


def test_levels_are_compared_where_other_factors_are_equal() -> None:
    made = [
        trial(block, position, tps * (1 + block / 100), wal=wal, fs=fs)
        for block in range(4)
        for position, (wal, fs, tps) in enumerate(
            [
                ("shared", "xfs", 100.0),
                ("apart", "xfs", 150.0),
                ("shared", "ext4", 300.0),
                ("apart", "ext4", 301.0 + block),
            ]
        )
    ]
    designed = Experiment(
        name="both",
        title="both",
        target="emulated",
        treatments=tuple(
            treatment(wal=w, fs=f) for f in ("xfs", "ext4") for w in ("shared", "apart")
        ),
        compare="wal",
        baseline="shared",
        blocks=4,
        seed=1,
    )
    xfs, ext4 = compare(designed, made)
    assert (xfs.stratum, ext4.stratum) == ((("fs", "xfs"),), (("fs", "ext4"),))
    assert xfs.ratio == pytest.approx(1.5) and xfs.verdict == "higher"
    assert ext4.verdict == "no difference demonstrated"


def test_several_comparisons_ask_more_of_each() -> None:
    # Log ratios of 2.13 % ± 1 %: Student's t of 4.76 with 5 degrees of freedom, p = 0.005.
    levels = ("none", "a", "b", "c", "d", "e")
    values: list[tuple[float, ...]] = [
        (100.0, 100 * math.exp(0.0213 + swing), *(100 * math.exp(swing),) * 4)
        for swing in (0.01, -0.01, 0.01, -0.01, 0.01, -0.01)
    ]
    many = compare(experiment(*levels), trials(values, *levels))
    (alone,) = compare(experiment("none", "a"), trials([v[:2] for v in values], "none", "a"))
    assert [one.level for one in many] == ["a", "b", "c", "d", "e"]
    assert alone.is_shown and many[0].p_value == alone.p_value
    assert alone.p_value is not None
    assert many[0].p_adjusted == pytest.approx(5 * alone.p_value)
    assert many[0].verdict == "no difference demonstrated"
    known = sorted((one.p_value or 0.0, one.p_adjusted or 0.0) for one in many)
    assert [adjusted for _, adjusted in known] == sorted(adjusted for _, adjusted in known)
    assert all(p_value <= adjusted <= 1 for p_value, adjusted in known)


def test_other_metrics_are_read_from_the_instruments() -> None:
    def flushing(one: Trial, sync_ms: float | None) -> Trial:
        wal = WalUse(3e6, 3000, 10, 1000, 1000, 200.0, sync_ms)
        return replace(one, instruments=Instruments(wal=wal))

    made = trials([(100, 110), (100, 112), (100, 111)])
    known = tuple(
        flushing(one, 500.0 + one.block if one.levels == (("wal", "apart"),) else 1000.0)
        for one in made
    )
    (sync,) = compare(experiment(), known, "wal_sync_ms")
    assert sync.baseline_values == (1.0, 1.0, 1.0) and sync.verdict == "lower"
    (written,) = compare(experiment(), known, metric="wal_bytes")
    assert written.baseline_values == (1000.0, 1000.0, 1000.0)
    (price,) = compare(experiment(), known, "usd_per_1000_tps")
    assert price.verdict == "lower" and price.ratio == pytest.approx(1 / 1.11, abs=1e-3)
    (untimed,) = compare(experiment(), tuple(flushing(one, None) for one in made), "wal_sync_ms")
    assert untimed.ratio is None and untimed.blocks_left_out == (0, 1, 2)
    with pytest.raises(UserError, match="no metric qps"):
        compare(experiment(), made, "qps")


def test_a_zero_leaves_the_difference() -> None:
    made = tuple(
        replace(one, outcome=replace(one.outcome, tps=0.0))
        if one.levels == (("wal", "apart"),) and one.block == 0
        else one
        for one in trials([(100, 1), (101, 2), (102, 1), (100, 3)])
    )
    (found,) = compare(experiment(), made)
    assert found.ratio is None and found.ratio_interval is None
    assert found.difference == pytest.approx(-99.25) and found.verdict == "lower"
    with pytest.raises(UserError, match="relative half-width"):
        needed_blocks(found, 0.02)


def test_different_builds_are_refused() -> None:
    made = trials([(100, 110), (100, 112), (100, 111)])
    for other in (
        replace(BUILD, pgstow="0.2.0"),
        replace(BUILD, postgres="17.2"),
        replace(BUILD, workload="pgbench (PostgreSQL) 16.1"),
        replace(BUILD, machine="64 cores, 512 GiB"),
    ):
        with pytest.raises(UserError, match="different builds"):
            compare(experiment(), (*made[:-1], replace(made[-1], build=other)))


def test_versions_may_be_a_factor_and_blocks_may_be_on_machines_of_their_own() -> None:
    designed = experiment()
    one, other = designed.treatments
    designed = replace(
        designed, treatments=(one, replace(other, server=replace(other.server, version=17)))
    )
    made = tuple(
        replace(
            t,
            host=f"machine-{t.block}",
            build=replace(
                BUILD,
                postgres="17.2" if t.levels == other.levels else "18.4",
                machine=f"{t.block + 2} cores",
            ),
        )
        for t in trials([(100, 110), (100, 112), (100, 111)])
    )
    assert compare(designed, made)[0].verdict == "higher"


def test_the_blocks_that_are_asked_for_give_the_target_width() -> None:
    rng = np.random.default_rng(2)
    values = [tuple(v) for v in (100 * rng.lognormal(0, 0.02, (60, 2))).tolist()]
    (found,) = compare(experiment(), trials(values[:6]))
    assert found.relative_half_width is not None and found.relative_half_width > 0.02
    blocks = needed_blocks(found, 0.02)
    assert 6 < blocks < 60
    # With the same spread: as many blocks again of the same values, in whole copies.
    logs = np.log(np.divide(found.level_values, found.baseline_values))
    deviation = logs.std(ddof=1)
    quantile = 3.169  # Student's, 99 %, 10 degrees of freedom: the least it could need
    assert quantile * deviation / math.sqrt(blocks) <= 0.02 * 1.35
    assert needed_blocks(found, 0.01) > blocks > needed_blocks(found, 0.05)
    assert needed_blocks(found, 1.0) == 6
    (reached,) = compare(experiment(), trials(values[:blocks]))
    assert needed_blocks(reached, (reached.relative_half_width or 0) * (1 + 1e-9)) == blocks


def test_where_nothing_is_known_the_fewest_blocks_are_needed() -> None:
    (found,) = compare(experiment(), [])
    assert needed_blocks(found, 0.02) == 3
    (found,) = compare(experiment(), trials([(100, 400), (100, 401)]))
    assert needed_blocks(found, 0.02) == 3
    with pytest.raises(UserError, match="half-width"):
        needed_blocks(found, 0)
