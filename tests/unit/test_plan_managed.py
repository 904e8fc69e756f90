"""Plans on RDS: one volume of data, changed in place; stripes are the provider's own."""

from dataclasses import replace

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.model import (
    Goal,
    HostSpec,
    Layout,
    Placement,
    Plan,
    Profile,
    UserError,
    Volume,
)
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.managed import managed_candidates
from pgstow.planning.pins import Pins
from pgstow.units import GIB, MIB, Bytes, Iops

CATALOG = catalog.load()
NO_PINS = Pins({})


def managed(gib: int, volume_type: str = "rds-gp3", instance: str = "db.r6i.2xlarge") -> Profile:
    """The content platform on RDS, whose host nobody sees."""
    volume = Volume("data", volume_type, Bytes(gib * GIB), "/rdsdbdata")
    host = HostSpec("rds", "us-east-1", instance)
    layout = Layout(host, (volume,), Placement("data", "data"))
    return replace(content_platform.profile(), host=None, layout=layout)


def plan(profile: Profile, goal: Goal) -> Plan:
    found = planning.plan(profile, goal, CATALOG)
    CATALOG.check(found.layout)
    return found


def candidates(gib: int, goal: Goal | None = None) -> dict[str, CandidateVolume]:
    layout = managed(gib).layout
    every = managed_candidates(layout, goal or Goal(), CATALOG, NO_PINS)
    return {candidate.key: candidate for candidate in every}


def test_nothing_is_striped_by_hand_or_bought_beside_the_data() -> None:
    for candidate in candidates(200).values():
        assert candidate.stripes == 1
        assert candidate.existing is not None or candidate.is_for_wal


def test_a_small_volume_may_stay_small_or_become_striped() -> None:
    found = candidates(200)
    small, large = found["data:rds-gp3"], found["data:rds-gp3, striped"]
    assert (small.rules.most_iops(399 * GIB), small.max_gib) == (3000, 399)
    assert not small.is_iops_provisioned
    assert (large.rules.iops.included, large.min_gib) == (12_000, 400)
    assert large.rules.throughput.included == 500 * MIB
    assert large.rules.iops_usd(12_001) == pytest.approx(0.02)


def test_a_large_volume_is_striped_already() -> None:
    assert "data:rds-gp3" not in candidates(500)
    assert candidates(500)["data:rds-gp3, striped"].min_gib == 500


def test_a_load_over_a_small_volumes_iops_takes_it_to_400_gib() -> None:
    calm = plan(managed(200), Goal(tps=400))
    (data,) = calm.layout.volumes
    assert (data.type, data.size_bytes, data.iops) == ("rds-gp3", 200 * GIB, None)
    busy = plan(managed(200), Goal(tps=1300))
    (data,) = busy.layout.volumes
    assert data.size_bytes == 400 * GIB
    assert data.iops == 12_000
    assert busy.layout.tablespaces == ()
    (change,) = planning.changes(managed(200), busy.layout, CATALOG).in_place
    assert change == (
        "data",
        "size 200 GiB to 400 GiB, IOPS 3,000 to 12,000, throughput 125 to 500 MiB/s",
    )


def test_the_reasons_are_the_volumes() -> None:
    calm = plan(managed(200), Goal(tps=400))
    (reason,) = calm.reasons
    assert (reason.subject, reason.choice) == ("volume data", "rds-gp3 of 200 GiB")
    usd = 400 * 0.115 - 200 * 0.115  # the same type, striped by the provider
    assert reason.next_best == "rds-gp3 of 400 GiB"
    assert reason.next_best_usd_month == pytest.approx(usd)
    (reason,) = plan(managed(500), Goal(tps=400)).reasons
    assert reason.next_best.startswith("rds-gp2 of ")
    only = Goal(tps=400, forbid_types=("rds-gp2", "rds-io1", "rds-io2"))
    (reason,) = plan(managed(500), only).reasons
    assert reason.next_best.startswith("none: no other type or size with a known price")


def test_settings_are_said_but_not_written_where_a_parameter_group_has_them() -> None:
    seen = managed(500)
    shown = (*seen.server.settings, ("effective_io_concurrency", "1"))
    seen = replace(seen, server=replace(seen.server, settings=shown))
    found = plan(seen, Goal(tps=400, settings=True))
    assert "effective_io_concurrency" in {one.name for one in found.settings}
    assert found.layout.postgres.settings == ()


def test_another_instance_is_planned_for() -> None:
    found = plan(managed(200), Goal(tps=400, instance="db.r6i.4xlarge"))
    assert found.layout.host.instance == "db.r6i.4xlarge"
    with pytest.raises(UserError, match=r"no instance type 'r6i.huge'"):
        plan(managed(200), Goal(tps=400, instance="db.r6i.huge"))


def test_a_plan_says_what_it_is_without_for_want_of_a_price() -> None:
    found = planning.plan(managed(200), Goal(tps=400), unpriced("rds-io2", "rds-dlv"))
    (warning,) = [one for one in found.warnings if one.code == "price-unknown"]
    assert "rds-io2" in warning.message and "rds-dlv" in warning.message


def unpriced(*names: str) -> catalog.Catalog:
    """The catalog without the prices of some types."""
    types = dict(CATALOG.volume_types)
    types |= {name: replace(types[name], prices={}) for name in names}
    return replace(CATALOG, volume_types=types)


def test_a_dedicated_log_volume_goes_with_io1_and_io2_only() -> None:
    rules = CATALOG
    seen = managed(500, "rds-io2")
    data = replace(seen.layout.volumes[0], iops=Iops(12_000))
    seen = replace(seen, layout=replace(seen.layout, volumes=(data,)))
    found = planning.plan(seen, Goal(tps=400, pins=(("wal", "rds-dlv"),)), rules)
    rules.check(found.layout)
    assert found.layout.volume(found.layout.postgres.wal).type == "rds-dlv"
    assert found.layout.volume("data").type in ("rds-io1", "rds-io2")
    assert "log-volume-downtime" in {one.code for one in found.warnings}


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (Goal(pins=(("articles", "fast"),)), "RDS has no volume fast beside that of the data"),
        (Goal(backup_bytes=GIB), "RDS keeps its backups itself"),
        (
            Goal(pins=(("wal", "hyperdisk-extreme"),)),
            "hyperdisk-extreme, which is no volume type of platform rds",
        ),
        (Goal(forbid_types=("io2",)), "io2 is no volume type of platform rds; name one of: rds-"),
        (Goal(allow_types=("rds-gp9",)), "no volume type 'rds-gp9'"),
    ],
)
def test_what_rds_cannot_do_is_refused(goal: Goal, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan(managed(200), goal)


def test_a_type_without_a_price_cannot_be_pinned() -> None:
    with pytest.raises(UserError, match="no price in us-east-1"):
        planning.plan(
            managed(200), Goal(pins=(("wal", "rds-dlv"),)), unpriced("rds-dlv", "rds-io2")
        )


def test_where_types_do_not_change_in_place_a_volume_keeps_its_own() -> None:
    volume = Volume("data", "pd-ssd", Bytes(200 * GIB), "/mnt/data")
    host = HostSpec("gce", "us-central1", "n2-standard-8")
    seen = content_platform.profile()
    seen = replace(seen, layout=Layout(host, (volume,), Placement("data", "data")))
    found = plan(seen, Goal(tps=400))
    assert found.layout.volume("data").type == "pd-ssd"
    (warning,) = [
        one
        for one in plan(seen, Goal(tps=400, instance="n2-standard-16")).warnings
        if one.code == "instance-unknown"
    ]
    assert "n2-standard-16" in warning.message
