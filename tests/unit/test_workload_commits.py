"""Which transactions wait for the WAL, as far as a profile can tell."""

from dataclasses import replace

import content_platform
import pytest

from pgstow import catalog
from pgstow.model import Profile, Rate
from pgstow.prediction import Predictor, workload_of
from pgstow.units import GIB, Bytes, Iops

PROFILE = content_platform.profile()
TPS = content_platform.TPS


def with_setting(name: str, value: str) -> Profile:
    server = PROFILE.server
    return replace(PROFILE, server=replace(server, settings=(*server.settings, (name, value))))


def with_ids(ids: float, subtransactions: float | None, *, syncs: float = 80.0) -> Profile:
    return replace(
        PROFILE,
        wal=replace(PROFILE.wal, syncs=Rate(syncs)),
        activity=replace(
            PROFILE.activity,
            write_transactions=Rate(ids),
            subtransactions=None if subtransactions is None else Rate(subtransactions),
        ),
    )


def test_with_synchronous_commit_off_nobody_waits_and_the_wal_is_written_all_the_same() -> None:
    work = workload_of(with_setting("synchronous_commit", "off"))
    assert work.write_fraction == 0
    written = work.background_wal_writes * work.background_wal_bytes * TPS
    assert written == pytest.approx(PROFILE.wal.bytes.mean)


@pytest.mark.parametrize("value", ["on", "local", "remote_write", "remote_apply"])
def test_every_other_value_waits_for_the_local_flush(value: str) -> None:
    assert workload_of(with_setting("synchronous_commit", value)) == workload_of(PROFILE)


def test_without_waiting_for_commits_more_is_predicted() -> None:
    rules, (volume,) = catalog.load(), PROFILE.layout.volumes
    wide = replace(volume, size_bytes=Bytes(100 * GIB), iops=Iops(16_000))
    layout = replace(PROFILE.layout, volumes=(wide,))
    lazy = Predictor(with_setting("synchronous_commit", "off"), rules).predict(layout)
    plain = Predictor(PROFILE, rules).predict(layout)
    assert lazy.performance.tps > plain.performance.tps
    assert lazy.performance.commit_ms.mean is None
    wrote = [load.writes / one.performance.tps for one in (lazy, plain) for load in one.volumes]
    assert wrote[0] > 0.5 * wrote[1]  # the log is still there


def test_transaction_ids_of_subtransactions_are_of_no_commit() -> None:
    plain = workload_of(with_ids(200.0, None))
    nested = workload_of(with_ids(600.0, 400.0))
    assert nested.write_fraction == pytest.approx(plain.write_fraction)
    assert nested.wal_bytes == pytest.approx(plain.wal_bytes)


def test_lookups_of_others_leave_as_many_commits_as_flushes() -> None:
    work = workload_of(with_ids(600.0, 5000.0))
    assert work.write_fraction * TPS == pytest.approx(80.0)


def test_no_more_wait_than_flushes_can_serve() -> None:
    work = workload_of(with_ids(600.0, None, syncs=5.0))  # 64 clients: some sessions do not wait
    assert work.write_fraction * TPS == pytest.approx(5.0 * 64)


def test_no_more_transactions_commit_than_there_are() -> None:
    work = workload_of(with_ids(5 * TPS, None, syncs=TPS))
    assert work.write_fraction == 1.0
    assert work.wal_bytes * TPS == pytest.approx(PROFILE.wal.bytes.mean)
