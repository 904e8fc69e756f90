"""What people write in the options of plan, and what is said of what they cannot mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.cli import plan_goal
from pgstow.model import UserError
from pgstow.units import GIB

DAY_S = 86400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12mo", 365 * DAY_S), ("90d", 90 * DAY_S), ("2y", 730 * DAY_S), ("6w", 42 * DAY_S)],
)
def test_horizons_are_times_to_plan_for(text: str, seconds: float) -> None:
    assert plan_goal.horizon_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0d", "30y", "-1d", "soon", "12", "inf"])
def test_what_is_no_horizon_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match="--horizon") as refused:
        plan_goal.horizon_seconds(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"), [("0.5%", 0.005), ("0.005", 0.005), ("99%", 0.99), ("20%", 0.2)]
)
def test_shares_are_percents_or_fractions(text: str, value: float) -> None:
    assert plan_goal.share(text, "--max-failure-rate") == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "1", "100%", "-1%", "few", "nan", "%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no share"):
        plan_goal.share(text, "--max-failure-rate")


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("50GiB", 50 * GIB), (None, None)])
def test_sizes_need_a_unit_unless_they_are_nothing(text: str | None, size: int | None) -> None:
    assert plan_goal.size_bytes(text, "--max-move") == size


@pytest.mark.parametrize("text", ["0ms", "-5ms", "5", "quick"])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--commit-p99"):
        plan_goal.milliseconds(text, "--commit-p99")


@pytest.mark.parametrize(("text", "tps"), [("2500", 2500.0), ("4x", 2800.0), ("0.5x", 350.0)])
def test_rates_are_absolute_or_of_what_was_observed(text: str, tps: float) -> None:
    assert plan_goal.transactions(text, 700.0) == tps


@pytest.mark.parametrize("text", ["0", "0x", "-1x", "x", "many", "nan", "inf"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--tps"):
        plan_goal.transactions(text, 700.0)


NAMES = st.text(min_size=1).filter(lambda text: text.strip())
PLACES = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)


@given(NAMES, PLACES)
def test_a_pin_is_whatever_stands_before_the_last_equals_sign(name: str, place: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert plan_goal.pins([f"{quoted}={place}"]) == ((quoted, place),)


@pytest.mark.parametrize("text", ["orders", "=fast", "orders=", "", '"a=b"'])
def test_a_pin_that_does_not_say_what_lies_where_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="does not say what is placed where"):
        plan_goal.pins([text])
