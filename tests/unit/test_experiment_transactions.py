"""What pgbench's transaction logs are made to say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.experiment import Script, WorkloadSpec
from pgstow.experiment.transactions import (
    parse_log,
    samples_per_second,
    summarise_latency,
    summarise_scripts,
)
from pgstow.model.errors import UserError

LOG = b"""0 1 1000 0 1700000000 100000
1 1 3000 1 1700000000 900000
0 2 failed 0 1700000001 100000
0 3 skipped 1 1700000001 200000
1 2 5000 1 1700000002 400000
"""


def script(name: str, weight: int = 1) -> Script:
    from pathlib import Path

    return Script(name, Path(f"/scripts/{name}.sql"), weight)


def test_failed_and_skipped_are_counted_apart_from_latencies() -> None:
    log = parse_log(LOG)
    first, second = summarise_scripts(log, (script("a"), script("b")), 2.5, 1.0)
    assert (first.transactions, first.failed, first.skipped) == (1, 1, 0)
    assert (second.transactions, second.failed, second.skipped) == (2, 0, 1)
    assert second.latency.mean_ms == pytest.approx(4.0)
    assert second.tps == pytest.approx(0.8)


def test_a_sampled_log_stands_for_all() -> None:
    (first, second) = summarise_scripts(parse_log(LOG), (script("a"), script("b")), 2.5, 0.1)
    assert (first.transactions, second.transactions) == (10, 20)
    assert second.latency.count == 2


@given(st.integers(0, len(LOG)))
def test_a_log_that_was_cut_off_gives_its_whole_lines(length: int) -> None:
    assert len(parse_log(LOG[:length])) == LOG[:length].count(b"\n")


def test_seconds_without_transactions_are_samples_of_zero() -> None:
    log = parse_log(b"0 1 1000 0 1700000000 100000\n0 2 1000 0 1700000003 100000\n")
    first_us = 1_700_000_000_000_000
    samples = samples_per_second(log, first_us, first_us + 4_000_000, 1.0)
    assert samples == (1.0, 0.0, 0.0, 1.0)


def test_a_part_of_a_run_is_what_ended_in_it() -> None:
    log = parse_log(LOG)
    assert log.begin_us() == 1_700_000_000_000_000 + 99_000
    part = log.between(1_700_000_000_500_000, 1_700_000_002_000_000)
    assert len(part) == 3


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_percentiles_are_in_order_and_within_the_extremes(latencies_us: list[int]) -> None:
    found = summarise_latency(np.array(latencies_us))
    assert found.count == len(latencies_us)
    assert None not in (found.mean_ms, found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms)
    values = [found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms]
    assert values == sorted(values, key=lambda value: value or 0)
    assert found.max_ms == pytest.approx(max(latencies_us) / 1000)


def test_no_transactions_have_no_latency() -> None:
    found = summarise_latency(np.array([-1, -2]))
    assert found.count == 0
    assert found.mean_ms is None
    assert found.p99_ms is None


def test_impossible_workloads_are_refused() -> None:
    with pytest.raises(UserError, match="weight"):
        script("a", 0)
    with pytest.raises(UserError, match="no scripts"):
        WorkloadSpec("empty", ())
    with pytest.raises(UserError, match="twice"):
        WorkloadSpec("double", (script("a"), script("a")))
