"""Plans buy what is sold: every volume of a plan passes the catalog's check, and is enough."""

from dataclasses import replace

import content_platform
import numpy as np
import placement_samples as samples
import pytest

from pgstow import planning
from pgstow.catalog import load_shipped
from pgstow.model import Goal, HostSpec, Layout, MeasuredLatency, Placement, Volume
from pgstow.planning.build import layout_of
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.candidates import candidate_of, candidate_volumes
from pgstow.planning.managed import managed_candidates
from pgstow.planning.pins import Pins
from pgstow.planning.placement import BYTES, GIB, IOPS, USES, SpecialItems, place
from pgstow.planning.placement.sizing import COLUMNS_PER_CANDIDATE, UseRows, sizes, sizing
from pgstow.planning.problem import Bought, Solution
from pgstow.units import GIB as BYTES_OF_GIB
from pgstow.units import MIB, Bytes

CATALOG = load_shipped()
DATA = Volume("data", "gp3", Bytes(100 * BYTES_OF_GIB), "/mnt/data")
PRESENT = Layout(HostSpec("ec2", "us-east-1"), (DATA,), Placement("data", "data"))


def kept(**different: object) -> CandidateVolume:
    """The present gp3 volume, kept."""
    volume_type = CATALOG.volume_type("gp3")
    candidate = candidate_of(volume_type, CATALOG.rules("gp3", PRESENT.host)[0], 1, DATA)
    assert candidate is not None
    return replace(candidate, **different)  # type: ignore[arg-type]


@pytest.mark.parametrize("mibps", [750.0, 750.2, 800.3, 1234.56, 1999.9])
@pytest.mark.parametrize("stripes", [1, 3])
def test_a_volume_over_750_mibps_passes_the_plans_own_check(mibps: float, stripes: int) -> None:
    volume_type = CATALOG.volume_type("gp3")
    candidate = kept()
    if stripes > 1:
        found = candidate_of(volume_type, CATALOG.rules("gp3", PRESENT.host)[0], stripes, None)
        assert found is not None
        candidate = found
    bought = Bought(
        candidate, 100.0 * stripes, 4 * mibps * stripes, mibps * MIB * stripes, ("wal",), 0
    )
    others = () if stripes == 1 else (Bought(kept(), 100.0, 3000.0, 125.0 * MIB, (), 0),)
    solution = Solution((*others, bought), 0.0, 0.0, {"wal": candidate.key}, {}, None)  # type: ignore[arg-type]
    layout = layout_of(PRESENT, solution)
    CATALOG.check(layout)
    volume = layout.volume(layout.postgres.wal)
    assert (volume.throughput or 0) >= mibps * MIB
    assert (volume.throughput or 0) - mibps * MIB < MIB + 1e-3 * MIB


def _load(gib: float, iops: float = 100.0, mibps: float = 10.0) -> samples.Floats:
    load = np.zeros(USES)
    load[GIB], load[IOPS], load[BYTES] = gib, iops / 1000, mibps
    return load


def test_an_existing_volume_need_not_have_the_free_space_of_a_new_one() -> None:
    """One of 100 GiB that is 75 % full stays; it is made no fuller, and grown as a new one is."""
    problem = replace(samples.problem(1, 3, 2), candidates=(kept(holds_gib=75.0),), headroom=0.0)
    assert problem.free_space == 0.3
    as_it_is = sizes(problem, 0, _load(75.0))
    assert as_it_is is not None and as_it_is[0].gib == 100
    fuller = sizes(problem, 0, _load(75.1))
    assert fuller is not None and fuller[0].gib == np.ceil(75.1 / 0.7)
    unknown = replace(problem, candidates=(kept(),))
    grown = sizes(unknown, 0, _load(75.0))
    assert grown is not None and grown[0].gib == np.ceil(75.0 / 0.7)


@pytest.mark.parametrize("exact_max", [0, 1000])
@pytest.mark.parametrize(("holds", "gib"), [(75.0, 100), (60.0, 108)])
def test_the_model_keeps_a_volume_that_is_fuller(exact_max: int, holds: float, gib: int) -> None:
    candidates = (kept(holds_gib=holds),)
    still = SpecialItems(np.zeros((1, 1, USES)), np.ones((1, 1), dtype=bool), np.zeros((1, 1)))
    problem = replace(
        samples.problem(1, 3, 1, special=False),
        candidates=candidates,
        use_per_demand=samples.use_per_demand(candidates),
        special_items=still,
        response_ms=None,
        host_kiops=None,
        host_mibps=None,
    )
    demand = np.zeros((3, samples.RESOURCES))
    demand[:, 0] = 25.0
    problem = replace(problem, items=replace(problem.items, demand=demand))
    placed = place(problem, exact_max=exact_max)
    assert placed is not None
    assert [one.gib for one in placed.volumes] == [gib]
    least = samples.cheapest(problem, samples.choice_of(placed))[0]
    assert placed.usd_month == pytest.approx(least)
    assert placed.bound_usd <= least + 1e-6


def test_a_plan_leaves_a_full_volume_as_large_as_it_is() -> None:
    profile = content_platform.profile()
    (data,) = profile.layout.volumes
    plain = planning.plan(profile, Goal(tps=content_platform.TPS * 0.5), CATALOG)
    held = sum(relation.size_bytes for relation in profile.server.relations)
    tight = replace(data, size_bytes=Bytes((held // BYTES_OF_GIB + 3) * BYTES_OF_GIB))
    full = replace(profile, layout=replace(profile.layout, volumes=(tight,)))
    found = planning.plan(full, Goal(tps=content_platform.TPS * 0.5), CATALOG)
    assert plain.layout.volume("data").size_bytes == data.size_bytes
    assert found.layout.volume("data").size_bytes == tight.size_bytes


def test_no_volume_proposed_needs_what_the_instance_is_not() -> None:
    """On an instance without Nitro none has more IOPS than it reaches."""
    present = replace(PRESENT, host=HostSpec("ec2", "us-east-1", "m4.16xlarge"))
    for candidate in candidate_volumes(present, Goal(), CATALOG):
        assert (candidate.rules.iops.max or 0) <= 32_000


def measured(volume_type: str, name: str = "data") -> Volume:
    """A volume on which a small read takes 4 ms and a small write 6 ms, always."""
    latency = MeasuredLatency(4000.0, 4000.0, 6000.0, 6000.0)
    return Volume(name, volume_type, Bytes(1024 * BYTES_OF_GIB), f"/mnt/{name}", latency=latency)


@pytest.mark.parametrize("volume_type", ["gp3", "st1"])
def test_a_kept_volume_is_as_fast_as_its_layout_says(volume_type: str) -> None:
    present = Layout(
        HostSpec("ec2", "us-east-1"), (measured(volume_type),), Placement("data", "data")
    )
    plain = replace(present, volumes=(replace(measured(volume_type), latency=None),))
    slow = {
        candidate.key: candidate for candidate in candidate_volumes(present, Goal(tps=100), CATALOG)
    }
    usual = {
        candidate.key: candidate for candidate in candidate_volumes(plain, Goal(tps=100), CATALOG)
    }
    one = slow[f"data:{volume_type}"]
    assert (one.read_us, one.write_us) == pytest.approx((4000, 6000))
    assert (one.read_us_p99, one.write_us_p99) == pytest.approx((4000, 6000))
    assert usual[f"data:{volume_type}"].read_us != one.read_us
    # Of another type, in place or new, nothing was measured.
    assert slow["data:io2"].read_us == usual["data:io2"].read_us < 4000
    assert slow["gp3x1"].write_us == usual["gp3x1"].write_us < 6000


def test_a_kept_log_volume_is_as_fast_as_its_layout_says() -> None:
    data = Volume("data", "rds-gp3", Bytes(500 * BYTES_OF_GIB), "/rdsdbdata")
    log = replace(measured("rds-dlv", "log"), size_bytes=Bytes(1000 * BYTES_OF_GIB))
    host = HostSpec("rds", "us-east-1", "db.r6i.2xlarge")
    present = Layout(host, (data, log), Placement("data", "log"))
    candidates = managed_candidates(present, Goal(tps=100), CATALOG, Pins({}))
    (one,) = (candidate for candidate in candidates if candidate.is_for_wal)
    assert one.existing == log
    assert (one.write_us, one.write_us_p99) == pytest.approx((6000, 6000))


@pytest.mark.parametrize(
    ("gib", "iops", "variables"),
    [
        (
            0.0,
            0.0,
            3 * COLUMNS_PER_CANDIDATE,
        ),  # one piece under 6 GiB, one over; the candidate's are sums
        (2.0, 100.0, 3 * COLUMNS_PER_CANDIDATE),
        (2.0, 4000.0, COLUMNS_PER_CANDIDATE),  # more than the smaller piece has
        (
            20.0,
            100.0,
            COLUMNS_PER_CANDIDATE,
        ),  # in the larger piece is all that is sold of so many GiB
    ],
)
def test_of_what_is_sold_only_what_can_be_chosen_stays(
    gib: float, iops: float, variables: int
) -> None:
    volume_type = CATALOG.volume_type("gp3")
    candidate = candidate_of(volume_type, CATALOG.rules("gp3", PRESENT.host)[0], 1, None)
    assert candidate is not None
    given = samples.problem(1, 1, 1, special=False)
    problem = replace(given, candidates=(candidate,))
    there = _load(gib, iops, 10.0 * bool(iops))[None]
    nothing = np.zeros((1, USES))
    made = sizing(problem, UseRows(1, linked=False), there, nothing, integer=True)
    assert len(made.cost) == variables
