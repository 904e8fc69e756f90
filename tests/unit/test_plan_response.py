"""What a transaction may wait: never less than the simulator says, so what was seen is feasible."""

from dataclasses import replace
from typing import Any

import content_platform
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow import catalog, planning
from pgstow.model import Goal, HostTraffic, Profile, Rate
from pgstow.planning.needs import response_budget_us
from pgstow.planning.placement import PlacementSolution
from pgstow.planning.planner import case_of
from pgstow.planning.search import Tightening, waiting_ms
from pgstow.prediction import workload_of
from pgstow.units import Bytes, Iops

CATALOG = catalog.load()
MIB = 1 << 20


def seen(
    tps: float,
    *,
    clients: int,
    active: float,
    cores: int,
    busy: float,
    volume_type: str = "gp3",
    reads: float = 1.0,
    writing: float = 1 / 3,
    temp_bytes: float = 0.0,
) -> Profile:
    """The content platform under such a load, ``reads`` times as many of them."""
    base = content_platform.profile(tps=tps, clients=clients)
    (volume,) = base.layout.volumes
    volume = replace(volume, type=volume_type, iops=Iops(10_000) if volume_type != "gp2" else None)
    assert base.host is not None
    (device,) = base.host.devices
    device = replace(device, reads=Rate(device.reads.mean * reads))
    device = replace(device, read_bytes=Rate(device.reads.mean * 8192), read_ms=None)
    return replace(
        base,
        layout=replace(base.layout, volumes=(volume,)),
        demands=tuple(
            replace(one, random_reads=Rate(one.random_reads.mean * reads)) for one in base.demands
        ),
        background=replace(base.background, temp_bytes=Rate(temp_bytes * tps)),
        wal=replace(base.wal, sync_us=None),
        activity=replace(
            base.activity,
            active_sessions=Rate(active),
            write_transactions=Rate(tps * writing),
        ),
        host=HostTraffic(cores, Bytes(24 << 30), Rate(busy), (device,)),
    )


def row_of_the_present(profile: Profile) -> tuple[float, float]:
    """What the present layout waits in the model, and what it may where the simulator got."""
    planner = case_of(profile, Goal(headroom=0.0), CATALOG).planner()
    reached = planner.check(planner.base).performance.tps
    problem = planner.problem(reached, Tightening())
    assert problem is not None and problem.response_ms is not None
    (here,) = [
        c
        for c, s in enumerate(problem.candidates)
        if s.key == f"data:{planner.base.volumes[0].type}"
    ]
    placed = PlacementSolution(
        item_candidate=np.full(problem.items.count, here),
        special_candidate=np.full(problem.special_items.count, here),
        volumes=(),
        usd_month=0.0,
        bound_usd=0.0,
    )
    return waiting_ms(problem, placed), problem.response_ms


LOADS = given(
    tps=st.floats(600.0, 3000.0),  # so many that the simulation is known to well within 2 %
    clients=st.integers(1, 100),
    idle=st.floats(0.0, 0.95),
    cores=st.integers(1, 16),
    busy=st.floats(0.01, 1.0),
    volume_type=st.sampled_from(["gp3", "io2", "gp2"]),
    reads=st.floats(0.0, 3.0),
    writing=st.sampled_from([0.0, 0.02, 0.4, 1.0]),
    temp_bytes=st.sampled_from([0.0, 0.5 * MIB]),
)


@settings(max_examples=6, deadline=None)
@LOADS
def test_no_speed_that_the_simulator_reaches_is_ruled_out(**load: Any) -> None:
    _is_not_ruled_out(**load)


@pytest.mark.nightly
@settings(max_examples=60, deadline=None)
@LOADS
def test_of_many_loads_none_that_is_reached_is_ruled_out(**load: Any) -> None:
    _is_not_ruled_out(**load)


def _is_not_ruled_out(
    tps: float,
    clients: int,
    idle: float,
    cores: int,
    busy: float,
    volume_type: str,
    reads: float,
    writing: float,
    temp_bytes: float,
) -> None:
    profile = seen(
        tps,
        clients=clients,
        active=clients * (1 - idle),
        cores=cores,
        busy=busy * cores,
        volume_type=volume_type,
        reads=reads,
        writing=writing,
        temp_bytes=temp_bytes,
    )
    waits_ms, allowed_ms = row_of_the_present(profile)
    assert waits_ms <= allowed_ms


SEEN = {
    "as many clients as cores, three quarters busy": seen(
        700, clients=4, active=4, cores=4, busy=3, reads=0.05
    ),
    "one client": seen(90, clients=1, active=1, cores=8, busy=0.4, reads=0.5),
    "processors nearly full, those of others counted": seen(
        324, clients=8, active=7.9, cores=2, busy=1.99, reads=0.1
    ),
    "nearly idle, others busier": seen(0.03, clients=4, active=0.001, cores=2, busy=0.1),
    "idle clients": seen(50, clients=200, active=0.4, cores=4, busy=0.3),
    "a volume at its limit": content_platform.profile(),
    "thinking clients": seen(300, clients=64, active=8, cores=4, busy=1.0),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_is_feasible_where_it_was_seen(name: str) -> None:
    profile = SEEN[name]
    found = planning.plan(profile, Goal(), CATALOG)
    observed = profile.activity.transactions.mean
    target = min(observed, found.present.performance.tps)
    assert found.prediction.performance.tps >= 0.98 * target


def test_a_transaction_computes_no_longer_than_it_lasts() -> None:
    work = workload_of(SEEN["nearly idle, others busier"])
    assert work.cpu_us == pytest.approx(0.001 / 0.03 * 1e6)


@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_leaves_time_to_wait(name: str) -> None:
    work = workload_of(SEEN[name])
    assert response_budget_us(work, work.transactions_per_second) is not None


def test_the_bounds_are_the_operational_laws() -> None:
    work = replace(workload_of(SEEN["one client"]), clients=4, think_us=0.0, cores=2, cpu_us=1000.0)
    assert response_budget_us(work, 1000.0) == pytest.approx(3000.0)  # 4 clients, 4 ms each
    assert response_budget_us(work, 2000.0) == pytest.approx(1000.0)  # both cores full
    assert response_budget_us(work, 2001.0) is None
