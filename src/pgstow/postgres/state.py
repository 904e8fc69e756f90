"""The present state of a server without its load: relations, tablespaces, settings."""

from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg

from pgstow.model.errors import PgstowError, UserError
from pgstow.model.profile import (
    PartitionedRelation,
    Relation,
    RelationKind,
    ServerState,
    TablespaceState,
)
from pgstow.model.provenance import Warning
from pgstow.model.storage import RelationId
from pgstow.postgres.connect import Connection, connect, require_monitor, server_errors
from pgstow.postgres.counters import RelationKey
from pgstow.postgres.locality import is_local, wal_directory
from pgstow.postgres.queries import query
from pgstow.units import Bytes


@dataclass(frozen=True, slots=True)
class Inspection:
    """A server's state with what only its reader needs: each relation's key, and warnings."""

    state: ServerState
    keys: dict[RelationKey, Relation]
    warnings: tuple[Warning, ...] = ()
    indexed: dict[RelationKey, RelationKey] = field(default_factory=dict)  # index to its table
    # each database's own tablespace: of relations and temporary files that name none
    default_tablespaces: dict[str, str] = field(default_factory=dict)


def read_state(dsn: str = "") -> ServerState:
    """Read the server's state as a role with pg_monitor; takes no lock that anyone waits for."""
    return inspect(dsn).state


def inspect(dsn: str = "") -> Inspection:
    """Read the server's state, with each relation's key and what could not be read."""
    with connect(dsn, purpose="observe") as connection:
        require_monitor(connection)
        with server_errors("reading the server's state"):
            return _inspect(dsn, connection)


def is_local_server(dsn: str) -> bool:
    """Whether a server's data are on this machine; False where the role may not know."""
    with connect(dsn, purpose="observe") as connection:
        try:
            _, _, _, directory, _, port, started_at, sockets, _ = _row(connection, "server")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return is_local(connection, directory, port, started_at, _directories(sockets))


def _directories(sockets: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in sockets.split(","))


def _inspect(dsn: str, connection: Connection) -> Inspection:
    version_num, version, identifier, directory, recovering, port, started_at, sockets, standbys = (
        _row(connection, "server")
    )
    rows = _rows(connection, "databases")
    keys: dict[RelationKey, Relation] = {}
    indexed: dict[RelationKey, RelationKey] = {}
    partitioned: list[PartitionedRelation] = []
    warnings = []
    read = []
    for name, may_connect in rows:
        try:
            if not may_connect:
                raise UserError("the role has no CONNECT privilege on it")
            with connect(dsn, name, purpose="observe") as session:
                found, indexes, parents = _relations(name, session)
            keys.update(found)
            partitioned += parents
            indexed.update(indexes)
            read.append(name)
        except (PgstowError, psycopg.Error, UnicodeDecodeError) as error:
            warnings.append(_skipped(name, error))
    if rows and not read:
        raise UserError(
            f"none of the server's {len(rows)} databases can be read: {warnings[0].message}",
            "GRANT CONNECT ON DATABASE … to the role",
        )
    local = is_local(connection, directory, port, started_at, _directories(sockets))
    state = ServerState(
        version_num=version_num,
        version=version,
        system_identifier=identifier,
        data_directory=directory,
        wal_directory=wal_directory(directory) if local else None,
        is_local=local,
        is_in_recovery=recovering,
        databases=tuple(read),
        tablespaces=tuple(
            TablespaceState(name, location, tuple(_option(option) for option in options))
            for name, location, options in _rows(connection, "tablespaces")
        ),
        relations=tuple(keys.values()),
        settings=tuple((name, value) for name, value in _rows(connection, "settings")),
        standbys=standbys,
        partitioned=tuple(partitioned),
    )
    defaults = dict(_rows(connection, "default_tablespaces"))
    return Inspection(state, keys, tuple(warnings), indexed, defaults)


def _skipped(database: str, error: Exception) -> Warning:
    reason = error.message if isinstance(error, PgstowError) else str(error)
    return Warning(
        "database-skipped",
        f"database {' '.join(database.split())!r} is left out: {' '.join(reason.split())}",
        "GRANT CONNECT ON that DATABASE to the role",
    )


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


_KINDS: dict[str, RelationKind] = {
    "r": "table",
    "m": "materialized view",
    "t": "toast",
    "i": "index",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of relations.sql."""

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    tablespace: str
    indexed: int | None
    is_exclusion: bool
    toast: int | None
    parent: int | None


def _relations(
    database: str, connection: Connection
) -> tuple[
    dict[RelationKey, Relation], dict[RelationKey, RelationKey], tuple[PartitionedRelation, ...]
]:
    """The relations of one database, the table of each index, and the partitioned relations."""
    rows = {row[0]: _Row(*row) for row in _rows(connection, "relations")}
    sizes = _sizes(connection)
    toast_owner = {row.toast: row for row in rows.values() if row.toast is not None}
    found = {}
    indexes = {}
    for row in rows.values():
        # Dropped between the two queries; or a catalog's TOAST table, whose owner is not listed.
        if row.oid not in sizes or row.kind not in _KINDS:
            continue
        indexed = rows.get(row.indexed) if row.indexed is not None else None
        toasted = indexed if indexed is not None and indexed.kind == "t" else row
        owner = toast_owner.get(toasted.oid) if toasted.kind == "t" else indexed
        if owner is None and row.kind not in ("r", "m"):
            continue
        lineage = _lineage(database, row, rows)
        kind: RelationKind = _KINDS[row.kind]
        if row.indexed is not None:
            indexes[(database, row.oid)] = (database, row.indexed)
        if kind == "index" and toasted is not row:
            kind = "toast index"
        found[(database, row.oid)] = Relation(
            id=RelationId(database, row.schema, row.name),
            kind=kind,
            size_bytes=Bytes(sizes[row.oid]),
            tablespace=row.tablespace,
            table=_id(database, owner),
            partition_of=lineage[0] if lineage else None,
            ancestors=lineage[1:],
            persistence=_persistence(row.persistence),
            is_exclusion=row.is_exclusion,
        )
    return found, indexes, _partitioned(database, rows)


def _partitioned(database: str, rows: dict[int, _Row]) -> tuple[PartitionedRelation, ...]:
    """The partitioned tables and indexes of one database."""
    return tuple(
        PartitionedRelation(
            RelationId(database, row.schema, row.name),
            "table" if row.kind == "p" else "index",
            row.tablespace,
            _lineage(database, row, rows),
        )
        for row in rows.values()
        if row.kind in ("p", "I")
    )


def _lineage(database: str, row: _Row, rows: dict[int, _Row]) -> tuple[RelationId, ...]:
    """The partitioned relations that one is a part of, the nearest first."""
    found: list[RelationId] = []
    parent = rows.get(row.parent) if row.parent is not None else None
    while parent is not None:
        found.append(RelationId(database, parent.schema, parent.name))
        parent = rows.get(parent.parent) if parent.parent is not None else None
    return tuple(found)


def _id(database: str, row: _Row | None) -> RelationId | None:
    return None if row is None else RelationId(database, row.schema, row.name)


def _persistence(letter: str) -> Literal["permanent", "unlogged"]:
    return "unlogged" if letter == "u" else "permanent"


def _sizes(connection: Connection) -> dict[int, int]:
    """Sizes by oid; from the catalog alone where looking at the files would wait too long."""
    try:
        return dict(_rows(connection, "sizes"))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
        return dict(_rows(connection, "sizes_estimated"))


def _rows(connection: Connection, name: str) -> list[tuple[Any, ...]]:
    return connection.execute(query(name)).fetchall()


def _row(connection: Connection, name: str) -> tuple[Any, ...]:
    (row,) = _rows(connection, name)
    return row
