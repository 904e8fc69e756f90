"""A process's view of the fake cluster: its sessions, each statement a row of effects."""

from collections.abc import Callable
from pathlib import Path

from fake_cluster import DATABASE, VERSION_DIRECTORY, Cluster, Rel, quoted
from fake_faults import Faults

from pgstow.host.postmaster import Postmaster
from pgstow.model import HostError, RelationId, ServerError, UserError
from pgstow.model.profile import RelationKind
from pgstow.postgres import changes
from pgstow.postgres.facts import Rebuild, RelationFacts, Session, SettingFacts, is_leftover


class FakePostmasters:
    """Stops and starts the fake, with faults."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self.cluster = cluster
        self.faults = faults
        self.find_postmaster = cluster.find_postmaster
        self.running_pid = cluster.running_pid
        self.system_identifier = cluster.system_identifier

    def is_stopping(self, data_directory: str) -> bool:
        return False

    def stop(self, postmaster: Postmaster) -> None:
        self.faults.effect("stop", self.cluster.stop, _failed)

    def start(self, postmaster: Postmaster) -> None:
        self.faults.effect("start", self.cluster.start, _failed)


def _failed(kind: str) -> HostError:
    return HostError(f"pg_ctl failed ({kind})", "see its log")


class FakeServer:
    """The protocol of :mod:`pgstow.apply.world` over a cluster."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self.cluster = cluster
        self.faults = faults
        self.holder = 0
        self.pid = 0
        faults.crash = cluster.crash
        faults.foreign = cluster.foreign
        faults.lose_lock = self._lose_lock

    # sessions

    def lock(self) -> None:
        self._reach()
        if self.cluster.lock_holder in self.cluster.sessions:
            raise UserError("another apply is running on this server", "wait until it has finished")
        self.holder = self.cluster.number()
        self.cluster.sessions.add(self.holder)
        self.cluster.lock_holder = self.holder

    def check(self) -> None:
        if self.faults.is_dead or self.holder not in self.cluster.sessions:
            raise HostError("the session that keeps a second apply out is gone", "run apply again")

    def close(self) -> None:
        """Sessions end; what the changing one was at goes on for a while if nobody cancelled it."""
        self.cluster.sessions -= {self.holder, self.pid}
        if self.cluster.lock_holder == self.holder:
            self.cluster.lock_holder = None

    def _lose_lock(self) -> None:
        self.cluster.sessions.discard(self.holder)
        self.cluster.lock_holder = None

    def _reach(self) -> None:
        if self.faults.is_dead:
            self.faults.effect("look", lambda: None)
        cluster = self.cluster
        if not cluster.is_running or cluster.clock.now_s < cluster.down_until_s:
            raise ServerError("cannot connect to PostgreSQL", "check that the server runs")

    # looks

    def server_paths(self) -> tuple[str, str]:
        self._reach()
        return str(self.cluster.data), "postgresql.conf"

    def has_database(self, name: str) -> bool:
        self._reach()
        return name == DATABASE

    def relation(self, relation: RelationId) -> RelationFacts | None:
        self._reach()
        found = self.cluster.relations.get(relation.name)
        if found is None:
            return None
        table = self.cluster.relations.get(found.table or "", found)
        return RelationFacts(found.oid, found.tablespace, 1 << 20, 1, table.oid, found.is_valid)

    def indexes(self, database: str, table_oid: int) -> tuple[int, ...]:
        self._reach()
        return tuple(r.oid for r in self._indexes(table_oid))

    def _indexes(self, table_oid: int) -> list[Rel]:
        relations = self.cluster.relations
        return [
            r
            for r in relations.values()
            if r.table is not None and r.table in relations and relations[r.table].oid == table_oid
        ]

    def leftovers(self, rebuild: Rebuild) -> tuple[tuple[str, str], ...] | None:
        self._reach()
        if self.cluster.pending:
            return None  # the statement is under way
        original = self.cluster.relations.get(rebuild.name)
        is_swapped = original is None or original.oid != rebuild.oid
        return tuple(
            ("public", r.name)
            for r in self._indexes(rebuild.table_oid)
            if not r.is_valid and is_leftover(rebuild, r.oid, r.name, r.tablespace, is_swapped)
        )

    def lock_holders(self, database: str, relation_oid: int) -> tuple[Session, ...]:
        self._reach()
        return ()

    def blockers(self, database: str) -> tuple[Session, ...]:
        return ()

    def autovacuum_yields_after_s(self, database: str) -> float:
        return 1.0

    def rebuild_progress(self, database: str) -> float | None:
        return None

    def tablespace(self, name: str) -> tuple[str, dict[str, str]] | None:
        self._reach()
        if name == "pg_default":
            return "", {}
        return self.cluster.tablespaces.get(name)

    def tablespace_directory(self, name: str, database: str, oid: int) -> str | None:
        return None

    def tablespace_contents(self, name: str) -> tuple[str, ...]:
        self._reach()
        cluster = self.cluster
        found = [r.name for r in cluster.relations.values() if r.tablespace == name]
        files = [f"file {f} of no relation" for f, at in cluster.orphan_files.items() if at == name]
        return (*found, *files)

    def has_public_create(self, name: str) -> bool:
        self._reach()
        return name in self.cluster.granted

    def setting(self, name: str) -> SettingFacts | None:
        self._reach()
        value = self.cluster.in_force.get(name, "")
        return SettingFacts(value, "user", False, self.cluster.own.get(name))

    def may_reload(self) -> bool:
        return True

    def quoted_list(self, names: tuple[str, ...]) -> str:
        return quoted(names)

    def backend(self, database: str | None) -> tuple[int, str]:
        self._reach()
        if self.pid not in self.cluster.sessions:
            self.pid = self.cluster.number()
            self.cluster.sessions.add(self.pid)
        return self.pid, "then"

    def is_backend_there(self, identity: tuple[int, str]) -> bool:
        """An orphan gets on with its statement each time somebody looks, or notices and ends."""
        self._reach()
        cluster = self.cluster
        if identity[0] == self.pid and self.pid in cluster.sessions:
            return True
        if cluster.pending_pid != identity[0] or not cluster.pending:
            return False
        if cluster.random.random() < 0.4:
            cluster.pending.clear()
        else:
            cluster.pending.pop(0)()
        return bool(cluster.pending)

    def end_backend(self, identity: tuple[int, str]) -> None:
        if self.cluster.pending_pid == identity[0]:
            self.cluster.pending.clear()

    # changes

    def create_tablespace(self, name: str, location: str, options: dict[str, str]) -> None:
        def do() -> None:
            directory = Path(location)
            if name in self.cluster.tablespaces or not directory.is_dir():
                raise ServerError(f"tablespace {name} exists, or {location} does not")
            if any(directory.iterdir()) and (directory / VERSION_DIRECTORY).exists():
                raise ServerError(f"directory {location} is in use as a tablespace")
            (directory / VERSION_DIRECTORY).mkdir()
            self.cluster.tablespaces[name] = (location, dict(options))

        self._statement(f"create tablespace {name}", [do])

    def alter_tablespace(self, name: str, put: dict[str, str], reset: tuple[str, ...]) -> None:
        def do() -> None:
            location, options = self.cluster.tablespaces[name]
            kept = {k: v for k, v in (options | put).items() if k not in reset}
            self.cluster.tablespaces[name] = (location, kept)

        self._statement(f"alter tablespace {name}", [do])

    def drop_tablespace(self, name: str) -> None:
        def do() -> None:
            if name not in self.cluster.tablespaces:
                raise ServerError(f"tablespace {name!r} does not exist")
            if self.tablespace_contents(name):
                raise ServerError(f"tablespace {name!r} is not empty")
            (Path(self.cluster.tablespaces.pop(name)[0]) / VERSION_DIRECTORY).rmdir()
            self.cluster.granted.discard(name)

        self._statement(f"drop tablespace {name}", [do])

    def grant_create(self, name: str) -> None:
        self._statement(f"grant {name}", [lambda: self.cluster.granted.add(name)])

    def revoke_create(self, name: str) -> None:
        self._statement(f"revoke {name}", [lambda: self.cluster.granted.discard(name)])

    def set_setting(self, name: str, value: str) -> None:
        def do() -> None:
            self.cluster.own[name] = value

        self._statement(f"set {name}", [do])
        self.reload()

    def reset_setting(self, name: str) -> None:
        self._statement(f"reset {name}", [lambda: self.cluster.own.pop(name, None) and None])
        self.reload()

    def set_temp_tablespaces(self, names: tuple[str, ...]) -> None:
        self.set_setting("temp_tablespaces", quoted(names))

    def reload(self) -> None:
        def do() -> None:
            self.cluster.in_force = dict(self.cluster.own)

        try:
            self._statement("reload", [do])
        except ServerError as error:
            raise changes.NotReloadedError(error.message) from error

    def rebuild_index(
        self, index: RelationId, tablespace: str, lock_timeout_s: float, watch: Callable[[], None]
    ) -> None:
        relations, name = self.cluster.relations, index.name
        new, old = f"{name}_ccnew", f"{name}_ccold"

        def begin() -> None:
            known = relations.get(name)
            if known is None or new in relations or old in relations:
                raise ServerError(f"{name} cannot be rebuilt")
            relations[new] = Rel(self.cluster.number(), new, tablespace, known.table, False)

        def swap() -> None:
            if name in relations and new in relations:
                before, made = relations.pop(name), relations.pop(new)
                before.name, before.is_valid = old, False
                made.name, made.is_valid = name, True
                relations[old], relations[name] = before, made

        def end() -> None:
            relations.pop(old, None)

        self._statement(f"rebuild {name}", [begin, watch, swap, end])

    def copy_relation(
        self,
        relation: RelationId,
        kind: RelationKind,
        tablespace: str,
        lock_timeout_s: float,
        watch: Callable[[], None],
    ) -> None:
        self.cluster._busy_tablespace = tablespace

        def do() -> None:
            found = self.cluster.relations.get(relation.name)
            if found is None:
                raise ServerError(f"{relation} does not exist")
            found.tablespace = tablespace

        self._statement(f"copy {relation.name}", [watch, do])

    def drop_index(self, database: str, schema: str, name: str, lock_timeout_s: float) -> None:
        def do() -> None:
            found = self.cluster.relations.pop(name, None)
            assert found is None or not found.is_foreign, f"{name} was somebody else's"
            assert found is None or not found.is_valid, f"{name} was in use"

        self._statement(f"drop index {name}", [do])

    def checkpoint(self) -> None:
        self._statement("checkpoint", [self.cluster.write_wal])

    def _statement(self, name: str, effects: list[Callable[[], None]]) -> None:
        """Go through a statement; whoever dies in it leaves the server with what is left of it."""
        self._reach()
        self.backend(DATABASE)
        cluster = self.cluster
        if cluster.random.random() < 0.3:
            cluster.write_wal()
        for number, do in enumerate(effects):
            cluster.pending, cluster.pending_pid = list(effects[number:]), self.pid
            injected = len(self.faults.happened)
            try:
                self.faults.effect(name, do, self._error)
            except KeyboardInterrupt:
                cluster.pending = []  # cancelled on the server
                raise
            except Exception:
                happened = [line.split(": ")[1] for line in self.faults.happened[injected:]]
                cluster.pending = self._left_behind(happened, effects, number)
                raise
            except BaseException:
                if self.faults.happened[-1].split(": ")[1] == "kill after":
                    cluster.pending = list(effects[number + 1 :])
                raise
        cluster.pending = []

    def _left_behind(
        self, happened: list[str], effects: list[Callable[[], None]], number: int
    ) -> list[Callable[[], None]]:
        """What a server still does that has not noticed yet that its client is gone."""
        if not {"error before", "error after"} & set(happened):
            return []
        if self.cluster.random.random() < 0.5:
            return []
        return list(effects[number + ("error after" in happened) :])

    def _error(self, kind: str) -> ServerError:
        if kind == "lock":
            return changes.LockTimeoutError("the lock was not granted in time")
        if kind == "full":
            return ServerError("could not extend file: No space left on device")
        self.cluster.sessions.discard(self.pid)  # the connection is lost
        return ServerError("server closed the connection unexpectedly")
