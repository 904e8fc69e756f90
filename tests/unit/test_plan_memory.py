"""Another instance's memory: more of it never means more reads, and what it does is said."""

from dataclasses import replace

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.model import Goal, HostSpec, Plan, Profile
from pgstow.planning.memory import cache_on
from pgstow.units import GIB, Bytes

CATALOG = catalog.load()
SMALL = Goal(tps=content_platform.TPS * 0.4, max_stripes=1)


def seen(instance: str = "c6i.large", memory_gib: float = 4.0) -> Profile:
    """The platform on a machine whose memory holds part of its 6 GiB."""
    base = content_platform.profile()
    assert base.host is not None
    host = replace(base.host, memory_bytes=Bytes(int(memory_gib * GIB)))
    layout = replace(base.layout, host=HostSpec("ec2", "us-east-1", instance))
    return replace(base, host=host, layout=layout)


def reads(found: Plan) -> float:
    speed = found.prediction.performance.tps
    return sum(load.reads for load in found.prediction.volumes) / speed


def plan(profile: Profile, instance: str) -> Plan:
    return planning.plan(profile, replace(SMALL, instance=instance), CATALOG)


def test_more_memory_leaves_fewer_reads() -> None:
    less, more = plan(seen(), "m6i.large"), plan(seen(), "r6i.large")
    present = plan(seen(), "c6i.large")
    assert reads(present) > reads(less) >= reads(more)
    (warning,) = [one for one in less.warnings if one.code == "other-memory"]
    assert "with 8 GiB of memory in place of 4 GiB, 0." in warning.message
    assert not [one for one in present.warnings if one.code == "other-memory"]


def test_less_memory_leaves_more_reads() -> None:
    goal = replace(SMALL, tps=10.0)
    half = seen("c6i.xlarge", 8.0)  # three quarters of it are the cache, which is under the data
    before, after = (
        planning.plan(half, replace(goal, instance=name), CATALOG)
        for name in ("c6i.xlarge", "c6i.large")
    )
    assert reads(after) > reads(before)


def test_what_memory_that_held_everything_did_cannot_be_said_of_less() -> None:
    found = plan(seen("r6i.large", 16.0), "c6i.large")
    (warning,) = [one for one in found.warnings if one.code == "other-memory"]
    assert "16 GiB of memory hold all data and 4 GiB would not" in warning.message
    assert reads(found) == pytest.approx(reads(plan(seen("r6i.large", 16.0), "r6i.large")), rel=0.1)


def test_what_lies_on_a_volume_reads_no_more_than_the_volume() -> None:
    found = plan(seen(), "r6i.large")
    loads = {load.volume: load for load in found.prediction.volumes}
    for held in planning.contents(found.prediction, seen()):
        asked = sum(share.reads for share in held.shares)
        assert asked <= loads[held.volume].reads * 1.16 + 1e-9


@pytest.mark.parametrize(
    ("profile", "instance"),
    [
        (seen(), None),
        (seen(), "c6i.large"),
        (seen(memory_gib=1.0), "r6i.large"),  # a container's
        (replace(seen(), host=None), "r6i.large"),
        (seen(), "c7i.large"),  # as much memory
    ],
)
def test_where_memory_says_nothing_reads_stay_as_seen(
    profile: Profile, instance: str | None
) -> None:
    assert cache_on(profile, instance, CATALOG) is None
