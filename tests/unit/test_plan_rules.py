"""Durability, moves and backups: what a plan may not do at any price."""

import re
from dataclasses import replace
from functools import cache

import content_platform
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_samples import candidate, cheapest, choice_of, problem

from pgstow import catalog, planning
from pgstow.model import (
    Goal,
    HostSpec,
    InfeasibleError,
    NotFoundError,
    Plan,
    Profile,
    Rate,
    UserError,
    Volume,
)
from pgstow.planning.candidates import candidate_volumes, failure_rate
from pgstow.planning.needs import wal_needs
from pgstow.planning.placement import (
    ItemClasses,
    NoSolution,
    PlacementProblem,
    PlacementSolution,
    moved_gib,
)
from pgstow.planning.placement.moving import place_within
from pgstow.planning.placement.solver import place
from pgstow.prediction import HostOverhead, workload_of
from pgstow.units import GIB, Bytes, Iops

CATALOG = catalog.load()
PROFILE = content_platform.profile()
FOUR_TIMES = Goal(
    tps=4 * content_platform.TPS,
    commit_p99_ms=8,
    max_stripes=1,
    allow_types=("gp3", "io2", "instance-store"),
)


@cache  # several tests look at the same plan
def plan(profile: Profile, goal: Goal) -> Plan:
    found = planning.plan(profile, goal, CATALOG)
    CATALOG.check(found.layout)
    return found


def usd(found: Plan) -> float:
    price = found.prediction.performance.usd_month
    assert price is not None
    return price


def with_disks(standbys: int = 0) -> Profile:
    """The platform on an instance with NVMe disks of its own, spilling to temporary files."""
    layout = replace(PROFILE.layout, host=HostSpec("ec2", "us-east-1", "r6id.4xlarge"))
    server = replace(PROFILE.server, standbys=standbys)
    spilling = replace(PROFILE.background, temp_bytes=Rate(20e6))
    return replace(PROFILE, layout=layout, server=server, background=spilling)


def test_only_temporary_files_lie_on_an_instance_store() -> None:
    found = plan(with_disks(), FOUR_TIMES)
    lost = {v.name for v in found.layout.volumes if v.type == "instance-store"}
    assert lost
    place_of = found.layout.postgres
    assert set(place_of.temp) <= lost
    assert not lost & {place_of.data, place_of.wal}
    spaces = [s for s in found.layout.tablespaces if s.volume in lost]
    assert all(not space.relations for space in spaces)


def test_with_a_standby_relations_may_lie_there_too_if_one_says_so() -> None:
    with pytest.raises(UserError, match="saw no standby"):
        plan(with_disks(), replace(FOUR_TIMES, data_on_ephemeral=True))
    safe = plan(with_disks(1), FOUR_TIMES)
    found = plan(with_disks(1), replace(FOUR_TIMES, data_on_ephemeral=True))
    lost = {v.name for v in found.layout.volumes if v.type == "instance-store"}
    assert any(space.relations for space in found.layout.tablespaces if space.volume in lost)
    assert found.layout.postgres.wal not in lost
    assert usd(found) < usd(safe)


def with_own_disk(size_gib: int, **said: object) -> Profile:
    """The same, with one of these disks in use for temporary files."""
    seen = with_disks()
    own = Volume("scratch", "instance-store", Bytes(size_gib * GIB), "/mnt/scratch", **said)  # type: ignore[arg-type]
    place_of = replace(seen.layout.postgres, temp=("scratch",))
    return replace(
        seen, layout=replace(seen.layout, volumes=(*seen.layout.volumes, own), postgres=place_of)
    )


def test_an_instances_own_disk_stays_what_it_is() -> None:
    seen = with_own_disk(100, iops=Iops(20_000.0))
    (before,) = [v for v in seen.layout.volumes if v.name == "scratch"]
    after = [v for v in plan(seen, FOUR_TIMES).layout.volumes if v.name == "scratch"]
    assert after in ([], [before])
    candidates = candidate_volumes(seen.layout, FOUR_TIMES, CATALOG)
    names = {one.type for one in candidates if one.existing == before}
    assert names == {"instance-store"}


def test_a_data_directory_on_an_instance_store_cannot_be_kept() -> None:
    seen = with_disks()
    own = Volume("data", "instance-store", Bytes(400 * GIB), "/mnt/data")
    with pytest.raises(InfeasibleError, match="one of the instance's own disks"):
        plan(replace(seen, layout=replace(seen.layout, volumes=(own,))), FOUR_TIMES)


@given(st.floats(min_value=0, max_value=0.5), st.integers(min_value=1, max_value=16))
def test_a_stripe_fails_more_often_than_its_members_and_less_than_their_sum(
    rate: float, members: int
) -> None:
    whole = failure_rate(rate, members)
    assert whole is not None
    assert rate <= whole + 1e-12
    assert whole <= rate * members + 1e-12


def test_a_stripes_failure_rate_is_counted() -> None:
    goal = Goal(tps=3 * content_platform.TPS, max_failure_rate=0.003, allow_types=("gp3", "io2"))
    for volume in plan(PROFILE, goal).layout.volumes:
        rate = failure_rate(CATALOG.volume_type(volume.type).annual_failure_rate, volume.stripes)
        assert rate is not None
        assert rate <= 0.003


def test_a_rate_that_nothing_keeps_is_said() -> None:
    with pytest.raises(InfeasibleError, match=r"cannot be kept within 0\.0001% a year"):
        plan(PROFILE, Goal(max_failure_rate=1e-6))


def test_backups_get_a_volume_of_their_own_at_its_price() -> None:
    goal = Goal(tps=content_platform.TPS * 0.5)
    found = plan(PROFILE, replace(goal, backup_bytes=200 * GIB))
    name = found.layout.postgres.backup
    assert name is not None
    place_of = found.layout.postgres
    used = {place_of.data, place_of.wal, *place_of.temp}
    assert name not in used | {space.volume for space in found.layout.tablespaces}
    volume = found.layout.volume(name)
    assert volume.size_bytes * 0.7 >= 200 * GIB
    price = CATALOG.price(volume, found.layout.host).usd_month
    assert price is not None
    assert usd(found) == pytest.approx(usd(plan(PROFILE, goal)) + price)
    assert found.gap_pct is not None and found.gap_pct >= 0


def test_the_nearest_goal_costs_what_its_plan_does_with_the_backups() -> None:
    few = {"allow_types": ("gp3",), "max_stripes": 1, "max_volumes": 3}
    goal = Goal(tps=content_platform.TPS * 40, backup_bytes=200 * GIB, **few)  # type: ignore[arg-type]
    with pytest.raises((InfeasibleError, NotFoundError)) as refused:
        plan(PROFILE, goal)
    said = re.search(r"--tps ([0-9.]+) for \$([0-9.,]+) per month", str(refused.value))
    assert said is not None, refused.value
    found = plan(PROFILE, replace(goal, tps=float(said[1])))
    assert usd(found) == pytest.approx(float(said[2].replace(",", "")), abs=0.01)


def test_a_backups_volume_is_one_of_those_allowed() -> None:
    with pytest.raises(UserError, match="--max-volumes 1 leaves none for the data"):
        plan(PROFILE, Goal(backup_bytes=GIB, max_volumes=1))


def test_a_backup_on_the_datas_volume_is_warned_of_and_one_apart_is_kept() -> None:
    shared = replace(PROFILE.layout, postgres=replace(PROFILE.layout.postgres, backup="data"))
    (warning,) = planning.backup_warnings(shared)
    assert "takes both with it" in warning.message
    assert "the data, pg_wal" in warning.message
    apart = replace(
        shared,
        volumes=(*shared.volumes, Volume("vault", "st1", Bytes(500 * GIB), "/mnt/vault")),
        postgres=replace(shared.postgres, backup="vault"),
    )
    assert planning.backup_warnings(apart) == ()
    found = plan(replace(PROFILE, layout=apart), FOUR_TIMES)
    assert found.layout.postgres.backup == "vault"
    assert found.layout.volume("vault").size_bytes == 500 * GIB


def test_nothing_moves_where_nothing_may() -> None:
    free = plan(PROFILE, FOUR_TIMES)
    assert planning.changes(PROFILE, free.layout, CATALOG).moves
    kept = plan(PROFILE, replace(FOUR_TIMES, commit_p99_ms=None, max_move_bytes=0))
    found = planning.changes(PROFILE, kept.layout, CATALOG)
    assert found.moves == ()
    assert [name for name, _ in found.in_place] == ["data"]


def test_a_plan_that_moves_says_what_moving_saves() -> None:
    goal = replace(FOUR_TIMES, commit_p99_ms=None)
    found = plan(PROFILE, goal)
    (reason,) = [one for one in found.reasons if one.subject == "moves"]
    kept = plan(PROFILE, replace(goal, max_move_bytes=0))
    assert reason.next_best_usd_month == pytest.approx(usd(kept) - usd(found), abs=0.02)
    assert "nothing moved" in reason.next_best
    assert not [one for one in kept.reasons if one.subject == "moves"]


def test_as_much_moves_as_may() -> None:
    for limit in (64, 512, 1024):
        goal = replace(FOUR_TIMES, commit_p99_ms=None, max_move_bytes=limit * 1024**2)
        found = planning.changes(PROFILE, plan(PROFILE, goal).layout, CATALOG)
        assert found.moved_bytes <= limit * 1024**2


def test_one_volume_is_changed_in_place() -> None:
    goal = Goal(tps=1.5 * content_platform.TPS, max_volumes=1)
    found = planning.changes(PROFILE, plan(PROFILE, goal).layout, CATALOG)
    assert found.moves == () and found.bought == ()
    assert "IOPS 3,000 to" in dict(found.in_place)["data"]


def movable(seed: int, items: int) -> PlacementProblem:
    """A placement problem whose items are all on the first candidate now, and may stay there."""
    whole = problem(seed, items, 4)
    count = whole.item_classes.allowed.shape
    is_moved = np.ones(count, dtype=bool)
    is_moved[:, 0] = False
    item_classes = ItemClasses(whole.item_classes.allowed | ~is_moved, is_moved)
    return replace(whole, item_classes=item_classes, response_ms=None)


@settings(max_examples=10, deadline=None)
@given(st.integers(min_value=0, max_value=10_000), st.floats(min_value=0.0, max_value=1.0))
def test_a_limit_on_moves_is_kept_at_a_price(seed: int, share: float) -> None:
    whole = movable(seed, 8)
    free = place(whole)
    if isinstance(free, NoSolution):
        return
    limit = share * moved_gib(whole, free)
    found = place_within(replace(whole, max_move_gib=limit))
    if isinstance(found, NoSolution):
        return
    assert moved_gib(whole, found) <= limit + 1e-6
    assert found.usd_month >= free.usd_month - 1e-6


# seed 7 is stopped at the longest that the whole may take
@pytest.mark.parametrize("seed", [4, pytest.param(7, marks=pytest.mark.nightly)])
def test_a_price_on_moving_finds_nearly_what_the_whole_model_does(seed: int) -> None:
    whole = movable(seed, 700)
    free = place(whole)
    assert isinstance(free, PlacementSolution)
    limit = 0.3 * moved_gib(whole, free)
    assert limit > 0
    limited = replace(whole, max_move_gib=limit)
    found, best = place_within(limited), place(limited, exact_max=10**9)
    assert isinstance(found, PlacementSolution) and isinstance(best, PlacementSolution)
    assert moved_gib(limited, found) <= limit * (1 + 1e-6)
    assert found.bound_usd <= best.usd_month * (1 + 1e-6)
    assert best.bound_usd * (1 - 1e-6) <= found.usd_month <= 1.005 * best.usd_month
    # the independent sum of an assignment's prices, infinite where it keeps no limit
    assert cheapest(whole, choice_of(found))[0] == pytest.approx(found.usd_month, rel=1e-4)


def test_a_slow_host_leaves_less_time_to_wait_for_flushes() -> None:
    """What the host adds to a flush is in the model's own count of waits, so in its bound."""
    profile = content_platform.profile()
    work = workload_of(profile)
    plain = candidate("gp3", "gp3", read_us=1000.0, write_us=1000.0)
    slow = plain.on(HostOverhead(read_us=50.0, wal_sync_us=300.0, handover_us=200.0))
    # A median of 983.7 and a p99 of 1,500 are both 50 later: their mean is by a little less.
    assert slow.read_us == pytest.approx(1049.48, abs=0.01)
    assert slow.write_us == 1500.0
    quick_need, slow_need = wal_needs(work.transactions_per_second, work, (plain, slow))
    assert slow_need.wait_us > quick_need.wait_us
    assert slow_need.iops < quick_need.iops
