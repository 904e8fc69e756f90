"""Small layouts and server states for the tests of migration."""

from collections.abc import Mapping
from typing import Any

from pgstow.model import (
    HostSpec,
    Layout,
    Placement,
    Relation,
    RelationId,
    ServerState,
    Tablespace,
    TablespaceState,
    Volume,
)
from pgstow.units import GIB, MIB, Bytes

__all__ = ["MIB", "index", "layout", "server_state", "table"]
VOLUMES = tuple(
    Volume(name, "gp3", Bytes(100 * GIB), f"/mnt/{name}")
    for name in ("data", "fast", "bulk", "wal")
)


def layout(
    *,
    tablespaces: Mapping[str, tuple[str, tuple[RelationId, ...]]] | None = None,
    options: Mapping[str, Mapping[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
    temp: tuple[str, ...] = (),
    wal: str = "data",
) -> Layout:
    """A layout over four volumes."""
    spaces = tuple(
        Tablespace(name, volume, relations, tuple((options or {}).get(name, {}).items()))
        for name, (volume, relations) in (tablespaces or {}).items()
    )
    placement = Placement("data", wal, temp, tuple((settings or {}).items()))
    return Layout(HostSpec(), VOLUMES, placement, spaces)


def table(relation: RelationId, size_bytes: int = MIB, **fields: Any) -> Relation:
    """A table of a state."""
    return Relation(relation, fields.pop("kind", "table"), Bytes(size_bytes), **fields)


def index(relation: RelationId, of: RelationId, size_bytes: int = MIB, **fields: Any) -> Relation:
    """An index of a state."""
    return Relation(relation, "index", Bytes(size_bytes), table=of, **fields)


def server_state(
    *relations: Relation,
    tablespaces: tuple[TablespaceState, ...] = (),
    settings: Mapping[str, str] | None = None,
    standbys: int = 0,
) -> ServerState:
    """A server on volume data."""
    return ServerState(
        version_num=180004,
        version="18.4",
        system_identifier="7",
        data_directory="/mnt/data/pg",
        wal_directory="/mnt/data/pg/pg_wal",
        is_local=True,
        is_in_recovery=False,
        databases=("shop",),
        tablespaces=tablespaces,
        relations=relations,
        settings=tuple(
            {"wal_level": "replica", "temp_tablespaces": "", **(settings or {})}.items()
        ),
        standbys=standbys,
    )
