"""Apply and undo on real servers under drawn faults: what the fakes say holds there too.

Every case is made from its seed, which its name has. An eighth runs with the other tests.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from apply_samples import Bench
from local_server import LocalServer

from pgstow import apply, migration
from pgstow.apply import Options
from pgstow.apply.live import live
from pgstow.apply.world import World
from pgstow.host.disk import Disk
from pgstow.model import HostError, Layout, PgstowError, ServerError, Step
from pgstow.workspace import Workspace

SEEDS = 64
SHARE = 8  # one seed in so many runs every day
TABLES = """
CREATE TABLE big (id int PRIMARY KEY, pad text);
INSERT INTO big SELECT n, repeat('x', 50) FROM generate_series(1, 3000) n;
CREATE TABLE small (id int PRIMARY KEY);
CREATE TABLE events (at int, id int) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE events_1_1 PARTITION OF events_1 FOR VALUES FROM (0) TO (10);
CREATE INDEX events_at ON events (at)
"""
CHANGES = frozenset(
    {
        "create_tablespace",
        "alter_tablespace",
        "drop_tablespace",
        "grant_create",
        "revoke_create",
        "set_setting",
        "reset_setting",
        "set_temp_tablespaces",
        "rebuild_index",
        "copy_relation",
        "drop_index",
    }
)
KINDS = (
    "kill before",
    "kill after",
    "interrupt before",
    "interrupt after",
    "error after",
    "session ended",
    "backend killed",
    "lock lost",
)


class Killed(BaseException):
    """The program is gone: nothing after it has an effect."""


class Fault:
    """What happens at which of a process's effects."""

    def __init__(self, bench: Bench, at: int, kind: str) -> None:
        self.bench = bench
        self.at = at
        self.kind = kind
        self.count = 0
        self.is_dead = False

    def effect(self, do: Callable[[], Any], backend: Callable[[], int], error: Exception) -> Any:
        """Have an effect, or not."""
        if self.is_dead:
            raise Killed
        self.count += 1
        if self.count != self.at:
            return do()
        what, _, when = self.kind.partition(" ")
        if self.kind == "lock lost":
            self._end_sessions("query LIKE '%advisory%'")
            return do()
        if self.kind == "session ended":
            self._end_sessions(f"pid = {backend()}")
            return do()
        if self.kind == "backend killed":
            os.kill(backend(), signal.SIGKILL)
            time.sleep(0.2)
            return do()
        if when == "after":
            do()
        if what == "kill":
            self.is_dead = True
            raise Killed
        raise KeyboardInterrupt if what == "interrupt" else error

    def _end_sessions(self, which: str) -> None:
        self.bench.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'pgstow' AND {which}"
        )


class FaultyServer:
    """A live server at whose changes something happens."""

    def __init__(self, server: Any, fault: Fault) -> None:
        self._server = server
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._server, name)
        if self._fault.is_dead and name != "close":
            raise Killed
        if name not in CHANGES:
            return found
        error = ServerError("server closed the connection unexpectedly")

        def change(*arguments: Any) -> Any:
            return self._fault.effect(
                lambda: found(*arguments), lambda: int(self._server.backend("postgres")[0]), error
            )

        return change


class FaultyDisk(Disk):
    """The disk, at whose directories something happens."""

    def __init__(self, fault: Fault, server: Any) -> None:
        self._fault = fault
        self._server = server

    def make_directory(self, *arguments: Any) -> None:
        self._do(lambda: Disk.make_directory(self, *arguments))

    def remove_directory(self, *arguments: Any) -> None:
        self._do(lambda: Disk.remove_directory(self, *arguments))

    def _do(self, do: Callable[[], None]) -> None:
        error = HostError("the disk does not answer")
        self._fault.effect(do, lambda: int(self._server.backend("postgres")[0]), error)


def layout(bench: Bench, which: str) -> Layout:
    names = ("postgres.public.big", "postgres.public.big_pkey", "postgres.public.events_at")
    if which == "other":
        names = ("postgres.public.small", "postgres.public.big_pkey", "postgres.public.events")
    settings = {"random_page_cost": "1.1" if which == "one" else "1.3"}
    temp = ("fast",) if which == "one" else ()
    return bench.layout(names, temp=temp, settings=settings)


def steps(bench: Bench, which: str) -> tuple[Step, ...]:
    return migration.steps(bench.state(), bench.present(), layout(bench, which))


def reachable(bench: Bench) -> None:
    """Wait until the server has recovered."""
    for _ in range(300):
        try:
            bench.execute("SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return


def process(bench: Bench, action: str, fault: Fault) -> bool:
    """One run of the command; whether it said that all is done."""
    reachable(bench)
    options = Options(plain_directories=True, lock_wait_s=5)
    with Workspace.open(bench.workspace) as store:
        state = bench.state()
        with live(bench.server.dsn, state) as real:
            faulty: Any = FaultyServer(real.server, fault)
            world = World(faulty, FaultyDisk(fault, real.server), real.postmasters, real.clock)
            shared: dict[str, Any] = {
                "state": state,
                "dsn": "",
                "journal": store.journal,
                "options": options,
                "world": world,
            }
            try:
                if action == "undo":
                    last = store.journal.last_undoable(state.system_identifier)
                    if last is None:
                        return True
                    backward = [
                        (record, migration.inverse(record.step))
                        for record in reversed(store.journal.in_effect(last.id))
                    ]
                    result = apply.undo(backward, run_id=last.id, **shared)
                    return not result.failed and (
                        store.journal.last_undoable(state.system_identifier) is None
                    )
                result = apply.run(steps(bench, action), layout=action, **shared)
                return not result.failed
            except (Killed, KeyboardInterrupt, PgstowError):
                return False


def picture(bench: Bench) -> dict[str, object]:
    return {
        "places": bench.places(),
        "parents": bench.execute(
            "SELECT relname, reltablespace <> 0 FROM pg_class"
            " WHERE relkind IN ('p', 'I') ORDER BY 1"
        ),
        "tablespaces": bench.execute("SELECT spcname FROM pg_tablespace ORDER BY 1"),
        "invalid": bench.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
        ),
        "settings": bench.execute("SELECT name, setting FROM pg_file_settings WHERE applied"),
        "directories": sorted(str(path) for path in bench.directory.rglob("*")),
    }


@pytest.fixture(scope="module")
def bench(shared_server: Callable[[int], LocalServer]) -> Bench:
    return Bench.of(shared_server(18))


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed % SHARE == 0 else pytest.mark.nightly)
        for seed in range(SEEDS)
    ],
)
def test_a_drawn_interleaving_ends_well(bench: Bench, seed: int) -> None:
    source = random.Random(seed)
    tables = ("big", "small", "events")
    bench.execute(*(f"DROP TABLE IF EXISTS {name}" for name in tables), *TABLES.split(";\n"))
    first = picture(bench)
    for _ in range(source.randint(1, 3)):
        fault = Fault(bench, source.randint(1, 14), source.choice(KINDS))
        process(bench, source.choice(("one", "one", "other", "undo")), fault)
    quiet = Fault(bench, 0, "")
    if source.random() < 0.5:
        wanted = source.choice(("one", "other"))
        assert any(process(bench, wanted, quiet) for _ in range(4))
        assert steps(bench, wanted) == ()
        assert picture(bench)["invalid"] == []
    for _ in range(6):
        if process(bench, "undo", quiet):
            break
    assert picture(bench) == first
