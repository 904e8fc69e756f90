"""Predicted against measured, effects with intervals, and measurements from profiles."""

import math
import random
from dataclasses import replace

import pytest
import report_samples as samples
from hypothesis import given
from hypothesis import strategies as st

from pgstow import catalog, verification
from pgstow.model import LatencyMs, Price, Rate
from pgstow.verification import effect, mean_interval

positive = st.floats(min_value=1.0, max_value=1e6)
several = st.lists(positive, min_size=2, max_size=30)


def test_compare_puts_signed_errors_beside_each_metric() -> None:
    predicted = samples.prediction().performance
    measured = samples.measured_after().performance
    found = {
        one.metric: one
        for one in verification.compare(predicted, measured, tps_interval=(4580.0, 5600.0))
    }
    assert found["tps"].error_pct == pytest.approx((5210 - 5641) / 5641 * 100)
    assert found["tps"].within_interval is False
    assert found["commit_ms.p99"].error_pct == pytest.approx((5.4 - 4.1) / 4.1 * 100)
    assert found["commit_ms.p99"].within_interval is None
    assert found["read_ms.p99"].measured is None and found["read_ms.p99"].error_pct is None
    assert found["tps"].predicted_from.origin == "predicted"
    assert found["tps"].measured_from.origin == "measured on emulated volumes"


def test_errors_leave_out_what_is_not_known() -> None:
    predicted = replace(samples.prediction().performance, wal_sync_us=None)
    found = verification.errors_pct(
        verification.compare(predicted, samples.measured_after().performance)
    )
    assert "wal_sync_us" not in found and "read_ms.p99" not in found
    assert set(found) >= {"tps", "latency_ms.mean", "latency_ms.p99", "dollars_per_1000_tps"}


@given(several, st.floats(min_value=0.1, max_value=10.0))
def test_an_effect_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    other = [value * 1.5 for value in reversed(values)]
    one = effect(values, other)
    scaled = effect([v * factor for v in values], [v * factor for v in other])
    assert scaled.ratio == pytest.approx(one.ratio)
    assert one.low is not None and one.high is not None
    assert one.low <= one.ratio * (1 + 1e-9) and one.ratio <= one.high * (1 + 1e-9)


@given(several, several)
def test_swapping_before_and_after_inverts_the_effect(a: list[float], b: list[float]) -> None:
    one, other = effect(a, b), effect(b, a)
    assert one.ratio * other.ratio == pytest.approx(1)
    mirrored = {"higher": "lower", "lower": "higher"}
    assert other.verdict == mirrored.get(one.verdict, one.verdict)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(400):
        before = [100 + 10 * rng.gauss(0, 1) for _ in range(12)]
        after = [200 + 20 * rng.gauss(0, 1) for _ in range(12)]
        found = effect(before, after)
        assert found.low is not None and found.high is not None
        held += found.low <= 2.0 <= found.high
    assert 0.90 <= held / 400 <= 0.99


def test_correlated_samples_count_for_fewer() -> None:
    rng = random.Random(3)
    level, wandering = 0.0, []
    for _ in range(200):
        level = 0.95 * level + rng.gauss(0, 1)
        wandering.append(100 + level)
    shuffled = wandering[:]
    rng.shuffle(shuffled)
    wide, narrow = mean_interval(wandering), mean_interval(shuffled)
    assert wide is not None and narrow is not None
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_too_little_says_so() -> None:
    assert effect([100.0], [400.0]).verdict == "too few samples"
    assert not effect([100.0], [400.0]).is_shown
    assert mean_interval([1.0]) is None
    with pytest.raises(ValueError, match="positive"):
        effect([], [1.0])


def measured(profile=None):  # type: ignore[no-untyped-def]
    rules, layout = catalog.load(), samples.layout_before()
    return verification.measurement(
        profile or samples.profile(),
        layout,
        rules.layout_price(layout),
        devices={volume.name: rules.device(volume, layout.host) for volume in layout.volumes},
        volume_prices={volume.name: rules.price(volume, layout.host) for volume in layout.volumes},
        provenance=samples.EMULATED,
    )


def test_a_profile_becomes_a_measurement() -> None:
    found = measured()
    speed = found.performance
    assert speed.tps == 1312.0
    assert speed.latency_ms.mean == pytest.approx(31.0 / 1312.0 * 1000)  # Little's law
    assert speed.latency_ms.p99 is None
    assert speed.commit_ms.p99 is not None and speed.commit_ms.mean is not None
    assert speed.commit_ms.p99 > speed.commit_ms.mean
    assert speed.usd_month == 12.0 and speed.provenance == samples.EMULATED
    (load,) = found.volumes
    assert load.utilisation == pytest.approx(2980 / 3000)
    assert (load.binding, load.iops_limit, load.usd_month) == ("iops", 3000, 12.0)
    assert speed.read_ms == LatencyMs(11.0, None)


def test_a_write_of_a_disk_that_writes_slower_counts_for_more() -> None:
    rules, layout = catalog.load(), samples.layout_before()
    (volume,) = layout.volumes
    slower = rules.device(volume, layout.host)
    slower = replace(slower, member=replace(slower.member, write_iops=1500.0))
    found = verification.measurement(
        samples.profile(), layout, Price(None), devices={volume.name: slower}
    )
    assert slower.write_cost_ratio == 2.0
    (load,), (before,) = found.volumes, measured().volumes
    assert load.utilisation - before.utilisation == pytest.approx(load.writes / 3000)


def test_unknown_stays_unknown() -> None:
    profile = samples.profile()
    idle = replace(
        profile,
        host=None,
        commit_ms=(),
        activity=replace(profile.activity, transactions=Rate(0.0)),
    )
    found = verification.measurement(idle, samples.layout_before(), Price(None))
    assert found.performance.latency_ms == LatencyMs(None, None)
    assert found.performance.commit_ms == LatencyMs(None, None)
    assert found.performance.usd_month is None and found.performance.read_ms is None
    assert found.volumes == ()
    assert found.performance.provenance.origin == "observed"


def test_a_percentile_of_few_commits_is_not_claimed() -> None:
    found = measured(replace(samples.profile(), commit_ms=(1.0, 2.0, 50.0)))
    assert found.performance.commit_ms.p99 is None
    assert found.performance.commit_ms.mean is not None
    assert "few-commit-samples" in {warning.code for warning in found.warnings}
    assert math.isclose(found.performance.commit_ms.mean, 53 / 3)
