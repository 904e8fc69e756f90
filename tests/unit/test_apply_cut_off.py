"""Moves of pg_wal whose clients are cut off while what they asked for goes on; and volumes away."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_faults import Faults, FaultyDisk
from fake_server import FakePostmasters
from fault_campaign import Campaign
from test_apply_interrupted_moves import effect_number, moving, reported

from pgstow import apply
from pgstow.apply import Options, wal
from pgstow.host import directories
from pgstow.host.postmaster import Postmaster
from pgstow.model import HostError


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    found = Campaign.begin(1)
    yield found
    found.end()


class CutOff(FakePostmasters):
    """Ctrl-C ends the client only: what it asked for goes on, and comes about a moment later."""

    def __init__(self, campaign: Campaign, *cut: str) -> None:
        super().__init__(campaign.cluster, Faults())
        self.cut = list(cut)
        self.under_way: dict[str, Callable[[], None]] = {}

    def is_stopping(self, data_directory: str) -> bool:
        return "stop" in self.under_way

    def stop(self, postmaster: Postmaster) -> None:
        self._ask("stop", self.cluster.stop)

    def start(self, postmaster: Postmaster) -> None:
        self._ask("start", self.cluster.start)

    def _ask(self, what: str, do: Callable[[], None]) -> None:
        if what in self.cut:
            self.cut.remove(what)
            self.under_way[what] = do
            raise KeyboardInterrupt
        self.under_way.pop(what, None)
        do()

    def come_about(self) -> None:
        for do in self.under_way.values():
            do()
        self.under_way.clear()


class SlowDisk(FaultyDisk):
    """Before the link is removed on the way back, what is under way comes about."""

    def __init__(self, postmasters: CutOff) -> None:
        super().__init__(Faults())
        self.postmasters = postmasters

    def remove_file(self, path: Path) -> None:
        if path.name == "pg_wal":
            self.postmasters.come_about()
        super().remove_file(path)


def test_a_start_that_goes_on_without_its_client_is_seen_to_its_end(campaign: Campaign) -> None:
    """Else pg_wal would be switched back under a server that is coming up on the copy."""
    postmasters = CutOff(campaign, "start")
    context, id = moving(campaign, SlowDisk(postmasters), postmasters)
    with pytest.raises(wal.InterruptedMove, match="and the old pg_wal is to go; the server runs"):
        wal.move(context, id, campaign.journal.step(id).step)
    campaign.check_files()
    assert campaign.process("one", Faults())
    assert campaign.cluster.wal_directory() == campaign.cluster.root / "wal" / "pg_wal"


def test_a_start_that_outlives_a_killed_apply_is_seen_to_its_end(campaign: Campaign) -> None:
    campaign.process("one", Faults({effect_number("start"): "kill before"}))
    postmasters = CutOff(campaign)
    postmasters.under_way["start"] = campaign.cluster.start
    (message,) = apply.recover(
        campaign.journal,
        disk=SlowDisk(postmasters),
        postmasters=postmasters,
        clock=campaign.cluster.clock,
    )
    campaign.check_files()
    assert "completed" in message


def test_a_stop_that_goes_on_without_its_client_is_seen_to_its_end(campaign: Campaign) -> None:
    """Else the server would be found running, and go down after all was said to be as before."""
    postmasters = CutOff(campaign, "stop")
    context, id = moving(campaign, FaultyDisk(Faults()), postmasters)
    with pytest.raises(KeyboardInterrupt, match="the server was started on it again"):
        wal.move(context, id, campaign.journal.step(id).step)
    postmasters.come_about()
    assert campaign.cluster.is_running


def test_a_server_that_is_left_stopping_is_not_said_to_run(campaign: Campaign) -> None:
    postmasters = CutOff(campaign, "stop", "stop", "start")
    context, id = moving(campaign, FaultyDisk(Faults()), postmasters)
    with pytest.raises(wal.InterruptedMove, match="the server is stopping and is not started"):
        wal.move(context, id, campaign.journal.step(id).step)
    assert [r.id for r in campaign.journal.unfinished_wal_moves()] == [id]


class Dead(FakePostmasters):
    """A server that does not start."""

    def start(self, postmaster: Postmaster) -> None:
        raise HostError("pg_ctl failed: no")


def test_a_move_that_cannot_be_given_up_says_where_pg_wal_is(campaign: Campaign) -> None:
    campaign.process("one", Faults({effect_number("rename pg_wal"): "kill before"}))
    home = campaign.cluster.data / "pg_wal"
    message = f"pg_ctl failed: no; the old pg_wal is untouched, in {home}; the server is down"
    with pytest.raises(HostError, match=message):
        apply.recover(
            campaign.journal,
            disk=FaultyDisk(Faults()),
            postmasters=Dead(campaign.cluster, Faults()),
            clock=campaign.cluster.clock,
        )


def test_a_start_that_failed_is_said_with_how_the_server_is(campaign: Campaign) -> None:
    """It may have written to the copy, and be down all the same."""
    postmasters = FakePostmasters(campaign.cluster, Faults())

    def half(_: Postmaster) -> None:
        campaign.cluster.write_wal()
        raise HostError("pg_ctl failed: no")

    postmasters.start = half  # type: ignore[method-assign]
    context, id = moving(campaign, FaultyDisk(Faults()), postmasters)
    with pytest.raises(wal.UnfinishedError, match="is to go; the server is down"):
        wal.move(context, id, campaign.journal.step(id).step)


def test_what_the_source_has_recycled_since_makes_no_space(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = campaign.cluster
    for number in range(10):
        cluster.write_wal(f"{number:024X}")
    campaign.process("one", Faults({effect_number("copy 0", 2): "kill before"}))
    source, staging = cluster.data / "pg_wal", cluster.root / "wal" / "pg_wal"
    copied = [path.name for path in staging.iterdir() if path.name in cluster.wal]
    assert copied
    for name in copied:
        (source / name).unlink()
        del cluster.wal[name]
        cluster.write_wal(f"{cluster.number():024X}")
    needed = round(directories.tree_bytes(source) * 1.1)
    monkeypatch.setattr(directories, "free_bytes", lambda _: needed - 1)
    assert not campaign.process("one", Faults())
    assert "has no space for pg_wal" in reported(campaign)
    monkeypatch.undo()
    assert campaign.process("one", Faults())


def unplugged(campaign: Campaign, kind: str) -> None:
    """pg_wal went to another volume when it was cut off; the one it comes from is not mounted."""
    assert campaign.process("one", Faults())
    campaign.process("other", Faults({effect_number("start", of="other", after="one"): kind}))
    (campaign.cluster.root / "wal").rename(campaign.cluster.root / "unplugged")


@pytest.mark.parametrize("kind", ["kill before", "kill after"])
def test_an_old_pg_wal_that_is_out_of_sight_is_not_forgotten(campaign: Campaign, kind: str) -> None:
    """Its volume is not mounted: that says nothing of where the server ran, and it stays there."""
    unplugged(campaign, kind)
    root = campaign.cluster.root
    assert not campaign.process("other", Faults())
    assert f"{root / 'wal' / 'pg_wal'}, where the old pg_wal is, is not there" in reported(campaign)
    assert (campaign.cluster.data / "pg_wal.pgstow-old").is_symlink()
    (root / "unplugged").rename(root / "wal")
    assert campaign.process("other", Faults())
    assert campaign.cluster.wal_directory() == root / "bulk" / "pg_wal"
    assert not (root / "wal" / "pg_wal").exists()


def test_a_copy_that_was_removed_is_not_said_to_be_there(campaign: Campaign) -> None:
    """Made with --plain-directories, and given up without: nothing was ever mounted there."""
    campaign.process("one", Faults({effect_number("copy 0", 1): "kill before"}))
    (message,) = apply.recover(
        campaign.journal,
        options=Options(restart=True),
        disk=FaultyDisk(Faults()),
        postmasters=FakePostmasters(campaign.cluster, Faults()),
        clock=campaign.cluster.clock,
    )
    assert "is not mounted" in message
    assert "still on it" not in message
    assert not (campaign.cluster.root / "wal" / "pg_wal").exists()
