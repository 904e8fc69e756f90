"""Counters' differences and sampled waits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.experiment.instruments import differences
from pgstow.experiment.instruments.waits import average_active_sessions
from pgstow.host.devices import DeviceCounters
from pgstow.postgres.trial import IoTotals, WalTotals

WAL = WalTotals(1000.0, 10, 1, 5, 4, 2.5, None)
IO = IoTotals(1, 8192.0, 1.0, 2, 16384.0, None, 0, 5, 0, 0, None)


def test_wal_of_a_trial_is_the_difference() -> None:
    used = differences.wal_use(WAL, WalTotals(5000.0, 30, 2, 9, 8, 12.5, None))
    assert (used.bytes, used.records, used.syncs) == (4000.0, 20, 4)
    assert (used.write_ms, used.sync_ms) == (10.0, None)


def test_a_counter_that_went_back_is_seen() -> None:
    assert not differences.went_back(WAL, replace(WAL, records=11))
    assert differences.went_back(WAL, replace(WAL, records=9))


def test_rows_of_io_begin_at_nothing_and_idle_ones_are_left_out() -> None:
    key, idle = ("client backend", "relation", "normal"), ("walwriter", "wal", "normal")
    (row,) = differences.io_use({idle: IO}, {idle: IO, key: IO})
    assert (row.backend_type, row.reads, row.read_bytes) == ("client backend", 1, 8192.0)
    assert (row.read_ms, row.write_ms) == (1.0, None)


def test_a_device_that_did_nothing_has_no_await() -> None:
    idle = DeviceCounters(7, 700, 70, 8, 800, 80, 90, 3)
    busy = DeviceCounters(17, 1700, 90, 8, 800, 80, 4090, 5)
    used = differences.device_use("loop0", "data", [idle, busy], 2.0)
    assert (used.reads_per_s, used.read_await_ms, used.write_await_ms) == (5.0, 2.0, None)
    assert (used.queue, used.flushes_per_s) == (2.0, 1.0)


def test_a_constant_load_is_the_same_in_every_slice() -> None:
    samples = [(0.1 * i, {"CPU": 2, "IO:WalSync": 3}) for i in range(1, 100)]
    waits = average_active_sessions(samples, 10.0)
    assert waits is not None
    assert (waits.slice_s, waits.samples) == (1.0, 99)
    assert dict(waits.sessions)["IO:WalSync"] == pytest.approx((3.0,) * 10)
    assert [event for event, _ in waits.sessions] == ["IO:WalSync", "CPU"]


def test_a_sample_stands_for_the_time_that_nobody_answered() -> None:
    waits = average_active_sessions([(1.0, {"CPU": 1}), (4.0, {"IO:DataFileRead": 8})], 5.0)
    assert waits is not None
    assert dict(waits.sessions)["IO:DataFileRead"] == pytest.approx((0, 8, 8, 8, 8))
    assert dict(waits.sessions)["CPU"] == pytest.approx((1, 0, 0, 0, 0))


def test_trials_of_one_schedule_have_equal_slices() -> None:
    lengths = set()
    for seconds in (19.998, 20.0, 20.0031):
        waits = average_active_sessions([(0.5, {"CPU": 1})], seconds)
        assert waits is not None
        lengths.add((waits.slice_s, len(waits.sessions[0][1])))
    assert lengths == {(1.0, 20)}


def test_no_samples_are_no_waits() -> None:
    assert average_active_sessions([], 5.0) is None


@given(
    times=st.lists(st.floats(0.01, 90), min_size=1, max_size=60, unique=True),
    number=st.integers(1, 950),
    seconds=st.floats(1, 90),
)
def test_session_seconds_are_conserved(times: list[float], number: int, seconds: float) -> None:
    samples = [(at_s, {"CPU": number}) for at_s in sorted(times)]
    waits = average_active_sessions(samples, seconds)
    assert waits is not None
    (_, sessions) = waits.sessions[0]
    assert sum(sessions) * seconds / len(sessions) == pytest.approx(number * seconds)
    assert waits.slice_s == pytest.approx(seconds / len(sessions), abs=0.0051)  # it is rounded
    assert all(one <= number * (1 + 1e-9) for one in sessions)


def test_the_longest_wait_is_of_the_second_where_it_is_most() -> None:
    def at(requests: int, waited_ms: int) -> DeviceCounters:
        return DeviceCounters(requests, 0, waited_ms, 0, 0, 0, 0, 0)

    samples = [at(0, 0), at(1000, 1000), at(1100, 1900), at(2100, 2900), at(2101, 9900)]
    used = differences.device_use("loop0", "data", samples, 4.0)
    assert used.await_ms_worst_second == 9.0  # not of the single request of the last second
    assert differences.device_use("loop0", "data", samples[:1] * 2, 1).await_ms_worst_second is None


def test_the_longest_wal_write_is_of_the_second_where_it_is_most() -> None:
    later = replace(WAL, writes=305)
    used = differences.wal_use(WAL, later, [(5, 2.5), (105, 12.5), (205, 112.5), (305, 122.5)])
    assert used.write_ms_worst_second == 1.0
    assert differences.wal_use(WAL, later, [(5, None), (105, None)]).write_ms_worst_second is None


def test_commits_have_a_mean_a_p99_and_a_longest() -> None:
    used = differences.commit_use([float(one) for one in range(1, 102)])
    assert used is not None and (used.commits, used.mean_ms) == (101, 51.0)
    assert (used.p99_ms, used.max_ms) == (100.0, 101.0)
    assert differences.commit_use([1.0] * 19) is None
