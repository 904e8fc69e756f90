"""What apply uses outside itself: a server, its machine's disk, its postmaster, a clock.

Each is a protocol, so that tests can make any effect fail, get lost or be the last one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pgstow.host.disk import Disk
from pgstow.host.postmaster import Postmaster
from pgstow.model import RelationId
from pgstow.model.profile import RelationKind
from pgstow.postgres.facts import Rebuild, RelationFacts, Session, SettingFacts


class Clock(Protocol):
    """Time; the module ``time`` is one."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since whenever."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class Postmasters(Protocol):
    """Stops and starts the machine's servers; the module ``pgstow.host.postmaster`` is one."""

    def find_postmaster(self, data_directory: str, config_file: str) -> Postmaster:
        """How the running server of a data directory was started."""

    def running_pid(self, data_directory: str) -> int | None:
        """The server's process."""

    def is_stopping(self, data_directory: str) -> bool:
        """Whether a running server is shutting down."""

    def system_identifier(self, data_directory: str) -> str | None:
        """The system identifier of the cluster in it; the server may be down."""

    def stop(self, postmaster: Postmaster) -> None:
        """Stop it and wait until it is gone."""

    def start(self, postmaster: Postmaster) -> None:
        """Start it and wait until it accepts connections."""


class Looks(Protocol):
    """What is read from a server; nothing here changes anything."""

    def check(self) -> None:
        """Make sure, on the server, that the lock is still held."""

    def server_paths(self) -> tuple[str, str]:
        """The data directory and the configuration file."""

    def has_database(self, name: str) -> bool:
        """Whether there is a database of that name."""

    def relation(self, relation: RelationId) -> RelationFacts | None:
        """A relation as it is; None where it does not exist."""

    def indexes(self, database: str, table_oid: int) -> tuple[int, ...]:
        """The indexes of a table."""

    def leftovers(self, rebuild: Rebuild) -> tuple[tuple[str, str], ...] | None:
        """Invalid indexes, by schema and name, that a rebuild left behind.

        None while someone builds an index on the table: then it cannot be known.
        """

    def lock_holders(self, database: str, relation_oid: int) -> tuple[Session, ...]:
        """Others that hold a lock on a relation."""

    def blockers(self, database: str) -> tuple[Session, ...]:
        """The sessions that the database's changing session waits for."""

    def autovacuum_yields_after_s(self, database: str) -> float:
        """How long the changing session must wait for a lock for autovacuum to make way."""

    def rebuild_progress(self, database: str) -> float | None:
        """The share of the changing session's index build that is done."""

    def tablespace(self, name: str) -> tuple[str, dict[str, str]] | None:
        """A tablespace's directory and options."""

    def tablespace_directory(self, name: str, database: str, oid: int) -> str | None:
        """Where a database's files in a tablespace are."""

    def tablespace_contents(self, name: str) -> tuple[str, ...]:
        """What keeps a tablespace from being dropped: relations, and files of none."""

    def has_public_create(self, name: str) -> bool:
        """Whether every role may create in a tablespace."""

    def setting(self, name: str) -> SettingFacts | None:
        """A setting, and what ALTER SYSTEM wrote for it."""

    def may_reload(self) -> bool:
        """Whether the role may reload the configuration."""

    def quoted_list(self, names: tuple[str, ...]) -> str:
        """Names as ALTER SYSTEM writes them."""

    def backend(self, database: str | None) -> tuple[int, str]:
        """The changing session's process, and when it began."""

    def is_backend_there(self, identity: tuple[int, str]) -> bool:
        """Whether that process still exists."""


class Server(Looks, Protocol):
    """A server with the sessions of one run."""

    def lock(self) -> None:
        """Take the lock that keeps a second apply out; refuse a standby."""

    def close(self) -> None:
        """End the sessions, which releases the lock."""

    def end_backend(self, identity: tuple[int, str]) -> None:
        """Terminate that session of ours, whose client is gone."""

    def create_tablespace(self, name: str, location: str, options: dict[str, str]) -> None:
        """CREATE TABLESPACE."""

    def alter_tablespace(self, name: str, put: dict[str, str], reset: tuple[str, ...]) -> None:
        """ALTER TABLESPACE … SET and RESET, in one transaction."""

    def drop_tablespace(self, name: str) -> None:
        """DROP TABLESPACE."""

    def grant_create(self, name: str) -> None:
        """GRANT CREATE ON TABLESPACE … TO PUBLIC."""

    def revoke_create(self, name: str) -> None:
        """REVOKE it."""

    def set_setting(self, name: str, value: str) -> None:
        """ALTER SYSTEM SET, then reload."""

    def reset_setting(self, name: str) -> None:
        """ALTER SYSTEM RESET, then reload."""

    def set_temp_tablespaces(self, names: tuple[str, ...]) -> None:
        """ALTER SYSTEM SET temp_tablespaces, then reload."""

    def reload(self) -> None:
        """Read the configuration again."""

    def rebuild_index(
        self, index: RelationId, tablespace: str, lock_timeout_s: float, watch: Callable[[], None]
    ) -> None:
        """REINDEX (TABLESPACE …) INDEX CONCURRENTLY."""

    def copy_relation(
        self,
        relation: RelationId,
        kind: RelationKind,
        tablespace: str,
        lock_timeout_s: float,
        watch: Callable[[], None],
    ) -> None:
        """ALTER … SET TABLESPACE."""

    def drop_index(self, database: str, schema: str, name: str, lock_timeout_s: float) -> None:
        """DROP INDEX CONCURRENTLY."""

    def checkpoint(self) -> None:
        """CHECKPOINT."""


@dataclass(frozen=True, slots=True)
class World:
    """All of these."""

    server: Server
    disk: Disk
    postmasters: Postmasters
    clock: Clock
