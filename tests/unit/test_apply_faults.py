"""Apply and undo under faults: nothing of others is touched, nothing is said that is not so.

Every interleaving is made from a seed, which a failure prints: it can be seen again by itself.
"""

import random

import pytest
from fake_faults import KINDS, Faults, drawn
from fault_campaign import Action, Campaign

SEEDS = 2000
PER_TEST = 50
ATTEMPTS = 12
# make test has a fourth of the seeds, and each effect suffer these; make nightly has all.
DAILY_SEEDS = 500
DAILY = {"kill after", "kill during", "interrupt after", "error after"}


def end_in_the_wanted_layout(campaign: Campaign, action: Action) -> None:
    """After enough attempts without faults the layout is reached, and then nothing is to do."""
    for _ in range(ATTEMPTS):
        campaign.mend()
        if campaign.process(action, Faults()) and not campaign._steps(action):
            break
    assert campaign._steps(action) == ()
    picture = campaign.cluster.picture()
    assert picture["invalid"] == []
    assert picture["is running"]
    assert campaign.journal.is_reconciled("7")


def end_in_the_first_layout(campaign: Campaign, first: dict[str, object]) -> None:
    """After enough attempts of undo everything is as it was before the first apply."""
    for _ in range(ATTEMPTS):
        campaign.mend()
        if campaign.process("undo", Faults()) and campaign.journal.is_reconciled("7"):
            break
    kept = dict(first)
    moved = campaign.cluster.moved_on
    kept["relations"] = {n: t for n, t in first["relations"].items() if n not in moved}  # type: ignore[attr-defined]
    places = campaign.cluster.foreign_places
    root = campaign.cluster.root
    kept["files"] = [
        name
        for name in first["files"]  # type: ignore[attr-defined]
        if not any(place.is_relative_to(root / name) for place in places)
    ]
    picture = campaign.cluster.picture()
    differing = {key: (value, kept[key]) for key, value in picture.items() if value != kept[key]}
    assert differing == {}, f"is, was: {differing}"


def one_campaign(seed: int) -> None:
    """A few processes under drawn faults, then an end without any."""
    source = random.Random(seed)
    campaign = Campaign.begin(seed, moves_wal=seed % 2 == 0)
    try:
        first = campaign.cluster.picture()
        for _ in range(source.randint(1, 4)):
            action: Action = source.choice(("one", "one", "other", "undo"))
            faults = Faults(drawn(source, 150 if campaign.moves_wal else 80))
            campaign.process(action, faults, restart=source.random() < 0.8)
            campaign.cluster.clock.sleep(source.choice((0, 0, 30)))
        if source.random() < 0.5:
            end_in_the_wanted_layout(campaign, source.choice(("one", "other")))
        else:
            end_in_the_first_layout(campaign, first)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n{campaign.reported()}") from error
    finally:
        campaign.end()


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=() if block < DAILY_SEEDS // PER_TEST else pytest.mark.nightly)
        for block in range(SEEDS // PER_TEST)
    ],
)
def test_any_interleaving_ends_well(block: int) -> None:
    for seed in range(block * PER_TEST, (block + 1) * PER_TEST):
        one_campaign(seed)


def effects_of(action: Action, *before: Action) -> int:
    """How many effects a process has without faults."""
    campaign = Campaign.begin(0)
    try:
        for earlier in before:
            campaign.process(earlier, Faults())
        faults = Faults()
        assert campaign.process(action, faults)
        return faults.count
    finally:
        campaign.end()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in DAILY else pytest.mark.nightly) for kind in KINDS],
)
@pytest.mark.parametrize("action", ["one", "undo"])
def test_at_every_effect(action: Action, kind: str) -> None:
    """Each effect of an apply, and of an undo, suffers each fault; then on, or back."""
    before: tuple[Action, ...] = () if action == "one" else ("one",)
    for number in range(1, effects_of(action, *before) + 1):
        campaign = Campaign.begin(number)
        try:
            first = campaign.cluster.picture()
            for earlier in before:
                campaign.process(earlier, Faults())
            campaign.process(action, Faults({number: kind}))
            if number % 2:
                end_in_the_wanted_layout(campaign, "one")
            end_in_the_first_layout(campaign, first)
        except AssertionError as error:
            raise AssertionError(f"effect {number}: {error}\n{campaign.reported()}") from error
        finally:
            campaign.end()


def test_an_old_name_that_is_taken_stops_a_move_before_anything_is_done() -> None:
    """Even an empty directory would pass for the old pg_wal, put aside after the last copy."""
    campaign = Campaign.begin(1)
    try:
        aside = campaign.cluster.data / "pg_wal.pgstow-old"
        aside.mkdir()
        assert not campaign.process("one", Faults())
        assert campaign.cluster.is_running
        assert "is left from an earlier move" in campaign.reported()
        assert list(aside.iterdir()) == []
        aside.rmdir()
        end_in_the_wanted_layout(campaign, "one")
    finally:
        campaign.end()
