"""Processes of apply and undo over the fake cluster, and the laws that hold after each."""

import random
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fake_cluster import Cluster, relation_id
from fake_faults import Faults, FaultyDisk, FaultyJournal, Killed
from fake_server import FakePostmasters, FakeServer

from pgstow import apply, migration
from pgstow.apply import Options
from pgstow.apply.world import World
from pgstow.model import (
    HostSpec,
    Layout,
    PgstowError,
    Placement,
    Step,
    Tablespace,
    Volume,
)
from pgstow.units import GIB, Bytes
from pgstow.workspace.journal import SCHEMA, StepRecord

Action = Literal["one", "other", "undo"]
SERVER = "7"


@dataclass
class Campaign:
    """One cluster, one workspace, many processes."""

    cluster: Cluster
    journal: FaultyJournal
    log: list[str]
    moves_wal: bool

    @classmethod
    def begin(cls, seed: int, *, moves_wal: bool = True) -> "Campaign":
        """A new cluster in a directory of memory, where the machine has one."""
        memory = Path("/dev/shm")
        root = Path(tempfile.mkdtemp(prefix="pgstow-", dir=memory if memory.is_dir() else None))
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.executescript(SCHEMA)
        return cls(Cluster(root, random.Random(seed)), FaultyJournal(connection), [], moves_wal)

    def end(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.cluster.root)

    def layout(self, which: Action) -> Layout:
        """Two layouts that differ in everything apply can change."""
        mounts = {name: self.cluster.root / name for name in ("data", "fast", "bulk", "wal")}
        volumes = tuple(
            Volume(name, "local-nvme", Bytes(10 * GIB), str(path)) for name, path in mounts.items()
        )
        if which == "one":
            names, wal = ("orders", "orders_pkey"), "wal"
            spaces: tuple[tuple[str, str, str | None], ...] = (("fast", "fast", None),)
            settings = (("random_page_cost", "1.1"),)
        else:
            names, wal = ("notes", "notes_pkey", "orders_pkey"), "bulk"
            deep = str(self.cluster.root / "bulk" / "a" / "b")
            spaces = (("fast", "fast", None), ("deep", "bulk", deep))
            settings = (("random_page_cost", "1.3"),)
        there = [n for n in names if n in self.cluster.relations]
        tablespaces = tuple(
            Tablespace(
                name,
                volume,
                tuple(relation_id(n) for n in there[position :: len(spaces)]),
                (("random_page_cost", "1.2" if which == "one" else "1.4"),),
                location,
            )
            for position, (name, volume, location) in enumerate(spaces)
        )
        temp = ("fast",) if which == "one" else ()
        placement = Placement("data", wal if self.moves_wal else "data", temp, settings)
        return Layout(HostSpec(), volumes, placement, tablespaces)

    def process(self, action: Action, faults: Faults, *, restart: bool = True) -> bool:
        """Run the command once; whether it said that all is done."""
        self.log.append(f"{action}{' --restart' if restart else ''}")
        is_done = False
        server = FakeServer(self.cluster, faults)
        world = World(
            server,
            FaultyDisk(faults),
            FakePostmasters(self.cluster, faults),
            self.cluster.clock,
        )
        self.journal.faults = faults
        try:
            is_done = self._command(action, world, restart=restart)
        except (Killed, KeyboardInterrupt, PgstowError) as error:
            self.log.append(f"  ended by {type(error).__name__}: {error}")
        finally:
            self.log += [f"  {line}" for line in faults.happened]
            server.close()
            self.journal.faults = Faults()
        self.check_files()
        if not faults.is_dead:
            self.check_journal()
        return is_done

    def _command(self, action: Action, world: World, *, restart: bool) -> bool:
        """What the command line does."""
        options = Options(lock_wait_s=1.0, restart=restart, plain_directories=True)
        allowed = replace(options, restart=restart and action != "undo")
        apply.recover(
            self.journal,
            options=allowed,
            disk=world.disk,
            postmasters=world.postmasters,
            clock=world.clock,
        )
        world.server.server_paths()  # the server must be there to be read
        state = self.cluster.state()
        if action == "undo":
            last = self.journal.last_undoable(SERVER)
            if last is None:
                return True
            backward = [
                (record, migration.inverse(record.step))
                for record in reversed(self.journal.in_effect(last.id))
            ]
            result = apply.undo(
                backward,
                run_id=last.id,
                state=state,
                dsn="",
                journal=self.journal,
                options=options,
                world=world,
            )
            return not result.failed and self.journal.last_undoable(SERVER) is None
        steps = self._steps(action)
        result = apply.run(
            steps,
            state=state,
            layout=action,
            dsn="",
            journal=self.journal,
            options=options,
            world=world,
        )
        return not result.failed and not [
            o for o in result.outcomes if o.status == "skipped" and o.step.kind == "move wal"
        ]

    def _steps(self, action: Action) -> tuple[Step, ...]:
        target_layout = self.layout(action)
        present = replace(target_layout, tablespaces=(), postgres=Placement("data", "data"))
        return migration.steps(self.cluster.state(), present, target_layout)

    # the laws

    def check_files(self) -> None:
        """Nothing that is somebody else's was touched, and no server lost its WAL."""
        for path, data in self.cluster.foreign_files.items():
            where = [path, *self._moved_with(path)]
            found = [p.read_bytes() for p in where if p.is_file()]
            assert data in found, f"{path} was somebody else's, and is gone"
        if self.cluster.is_running:
            self.cluster.check_wal()

    def _moved_with(self, path: Path) -> list[Path]:
        """Where a file is after the directory it was put in got another name."""
        names = ("pg_wal", "pg_wal.pgstow-new", "pg_wal.pgstow-old")
        places = [self.cluster.data / name for name in names]
        places += [self.cluster.root / volume / "pg_wal" for volume in ("wal", "bulk")]
        return [place / path.name for place in places]

    def check_journal(self) -> None:
        """What the journal says of each subject's last step is what is there."""
        last: dict[str, StepRecord] = {}
        for id in self.journal.touched:
            record = self.journal.step(int(str(id)))
            if record.status not in ("planned", "skipped"):
                last[record.step.subject] = record
        for subject, record in last.items():
            name = subject.rpartition(".")[2]
            if name in self.cluster.moved_on or record.status in ("partial", "unknown"):
                continue
            if record.status in ("running", "undoing"):
                continue
            is_there = self._is_there(record.step)
            is_recorded = record.status == "done"
            assert is_there is is_recorded, f"{subject}: recorded {record.status}"

    def _is_there(self, step: Step) -> bool:
        cluster = self.cluster
        match step.kind:
            case "move index" | "move table":
                assert step.relation is not None
                found = cluster.relations.get(step.relation.name)
                return found is not None and found.tablespace == step.argument("to")
            case "create tablespace" | "drop tablespace":
                place, _ = cluster.tablespaces.get(step.subject, ("", {}))
                is_it = place == step.argument("location")
                return is_it is (step.kind == "create tablespace")
            case "alter tablespace":
                put = {k[7:]: v for k, v in step.arguments if k.startswith("option.")}
                present = cluster.tablespaces.get(step.subject, ("", {}))[1]
                return put.items() <= present.items()
            case "set setting":
                return cluster.in_force.get(step.subject) == step.argument("value")
            case "set temp tablespaces":
                names = [value for key, value in step.arguments if key == "tablespace"]
                return cluster.in_force.get("temp_tablespaces") == (", ".join(names) or '""')
            case "move wal":
                return str(cluster.wal_directory()) == step.argument("to")

    def reported(self) -> str:
        """What happened, to see it again."""
        rows = [
            f"    {r.run} {r.id} {r.status}: {r.step.kind} {r.step.subject}: {r.note}"
            for run in range(1, 9)
            for r in self.journal.steps(run)
        ]
        return "\n".join([*self.log, *rows])

    def mend(self) -> None:
        """What the messages ask of a person: files that are in the way are moved away."""
        self.cluster.orphan_files.clear()
        for path, data in self.cluster.foreign_files.items():
            for place in (path, *self._moved_with(path)):
                if place.is_file() and place.read_bytes() == data:  # the server's may be named so
                    place.unlink()
        self.cluster.foreign_files.clear()
        for name, rel in list(self.cluster.relations.items()):
            if rel.is_foreign:
                del self.cluster.relations[name]
        aside = self.cluster.data / "pg_wal.pgstow-old"
        if aside.is_dir() and not aside.is_symlink() and not self.journal.unfinished_wal_moves():
            shutil.rmtree(aside)  # as its message says
        self.cluster.clock.sleep(60)
