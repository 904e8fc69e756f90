"""How little a profile may support is said, with what to do."""

from dataclasses import replace

import content_platform
import pytest

from pgstow import catalog, planning
from pgstow.model import Goal, Profile, Rate, UserError
from pgstow.planning import age_evidence, evidence

CATALOG = catalog.load()
PROFILE = content_platform.profile()


def idle(tps: float = 0.05) -> Profile:
    """An hour in which next to nothing was asked."""
    seen = content_platform.profile(tps=tps, clients=4)
    activity = replace(seen.activity, active_sessions=Rate(tps / 100))
    return replace(seen, seconds=3600.0, host=None, activity=activity)


def codes(profile: Profile, tps: float | None = None) -> set[str]:
    found = evidence(profile, target_tps=tps)
    assert all(one.remedy and "\n" not in one.message for one in found)
    return {one.code for one in found}


def test_a_busy_profile_needs_no_warning_but_of_the_checkpoint() -> None:
    assert codes(PROFILE) == {"no-checkpoint"}
    longer = replace(PROFILE, seconds=3600.0)
    assert codes(longer) == set()


def test_an_idle_hour_says_how_little_it_supports() -> None:
    (found,) = evidence(idle())
    assert found.code == "idle-profile"
    assert "180 transactions" in found.message
    assert "in 1 h" in found.message
    assert "of 8 relations were read from disk" in found.message


def test_few_transactions_are_known_to_within_their_count() -> None:
    short = replace(PROFILE, seconds=0.5)
    (found,) = [one for one in evidence(short) if one.code == "few-transactions"]
    assert "350 transactions" in found.message
    assert "±10%" in found.message


def test_a_goal_far_from_what_was_seen_is_said_to_be_so() -> None:
    longer = replace(PROFILE, seconds=3600.0)
    assert codes(longer, 20 * content_platform.TPS) == {"far-from-observed"}
    assert codes(longer, 9 * content_platform.TPS) == set()


def test_a_profile_gets_old() -> None:
    assert age_evidence(29 * 86400.0) == ()
    (found,) = age_evidence(45 * 86400.0)
    assert "45 days old" in found.message


def test_a_plan_carries_what_its_profile_supports() -> None:
    seen = idle()
    found = planning.plan(seen, Goal(), CATALOG)
    assert "idle-profile" in {one.code for one in found.warnings}


def test_an_empty_profile_is_no_ground_for_a_plan() -> None:
    empty = replace(PROFILE, activity=replace(PROFILE.activity, transactions=Rate(0.0)))
    with pytest.raises(UserError, match="saw no transactions; observe"):
        planning.plan(empty, Goal(), CATALOG)
