"""What pgbench's transaction logs are made to say."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.experiment.workloads.outcome import (
    BINS_PER_DECADE,
    histogram_of,
    outcome_of,
    outcome_of_logs,
    work_per_second,
)
from pgstow.experiment.workloads.transactions import parse_log

BEGAN_US = 1_700_000_000_000_000
LOG = b"""0 1 1000 0 1700000000 100000
1 1 3000 1 1700000000 900000
0 2 failed 0 1700000001 100000
0 3 skipped 1 1700000001 200000
1 2 5000 1 1700000002 400000
"""
LATENCIES_US = st.lists(st.integers(0, 10**9), min_size=1, max_size=300)


def test_failed_and_skipped_are_counted_apart_from_latencies() -> None:
    found = outcome_of(parse_log(LOG), ("a", "b"), BEGAN_US, BEGAN_US + 2_500_000)
    (_, first), (_, second) = found.scripts
    assert (first.transactions, first.failed, first.skipped) == (1, 1, 0)
    assert (second.transactions, second.failed, second.skipped) == (2, 0, 1)
    assert second.mean_ms == pytest.approx(4.0)
    assert second.tps == pytest.approx(0.8)
    assert (found.transactions, found.failed, found.skipped) == (3, 1, 1)
    assert found.tps == pytest.approx(first.tps + second.tps)


def test_a_sampled_log_stands_for_all() -> None:
    found = outcome_of(parse_log(LOG), ("a", "b"), BEGAN_US, BEGAN_US + 2_500_000, 0.1)
    assert [part.transactions for _, part in found.scripts] == [10, 20]
    assert found.tps == pytest.approx(12)
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 3


@given(st.integers(0, len(LOG)))
def test_a_log_that_was_cut_off_gives_its_whole_lines(length: int) -> None:
    assert len(parse_log(LOG[:length])) == LOG[:length].count(b"\n")


def test_logs_read_in_parts_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgstow.experiment.workloads.transactions._PART_BYTES", 7)
    (tmp_path / "one").write_bytes(LOG)
    (tmp_path / "two").write_bytes(LOG[:-3])
    found = outcome_of_logs(tmp_path.iterdir(), ("a", "b"))
    assert found is not None
    assert (found.transactions, found.failed, found.skipped) == (5, 2, 2)
    assert outcome_of_logs(tmp_path.iterdir(), ("a",), ended_at=1e9) is None


def test_of_a_rate_the_latency_is_from_when_it_was_due() -> None:
    log = parse_log(b"0 1 5000 0 1700000000 100000 3000\n0 2 skipped 0 1700000000 200000 900000\n")
    assert log.latency_us.tolist() == [5000, -2]
    assert log.begin_us.tolist() == [BEGAN_US + 98_000, BEGAN_US + 200_000]


def test_seconds_without_transactions_are_samples_of_zero() -> None:
    log = parse_log(b"0 1 1000 0 1700000000 100000\n0 2 1000 0 1700000003 100000\n")
    found = outcome_of(log, ("a",), BEGAN_US, BEGAN_US + 4_500_000)
    assert found.tps_samples == pytest.approx((1.0, 0.0, 0.0, 1.0))


def test_a_part_of_a_run_is_what_ended_in_it() -> None:
    log = parse_log(LOG)
    assert log.begin_us.min() == BEGAN_US + 99_000
    assert len(log.ended(BEGAN_US + 500_000, BEGAN_US + 2_000_000)) == 3


def test_a_long_transaction_counts_by_its_share() -> None:
    log = parse_log(b"0 1 4000000 0 1700000003 0\n0 2 4000000 0 1700000007 0\n")
    found = outcome_of(log, ("scan",), BEGAN_US, BEGAN_US + 5_000_000)
    assert found.transactions == 1
    assert found.tps == pytest.approx(0.25)
    assert found.tps_samples == pytest.approx((0.25,) * 5)


def test_no_transactions_have_no_latency() -> None:
    found = outcome_of(parse_log(b"0 1 failed 0 1700000000 5\n"), ("a",), BEGAN_US, BEGAN_US + 9)
    assert (found.transactions, found.failed, found.tps) == (0, 1, 0)
    assert found.mean_ms is None
    assert found.p99_ms is None
    assert found.histogram is None


@given(LATENCIES_US)
def test_percentiles_are_in_order_and_within_the_extremes(latencies_us: list[int]) -> None:
    lines = "".join(f"0 1 {latency} 0 1700000000 5\n" for latency in latencies_us)
    found = outcome_of(parse_log(lines.encode()), ("a",), BEGAN_US, BEGAN_US + 1_000_000)
    assert found.transactions == len(latencies_us)
    values = [found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms]
    assert None not in values
    assert values == sorted(values, key=lambda value: value or 0)
    assert found.max_ms == pytest.approx(max(latencies_us) / 1000)


@given(LATENCIES_US)
def test_every_latency_is_in_the_bin_that_says_so(latencies_us: list[int]) -> None:
    found = histogram_of(np.array(latencies_us))
    assert len(found.upper_ms) == len(found.counts)
    assert sum(found.counts) == len(latencies_us)
    for index, upper_ms in enumerate(found.upper_ms):
        below = sum(latency < upper_ms * 1000 for latency in latencies_us)
        assert sum(found.counts[: index + 1]) == below
    assert found.counts[0] > 0
    assert found.counts[-1] > 0


@given(LATENCIES_US, LATENCIES_US)
def test_histograms_of_two_runs_can_be_added(one: list[int], other: list[int]) -> None:
    both = histogram_of(np.array(one + other))
    parts = [histogram_of(np.array(latencies)) for latencies in (one, other)]
    counts = [dict(zip(part.upper_ms, part.counts, strict=True)) for part in parts]
    for upper_ms, count in zip(both.upper_ms, both.counts, strict=True):
        assert sum(part.get(upper_ms, 0) for part in counts) == count


def test_bins_are_twenty_a_decade() -> None:
    found = histogram_of(np.array([1_000, 9_999]))
    assert len(found.counts) == BINS_PER_DECADE
    assert found.upper_ms[-1] == 10


@given(
    st.lists(st.tuples(st.integers(0, 9_999_999), st.integers(0, 5_000_000)), max_size=50),
    st.integers(0, 3_000_000),
    st.integers(1, 6_000_000),
)
def test_work_is_the_sum_of_the_shares_in_the_time(
    transactions: list[tuple[int, int]], first_us: int, length_us: int
) -> None:
    last_us = first_us + length_us
    begin = np.array([begin for begin, _ in transactions], dtype=np.int64)
    end = np.array([begin + lasts for begin, lasts in transactions], dtype=np.int64)
    expected = 0.0
    for one, other in zip(begin, end, strict=True):
        begin_us = min(one, other - 1)
        inside = max(min(other, last_us) - max(begin_us, first_us), 0)
        expected += inside / (other - begin_us)
    work = work_per_second(begin, end, first_us, last_us)
    assert len(work) == -(-length_us // 1_000_000)
    assert work.sum() == pytest.approx(expected)
    assert (work >= 0).all()
