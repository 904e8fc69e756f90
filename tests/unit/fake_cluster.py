"""A PostgreSQL cluster without PostgreSQL: what apply sees and changes, with its rules.

Directories and pg_wal are real files in a directory of the test's own; everything else is in
memory. A statement is a row of effects, after each of which the client or the server may die.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fake_faults import Faults

from pgstow.host.copies import LIST_NAME
from pgstow.host.postmaster import Postmaster
from pgstow.model import (
    HostError,
    Relation,
    RelationId,
    ServerState,
    TablespaceState,
)
from pgstow.units import MIB, Bytes

DATABASE = "shop"
VERSION_DIRECTORY = "PG_18_1"
FOREIGN = b"precious"
EPOCH_S = 1_800_000_000.0


def relation_id(name: str) -> RelationId:
    """A relation of the one database."""
    return RelationId(DATABASE, "public", name)


@dataclass
class Rel:
    """A relation of the fake."""

    oid: int
    name: str
    tablespace: str
    table: str | None = None  # of an index
    is_valid: bool = True
    is_partitioned: bool = False
    is_foreign: bool = False  # somebody else's leftover


class FakeClock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = EPOCH_S

    def time(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float, /) -> None:
        self.now_s += seconds


@dataclass
class Cluster:
    """The server and its directories, which outlive any process of pgstow."""

    root: Path
    random: random.Random
    clock: FakeClock = field(default_factory=FakeClock)
    relations: dict[str, Rel] = field(default_factory=dict)
    tablespaces: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)  # what ALTER SYSTEM wrote
    in_force: dict[str, str] = field(default_factory=dict)
    granted: set[str] = field(default_factory=set)
    orphan_files: dict[str, str] = field(default_factory=dict)  # file: tablespace
    pending: list[Callable[[], None]] = field(default_factory=list)  # an orphan's next effects
    pending_pid: int = 0
    sessions: set[int] = field(default_factory=set)
    lock_holder: int | None = None
    next_number: int = 20000
    is_running: bool = True
    down_until_s: float = 0.0
    wal: dict[str, bytes] = field(default_factory=dict)
    foreign_files: dict[Path, bytes] = field(default_factory=dict)
    foreign_places: set[Path] = field(default_factory=set)
    moved_on: dict[str, str | None] = field(default_factory=dict)  # by others; None: dropped

    def __post_init__(self) -> None:
        self.data = self.root / "data"
        (self.data / "pg_wal" / "archive_status").mkdir(parents=True)
        for volume in ("fast", "bulk", "wal"):
            (self.root / volume).mkdir()
        for name in ("orders", "notes", "events"):
            self.relations[name] = Rel(self.number(), name, "pg_default")
        self.relations["parent"] = Rel(self.number(), "parent", "pg_default", is_partitioned=True)
        for name in ("orders_pkey", "notes_pkey"):
            self.relations[name] = Rel(
                self.number(), name, "pg_default", name.removesuffix("_pkey")
            )
        self.tablespaces["theirs"] = (str(self.root / "theirs"), {})
        for number in range(3):
            self.write_wal(f"{number:024X}")

    def number(self) -> int:
        """An oid, a pid."""
        self.next_number += 1
        return self.next_number

    # pg_wal and the postmaster

    def wal_directory(self) -> Path:
        """Where the server's WAL is, links followed."""
        return Path(os.path.realpath(self.data / "pg_wal"))

    def write_wal(self, name: str | None = None) -> None:
        """The server writes WAL, by the name pg_wal."""
        name = name or self.random.choice([*sorted(self.wal), f"{self.number():024X}"])
        self.clock.now_s += 0.01
        self.wal[name] = self.random.randbytes(64)
        path = self.data / "pg_wal" / name
        path.write_bytes(self.wal[name])
        os.utime(path, (self.clock.now_s, self.clock.now_s))

    def check_wal(self) -> None:
        """What a start finds must be what was last written: anything else is a lost server."""
        found = {
            path.name: path.read_bytes()
            for path in (self.data / "pg_wal").iterdir()
            if path.is_file() and path.name != LIST_NAME
        }
        found = {name: data for name, data in found.items() if data != FOREIGN}
        assert found == self.wal, "the server would start on another WAL"

    def find_postmaster(self, data_directory: str, config_file: str) -> Postmaster:
        if not self.is_running:
            raise HostError("no server runs", "start it first")
        status = self.data.stat()
        return Postmaster(
            data_directory, "pg_ctl", (), status.st_uid, status.st_gid, "log", (), "pg_ctl"
        )

    def running_pid(self, data_directory: str) -> int | None:
        return 4711 if self.is_running else None

    def system_identifier(self, data_directory: str) -> str:
        return "7"

    def stop(self) -> None:
        if self.is_running:
            self.write_wal()
            self.end_sessions()
            self.is_running = False

    def start(self) -> None:
        if not self.is_running:
            self.check_wal()
            self.is_running = True
            self.in_force = dict(self.own)
            self.write_wal(f"{self.number():024X}")

    def crash(self) -> None:
        """A backend died: the server ends every session and recovers."""
        self.end_sessions()
        self.in_force = dict(self.own)
        self.down_until_s = self.clock.now_s + 1.0

    def end_sessions(self) -> None:
        self.sessions.clear()
        self.lock_holder = None
        if self.pending and self.random.random() < 0.3:
            self.orphan_files[f"orphan{self.number()}"] = self._busy_tablespace
        self.pending.clear()

    _busy_tablespace = "fast"

    # what others do

    def foreign(self) -> None:
        """Somebody else does something."""
        if self.pending:
            return
        what = self.random.choice(("drop", "move", "leave", "file", "file"))
        moved = [r for r in self.relations.values() if r.is_valid and not r.is_foreign]
        if what == "file":
            self._foreign_file()
        elif what == "drop":
            self._drop(self.random.choice([r for r in moved if r.table is None]))
        elif what == "move":
            found = self.random.choice(moved)
            if not self._is_being_rebuilt(found):
                found.tablespace, self.moved_on[found.name] = "theirs", "theirs"
        else:
            index = next((r for r in moved if r.table is not None), None)
            if index is not None and not self._is_being_rebuilt(index):
                name = f"{index.name}_ccnew{self.number()}"
                self.relations[name] = Rel(
                    self.number(), name, index.tablespace, index.table, False, is_foreign=True
                )

    def _is_being_rebuilt(self, relation: Rel) -> bool:
        return any(r.name.startswith(f"{relation.name}_cc") for r in self.relations.values())

    def _drop(self, table: Rel) -> None:
        for found in list(self.relations.values()):
            if found is table or found.table == table.name:
                del self.relations[found.name]
                if found.is_valid:
                    self.moved_on[found.name] = None

    def _foreign_file(self) -> None:
        places = [self.root / v / "pg_wal" for v in ("wal", "bulk")]
        places += [self.root / "fast" / "fast", self.root / "fast", self.data / "pg_wal.pgstow-new"]
        place = self.random.choice(places)
        if not place.is_dir() or place.is_symlink():
            return
        ours = [p for p in place.iterdir() if p.is_file() and p not in self.foreign_files]
        live = self.wal_directory() == place.resolve()
        if ours and not live and self.is_running and self.random.random() < 0.4:
            path = self.random.choice(ours)  # what the copy wrote is overwritten by another
            if path.name == LIST_NAME or "." in path.name:  # a name that only we can know
                return
        elif live:
            return
        else:
            path = place / f"{self.number():024X}"
        path.write_bytes(FOREIGN)
        os.utime(path, (self.clock.now_s, self.clock.now_s))
        self.foreign_files[path] = FOREIGN
        self.foreign_places.add(place)

    # what the rest of pgstow sees

    def state(self) -> ServerState:
        """As ``read_state`` would."""
        return ServerState(
            version_num=180004,
            version="18.4",
            system_identifier="7",
            data_directory=str(self.data),
            wal_directory=str(self.wal_directory()),
            is_local=True,
            is_in_recovery=False,
            databases=(DATABASE,),
            tablespaces=tuple(
                TablespaceState(name, location, tuple(options.items()))
                for name, (location, options) in self.tablespaces.items()
            ),
            relations=tuple(
                Relation(
                    relation_id(rel.name),
                    "table" if rel.table is None else "index",
                    Bytes(MIB),
                    rel.tablespace,
                    None if rel.table is None else relation_id(rel.table),
                )
                for rel in self.relations.values()
                if not rel.is_partitioned
            ),
            settings=tuple(
                {
                    "wal_level": "replica",
                    "max_wal_size": "1GB",
                    "random_page_cost": "4",
                    "temp_tablespaces": "",
                    **self.in_force,
                }.items()
            ),
        )

    def picture(self) -> dict[str, object]:
        """All that apply could change, but for what others did."""
        places = {
            rel.name: rel.tablespace
            for rel in self.relations.values()
            if not rel.is_foreign and rel.name not in self.moved_on
        }
        return {
            "relations": places,
            "invalid": sorted(
                r.name for r in self.relations.values() if not r.is_valid and not r.is_foreign
            ),
            "tablespaces": dict(self.tablespaces.items()),
            "own": dict(self.own),
            "in force": dict(self.in_force),
            "granted": sorted(self.granted),
            "wal": str(self.wal_directory()),
            "is link": (self.data / "pg_wal").is_symlink(),
            "is running": self.is_running,
            "files": sorted(
                str(path.relative_to(self.root))
                for path in self.root.rglob("*")
                if path not in self.foreign_files
                and not str(path).startswith(str(self.wal_directory()) + "/")
                and not any(place.is_relative_to(path) for place in self.foreign_places)
            ),
        }


def quoted(names: tuple[str, ...]) -> str:
    """Names as ALTER SYSTEM writes them."""
    return ", ".join(names) or '""'


__all__ = ["DATABASE", "Cluster", "FakeClock", "Faults", "Rel", "quoted", "relation_id", "replace"]
