"""Plans of the instance too: the two prices together, and no machine that could not take over."""

from dataclasses import dataclass, replace
from functools import cache

import content_platform
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow import catalog, planning
from pgstow.model import Goal, HostSpec, InfeasibleError, Layout, Plan, Profile, UserError, Volume
from pgstow.planning.instances import Offer, instance_warnings, is_arm, undominated
from pgstow.units import GIB, Bytes

CATALOG = catalog.load()
PROFILE = content_platform.profile()
GOAL = Goal(tps=2 * content_platform.TPS, any_instance=True, max_stripes=1, allow_types=("gp3",))
FEW = ("r6i.large", "r6i.xlarge", "r6i.4xlarge", "r6id.xlarge", "r6g.xlarge")


@dataclass(frozen=True)
class Machine:
    """An instance type by hand."""

    name: str
    vcpus: int
    memory_bytes: Bytes
    baseline_iops: float | None = 10_000.0
    baseline_bytes_per_second: float | None = 1e9
    max_attachments: int | None = 28
    disks: int = 0
    disk_bytes: Bytes | None = None


def few(names: tuple[str, ...] = FEW) -> catalog.Catalog:
    """The catalog with a handful of instance prices."""
    prices = {name: CATALOG.instance_prices["us-east-1"][name] for name in names}
    return replace(CATALOG, instance_prices={"us-east-1": prices})


def together(found: Plan) -> float:
    volumes = found.prediction.performance.usd_month
    assert volumes is not None and found.instance_usd_month is not None
    return volumes + found.instance_usd_month


@cache  # two tests look at it
def anywhere() -> Plan:
    return planning.plan(PROFILE, GOAL, few())


def test_the_cheapest_of_all_instances_is_found() -> None:
    found = anywhere()
    rules = few()
    each = []
    for name in FEW[1:4]:  # r6i.large has less memory than there is
        try:
            goal = replace(GOAL, any_instance=False, instance=name)
            each.append(together(planning.plan(PROFILE, goal, rules)))
        except InfeasibleError:
            continue
    assert each
    assert together(found) == pytest.approx(min(each))
    assert found.bound is not None and found.bound.value <= together(found)
    assert found.bound.layouts.instances
    assert found.gap_pct == pytest.approx((together(found) / found.bound.value - 1) * 100)
    (reason,) = [one for one in found.reasons if one.subject == "instance"]
    assert reason.choice == found.layout.host.instance
    assert "vCPU" in reason.because


def test_memory_does_not_shrink_and_the_architecture_stays() -> None:
    found = anywhere()
    assert PROFILE.host is not None
    memory = CATALOG.memory_bytes(found.layout.host)
    assert memory is not None and memory >= PROFILE.host.memory_bytes
    assert not is_arm(found.layout.host.instance or "")


def test_a_budget_is_for_the_instance_too() -> None:
    found = planning.plan(PROFILE, replace(GOAL, tps=None, budget_usd_month=300), few())
    assert together(found) <= 300.01
    with pytest.raises(InfeasibleError, match=r"costs as little as \$50\.00.*without volumes"):
        planning.plan(PROFILE, replace(GOAL, tps=None, budget_usd_month=50), few())


def test_too_much_for_any_instance_is_said_of_the_largest() -> None:
    with pytest.raises(InfeasibleError, match=r"on r6i\.4xlarge; .* cannot reach it on any disk"):
        planning.plan(PROFILE, replace(GOAL, tps=1e6), few())


def test_a_machine_without_the_disks_in_use_is_no_choice() -> None:
    own = Volume("scratch", "instance-store", Bytes(200 * GIB), "/mnt/scratch")
    layout = replace(
        PROFILE.layout,
        host=HostSpec("ec2", "us-east-1", "r6id.xlarge"),
        volumes=(*PROFILE.layout.volumes, own),
        postgres=replace(PROFILE.layout.postgres, temp=("scratch",)),
    )
    seen = replace(PROFILE, layout=layout)
    goal = Goal(tps=content_platform.TPS * 0.5)
    with pytest.raises(UserError, match=r"r6i\.xlarge"):
        planning.plan(seen, replace(goal, instance="r6i.xlarge"), few())
    found = planning.plan(seen, replace(goal, any_instance=True), few())
    assert found.layout.host.instance == "r6id.xlarge"


def without_instance() -> Profile:
    layout: Layout = replace(PROFILE.layout, host=HostSpec("ec2", "us-east-1"))
    return replace(PROFILE, layout=layout)


@pytest.mark.parametrize(
    ("profile", "goal", "said"),
    [
        (PROFILE, replace(GOAL, instance="r6i.large"), "contradict each other"),
        (without_instance(), GOAL, "the present instance must be named"),
        (PROFILE, Goal(instance="r6i.larg"), "did you mean r6i.large"),
    ],
)
def test_what_cannot_be_asked_of_instances(profile: Profile, goal: Goal, said: str) -> None:
    with pytest.raises(UserError, match=said):
        planning.plan(profile, goal, few())


def test_no_known_price_is_no_instance() -> None:
    with pytest.raises(InfeasibleError, match="name one with --instance"):
        planning.plan(PROFILE, GOAL, few(()))


MACHINES = st.builds(
    Machine,
    name=st.from_regex(r"[cmr][5-8](i|a|g|gd)\.(large|xlarge)", fullmatch=True),
    vcpus=st.sampled_from((2, 4, 8)),
    memory_bytes=st.sampled_from((Bytes(8 * GIB), Bytes(16 * GIB), Bytes(64 * GIB))),
    baseline_iops=st.sampled_from((None, 3000.0, 12_000.0)),
    disks=st.sampled_from((0, 1)),
)


@given(st.lists(st.tuples(MACHINES, st.floats(min_value=10, max_value=1000)), max_size=12))
def test_what_is_left_out_could_not_have_been_better(
    offers: list[tuple[Machine, float]],
) -> None:
    kept = undominated(offers, "r6i.large", 16 * GIB)
    assert [one.usd_month for one in kept] == sorted(one.usd_month for one in kept)
    for machine, usd in offers:
        is_known = machine.baseline_iops is not None
        if is_known and not is_arm(machine.name) and machine.memory_bytes >= 16 * GIB:
            assert any(one.dominates(Offer(machine, usd)) for one in kept)
        else:
            assert all(one.machine is not machine for one in kept)


def test_machines_with_cpu_credits_are_not_chosen() -> None:
    burstable = Machine("t3.2xlarge", 8, Bytes(32 * GIB))
    assert undominated([(burstable, 1.0)], "r6i.large", None) == ()
    assert len(undominated([(burstable, 1.0)], "t3.2xlarge", None)) == 1


def test_another_architecture_is_warned_of() -> None:
    here, there = (HostSpec("ec2", "us-east-1", name) for name in ("r6i.large", "r6g.large"))
    assert [one.code for one in instance_warnings(here, there, 2)] == [
        "other-instance",
        "other-architecture",
    ]
    assert instance_warnings(here, here, 2) == ()
    (unknown,) = instance_warnings(here, there, None)
    assert unknown.code == "instance-unknown"
