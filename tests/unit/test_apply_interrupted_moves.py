"""What is left of a run that was cut off: moves of pg_wal taken up, statements that go on."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_cluster import VERSION_DIRECTORY
from fake_faults import Faults, FaultyDisk, T
from fake_server import FakePostmasters, FakeServer
from fault_campaign import SERVER, Action, Campaign

from pgstow import apply
from pgstow.apply import Observer, Options, leftovers, wal
from pgstow.apply.context import Context
from pgstow.apply.wal_phases import Moving
from pgstow.apply.world import World
from pgstow.host.disk import Disk
from pgstow.model import HostError, ServerError

SEGMENT = 24  # characters of a WAL file's name


class Watched(Faults):
    """Counts what is copied while the server is down."""

    def __init__(self, campaign: Campaign, at: dict[int, str] | None = None) -> None:
        super().__init__(at)
        self.campaign = campaign
        self.names: list[str] = []
        self.copied_down: set[str] = set()

    def effect(
        self,
        name: str,
        do: Callable[[], T],
        error: Callable[[str], Exception] | None = None,
        half: Callable[[], None] | None = None,
    ) -> T:
        self.names.append(name)
        if name.startswith("copy ") and not self.campaign.cluster.is_running:
            self.copied_down.add(name.removeprefix("copy ")[:SEGMENT])
        return super().effect(name, do, error, half)


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    found = Campaign.begin(1)
    yield found
    found.end()


def effect_number(
    begins: str, nth: int = 0, of: Action = "one", after: Action | None = None
) -> int:
    """The number of an apply's effect whose name begins so; ``after`` another apply."""
    plain = Campaign.begin(1)
    try:
        if after is not None:
            assert plain.process(after, Faults())
        watched = Watched(plain)
        assert plain.process(of, watched)
        found = [n for n, name in enumerate(watched.names, 1) if name.startswith(begins)]
        return found[nth]
    finally:
        plain.end()


def reported(campaign: Campaign) -> str:
    return " ".join(campaign.reported().split())


@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_first_copy_that_was_cut_off_ends_before_the_server_is_stopped(
    campaign: Campaign, nth: int
) -> None:
    for number in range(10):
        campaign.cluster.write_wal(f"{number:024X}")
    campaign.cluster.clock.sleep(60)
    campaign.process("one", Faults({effect_number("copy 0", nth): "kill during"}))
    assert len(campaign.journal.unfinished_wal_moves()) == 1
    campaign.cluster.clock.sleep(600)
    before = dict(campaign.cluster.wal)
    watched = Watched(campaign)
    assert campaign.process("one", watched)
    written = {n for n, data in campaign.cluster.wal.items() if before.get(n) != data}
    assert watched.copied_down <= written  # by the stop, and since
    assert len(before) >= 10 and len(watched.copied_down) < 3
    assert str(campaign.cluster.wal_directory()) == str(campaign.cluster.root / "wal" / "pg_wal")


def test_what_a_killed_copy_found_half_written_is_copied_again(campaign: Campaign) -> None:
    """Coarse clocks: a file may be written to after its copy, and keep its time."""
    cluster = campaign.cluster
    cluster.write_wal("0" * SEGMENT)  # a moment before the copy
    campaign.process("one", Faults({effect_number("copy 0", 2): "kill before"}))
    path = cluster.data / "pg_wal" / ("0" * SEGMENT)
    at = path.stat().st_mtime_ns
    cluster.wal[path.name] = bytes(64)
    path.write_bytes(cluster.wal[path.name])
    os.utime(path, ns=(at, at))
    cluster.clock.sleep(600)
    assert campaign.process("one", Faults())  # the fake's start looks at every byte


def test_a_copy_whose_volume_is_gone_is_not_made_below_its_mount(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--restart, and the volume is not mounted any more: given up, and said."""
    campaign.process("one", Faults({effect_number("copy 0", 1): "kill before"}))
    mount = campaign.cluster.root / "wal"
    mount.rename(campaign.cluster.root / "unplugged")
    mount.mkdir()
    world = World(
        FakeServer(campaign.cluster, Faults()),
        FaultyDisk(Faults()),
        FakePostmasters(campaign.cluster, Faults()),
        campaign.cluster.clock,
    )
    (message,) = apply.recover(
        campaign.journal,
        options=Options(restart=True),
        disk=world.disk,
        postmasters=world.postmasters,
        clock=world.clock,
    )
    assert f"{mount} is not mounted" in message
    assert "still on it" in message
    assert list(mount.iterdir()) == []
    assert campaign.cluster.is_running


def test_a_switched_link_that_leads_nowhere_is_not_taken_for_a_server_that_wrote(
    campaign: Campaign,
) -> None:
    """The new volume is not mounted: nobody can say whether the server ran on it."""
    campaign.process("one", Faults({effect_number("start"): "kill before"}))
    new = campaign.cluster.root / "wal"
    new.rename(campaign.cluster.root / "unplugged")
    (new / "pg_wal").mkdir(parents=True)
    assert not campaign.process("one", Faults())
    assert "where the copy is not" in reported(campaign)
    assert (campaign.cluster.data / "pg_wal.pgstow-old").is_dir()
    (new / "pg_wal").rmdir()
    new.rmdir()
    (campaign.cluster.root / "unplugged").rename(new)
    assert campaign.process("one", Faults())


class Broken(FaultyDisk):
    """A defect of pgstow's own, at an effect."""

    def rename(self, source: Path, target: Path) -> None:
        raise TypeError("a defect")

    def remove_file(self, path: Path) -> None:
        if not getattr(self, "is_forgiving", True):
            raise TypeError("another defect")
        Disk.remove_file(self, path)


def moving(
    campaign: Campaign, disk: FaultyDisk, postmasters: FakePostmasters | None = None
) -> tuple[Context, int]:
    """What apply has at hand when it begins to move pg_wal."""
    world = World(
        FakeServer(campaign.cluster, Faults()),
        disk,
        postmasters or FakePostmasters(campaign.cluster, Faults()),
        campaign.cluster.clock,
    )
    world.server.lock()
    options = Options(restart=True, plain_directories=True)
    state = campaign.cluster.state()
    context = Context(state, world, campaign.journal, options, Observer())
    (step,) = (s for s in campaign._steps("one") if s.kind == "move wal")
    (id,) = campaign.journal.plan(campaign.journal.begin(SERVER, "one"), [step])
    campaign.journal.started(id)
    return context, id


def test_a_defect_is_not_called_an_interruption(campaign: Campaign) -> None:
    disk = Broken(Faults())
    context, id = moving(campaign, disk)
    with pytest.raises(TypeError, match="a defect") as caught:
        wal.move(context, id, campaign.journal.step(id).step)
    home = campaign.cluster.data / "pg_wal"
    (note,) = caught.value.__notes__
    assert f"pg_wal is in {home} as before, the server was started on it again" in note
    assert campaign.cluster.is_running


def test_a_defect_on_the_way_back_leaves_the_move_open_and_is_named(campaign: Campaign) -> None:
    disk = Broken(Faults())
    disk.is_forgiving = False  # type: ignore[attr-defined]
    context, id = moving(campaign, disk)
    with pytest.raises(wal.BrokenMoveError, match="TypeError: a defect; putting pg_wal back") as e:
        wal.move(context, id, campaign.journal.step(id).step)
    assert "TypeError: another defect" in str(e.value)
    assert "untouched" in str(e.value) and "the server runs" in str(e.value)
    assert [r.id for r in campaign.journal.unfinished_wal_moves()] == [id]


@pytest.mark.parametrize(
    ("kind", "begins"), [("error before", "rename pg_wal"), ("interrupt before", "rename pg_wal")]
)
def test_what_was_put_back_is_said(campaign: Campaign, kind: str, begins: str) -> None:
    campaign.process("one", Faults({effect_number(begins): kind}))
    home = campaign.cluster.data / "pg_wal"
    message = f"pg_wal is in {home} as before, the server was started on it again"
    assert message in reported(campaign)
    (record,) = (r for r in campaign.journal.steps(1) if r.step.kind == "move wal")
    assert record.status == "failed" and message in str(record.note)


def test_what_could_not_be_put_back_is_said(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Moving) -> tuple[str, ...]:
        raise HostError("no", "mend it")

    monkeypatch.setattr(Moving, "abandon", refuse)
    campaign.process("one", Faults({effect_number("rename pg_wal"): "error before"}))
    text = reported(campaign)
    assert "putting pg_wal back failed: no; mend it; the old pg_wal is untouched, in " in text
    assert "the server is down; remedy that, then run apply again" in text
    assert len(campaign.journal.unfinished_wal_moves()) == 1


class Undying(FakeServer):
    """A server on which a killed client's session goes on for ever."""

    ended = 0

    def is_backend_there(self, identity: tuple[int, str]) -> bool:
        return True

    def end_backend(self, identity: tuple[int, str]) -> None:
        self.ended += 1


class Listener(Observer):
    """Keeps what is reported to it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def waiting(self, text: str) -> None:
        self.texts.append(text)


def test_a_statement_that_does_not_end_is_not_waited_for_without_end(campaign: Campaign) -> None:
    server, listener = Undying(campaign.cluster, Faults()), Listener()
    world = World(
        server,
        FaultyDisk(Faults()),
        FakePostmasters(campaign.cluster, Faults()),
        campaign.cluster.clock,
    )
    context = Context(campaign.cluster.state(), world, campaign.journal, Options(), listener)
    (id,) = campaign.journal.plan(campaign.journal.begin(SERVER, "one"), campaign._steps("one")[:1])
    campaign.journal.remember(id, {"backend": [4242, "then"]})
    campaign.journal.started(id)
    with pytest.raises(ServerError, match="pid 4242") as caught:
        leftovers.await_orphan(context, campaign.journal.step(id))
    assert server.ended == 1
    assert "pg_stat_activity where pid = 4242" in caught.value.remedy
    assert any("pid 4242" in text and "of at most" in text for text in listener.texts)
    with pytest.raises(ServerError, match="cannot be determined"):
        apply.run(
            (), state=campaign.cluster.state(), layout="one", dsn="", journal=campaign.journal,
            world=world,
        )  # fmt: skip
    assert campaign.journal.step(id).status == "running"


def test_a_rebuild_whose_client_was_cut_off_is_not_forgotten(campaign: Campaign) -> None:
    """The connection breaks, the server goes on for a moment: what it leaves is dropped later."""
    number = effect_number("rebuild orders_pkey")
    for seed in range(20):
        one = Campaign.begin(seed, moves_wal=False)
        try:
            one.process("one", Faults({number: "error after"}))
            for _ in range(4):
                one.cluster.clock.sleep(30)
                one.process("one", Faults())
            assert one.cluster.picture()["invalid"] == [], one.reported()
        finally:
            one.end()


def test_pg_wal_that_cannot_be_seen_is_left_and_the_rest_goes_on(campaign: Campaign) -> None:
    from dataclasses import replace

    state = replace(campaign.cluster.state(), is_local=False)
    world = World(
        FakeServer(campaign.cluster, Faults()),
        FaultyDisk(Faults()),
        FakePostmasters(campaign.cluster, Faults()),
        campaign.cluster.clock,
    )
    (step,) = (s for s in campaign._steps("one") if s.kind == "move wal")
    result = apply.run(
        [step], state=state, layout="one", dsn="", journal=campaign.journal, world=world
    )
    (outcome,) = result.outcomes
    assert outcome.status == "skipped" and "needs the server's machine" in outcome.note


def test_another_tablespace_of_the_same_name_is_not_taken_back(campaign: Campaign) -> None:
    """Somebody has dropped ours, and made one of that name elsewhere."""
    cluster = campaign.cluster
    assert campaign.process("one", Faults())
    theirs = cluster.root / "elsewhere"
    (theirs / VERSION_DIRECTORY).mkdir(parents=True)
    for relation in cluster.relations.values():
        relation.tablespace = "pg_default"
    cluster.tablespaces["fast"] = (str(theirs), {})
    campaign.process("undo", Faults())
    assert cluster.tablespaces["fast"] == (str(theirs), {})
    (record,) = (r for r in campaign.journal.steps(1) if r.step.kind == "create tablespace")
    assert record.status == "undone" and f"at {theirs}" in str(record.note)
    made = campaign.journal.made_tablespaces(SERVER)
    assert "fast" not in made
