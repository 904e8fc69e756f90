"""The real world: a PostgreSQL server through sessions, this machine's disk and clock."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from pgstow.apply.sessions import Sessions
from pgstow.apply.world import World
from pgstow.host import directories, postmaster
from pgstow.host.disk import Disk
from pgstow.model import PgstowError, RelationId, ServerState
from pgstow.model.profile import RelationKind
from pgstow.postgres import Connection, changes, connect, facts
from pgstow.units import format_size

_FILE_OF_RELATION = re.compile(r"([0-9]+)([._].*)?")


@contextmanager
def live(dsn: str, state: ServerState) -> Iterator[World]:
    """The world with a run's sessions, closed at its end."""
    with Sessions(dsn, state) as sessions:
        yield World(LiveServer(sessions, state.is_local), Disk(), postmaster, time)


def checkpoint(dsn: str, identifier: str) -> None:
    """Make a checkpoint on the server of that identifier, if that is where ``dsn`` leads.

    One that cannot be made is left to the server's stop, which makes its own.
    """
    with suppress(PgstowError), closing(connect(dsn, purpose="probe")) as session:
        if facts.system_identifier(session) == identifier:
            changes.checkpoint(session)


class LiveServer:
    """A server as its sessions show and change it."""

    def __init__(self, sessions: Sessions, is_local: bool) -> None:
        self._sessions = sessions
        self._is_local = is_local
        self.lock = sessions.lock
        self.check = sessions.check
        self.close = sessions.close

    def server_paths(self) -> tuple[str, str]:
        return facts.server_places(self._watch())

    def has_database(self, name: str) -> bool:
        return facts.has_database(self._watch(), name)

    def relation(self, relation: RelationId) -> facts.RelationFacts | None:
        if not self.has_database(relation.database):
            return None
        return facts.relation_facts(self._watch(relation.database), relation)

    def indexes(self, database: str, table_oid: int) -> tuple[int, ...]:
        return facts.index_oids(self._watch(database), table_oid)

    def leftovers(self, rebuild: facts.Rebuild) -> tuple[tuple[str, str], ...] | None:
        if not self.has_database(rebuild.database):
            return ()
        return facts.leftover_indexes(self._watch(rebuild.database), rebuild)

    def lock_holders(self, database: str, relation_oid: int) -> tuple[facts.Session, ...]:
        return facts.lock_holders(self._watch(database), relation_oid, self._pid(database))

    def blockers(self, database: str) -> tuple[facts.Session, ...]:
        return facts.blockers(self._watch(database), self._pid(database))

    def autovacuum_yields_after_s(self, database: str) -> float:
        return changes.autovacuum_yields_after_s(self._change(database))

    def rebuild_progress(self, database: str) -> float | None:
        return facts.rebuild_progress(self._watch(database), self._pid(database))

    def tablespace(self, name: str) -> tuple[str, dict[str, str]] | None:
        return facts.tablespace_facts(self._watch(), name)

    def tablespace_directory(self, name: str, database: str, oid: int) -> str | None:
        return facts.tablespace_directory(self._watch(database), name, oid)

    def tablespace_contents(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for database in facts.tablespace_databases(self._watch(), name):
            session = self._watch(database)
            relations = facts.tablespace_relations(session, name)
            found += [f"{relation} of database {database}" for relation, _ in relations]
            found += self._orphans(session, name, {number for _, number in relations})
        return tuple(found)

    def has_public_create(self, name: str) -> bool:
        return facts.has_public_create(self._watch(), name)

    def setting(self, name: str) -> facts.SettingFacts | None:
        return facts.setting_facts(self._watch(), name)

    def may_reload(self) -> bool:
        return facts.may_reload(self._watch())

    def quoted_list(self, names: tuple[str, ...]) -> str:
        return facts.quoted_list(self._watch(), names)

    def backend(self, database: str | None) -> tuple[int, str]:
        return facts.backend_identity(self._change(database))

    def is_backend_there(self, identity: tuple[int, str]) -> bool:
        return facts.is_backend_there(self._watch(), identity)

    def end_backend(self, identity: tuple[int, str]) -> None:
        changes.end_session(self._watch(), identity)

    def create_tablespace(self, name: str, location: str, options: dict[str, str]) -> None:
        changes.create_tablespace(self._change(), name, location, options)

    def alter_tablespace(self, name: str, put: dict[str, str], reset: tuple[str, ...]) -> None:
        changes.alter_tablespace(self._change(), name, put, reset)

    def drop_tablespace(self, name: str) -> None:
        changes.drop_tablespace(self._change(), name)

    def grant_create(self, name: str) -> None:
        changes.grant_create(self._change(), name)

    def revoke_create(self, name: str) -> None:
        changes.revoke_create(self._change(), name)

    def set_setting(self, name: str, value: str) -> None:
        changes.set_setting(self._change(), name, value)

    def reset_setting(self, name: str) -> None:
        changes.reset_setting(self._change(), name)

    def set_temp_tablespaces(self, names: tuple[str, ...]) -> None:
        changes.set_temp_tablespaces(self._change(), names)

    def reload(self) -> None:
        changes.reload(self._change())

    def rebuild_index(
        self, index: RelationId, tablespace: str, lock_timeout_s: float, watch: Callable[[], None]
    ) -> None:
        session = self._change(index.database)
        changes.set_lock_timeout(session, lock_timeout_s)
        changes.rebuild_index(session, index, tablespace, watch)

    def copy_relation(
        self,
        relation: RelationId,
        kind: RelationKind,
        tablespace: str,
        lock_timeout_s: float,
        watch: Callable[[], None],
    ) -> None:
        session = self._change(relation.database)
        changes.set_lock_timeout(session, lock_timeout_s)
        changes.copy_relation(session, relation, kind, tablespace, watch)

    def drop_index(self, database: str, schema: str, name: str, lock_timeout_s: float) -> None:
        session = self._change(database)
        changes.set_lock_timeout(session, lock_timeout_s)
        changes.drop_index_concurrently(session, schema, name)

    def checkpoint(self) -> None:
        changes.checkpoint(self._change())

    def _watch(self, database: str | None = None) -> Connection:
        return self._sessions.to_watch(database)

    def _change(self, database: str | None = None) -> Connection:
        return self._sessions.to_change(database)

    def _pid(self, database: str) -> int:
        return facts.backend_pid(self._change(database))

    def _orphans(self, session: Connection, name: str, known: set[str | None]) -> list[str]:
        """Files that belong to no relation: PostgreSQL leaves one where it dies while copying."""
        directory = None
        if self._is_local:
            directory = facts.tablespace_directory(session, name, facts.database_oid(session))
        found = []
        for file, size in sorted((directories.file_sizes(directory or "") or {}).items()):
            match = _FILE_OF_RELATION.fullmatch(file)
            if match and match[1] not in known and size:
                found.append(f"file {directory}/{file} ({format_size(size)}) of no relation")
        return found
