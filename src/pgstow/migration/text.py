"""SQL and lock of a step as text for the user. What is executed is made elsewhere."""

import re

from pgstow.model import Relation, RelationId
from pgstow.model.profile import RelationKind
from pgstow.units import format_duration


def name(identifier: str) -> str:
    """An identifier as SQL writes it.

    >>> name("orders"), name("odd name")
    ('orders', '"odd name"')
    """
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", identifier):
        return identifier
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def qualified(relation: RelationId) -> str:
    """A relation's name within its database."""
    return f"{name(relation.schema)}.{name(relation.name)}"


def options(pairs: tuple[tuple[str, str], ...]) -> str:
    """Tablespace options as SQL writes them."""
    return ", ".join(f"{key} = {value}" for key, value in pairs)


def reindex(relation: RelationId, tablespace: str) -> str:
    """Rebuild an index elsewhere while its table is read and written."""
    return f"REINDEX (TABLESPACE {name(tablespace)}) INDEX CONCURRENTLY {qualified(relation)}"


def set_tablespace(relation: RelationId, kind: RelationKind, tablespace: str) -> str:
    """Copy a relation's file elsewhere; of a partitioned one, where new partitions are made."""
    what = {"index": "INDEX", "materialized view": "MATERIALIZED VIEW"}.get(kind, "TABLE")
    return f"ALTER {what} {qualified(relation)} SET TABLESPACE {name(tablespace)}"


def create_tablespace(tablespace: str, location: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Make a tablespace."""
    suffix = f" WITH ({options(pairs)})" if pairs else ""
    return f"CREATE TABLESPACE {name(tablespace)} LOCATION {literal(location)}{suffix}"


def reindex_lock(relation: Relation) -> str:
    """REINDEX CONCURRENTLY stops neither reads nor writes; it waits for older transactions."""
    return (
        f"SHARE UPDATE EXCLUSIVE on {relation.table or relation.id}: reads and writes go on; "
        "waits for transactions older than itself"
    )


def copy_lock(relation: Relation, seconds: float) -> str:
    """SET TABLESPACE holds the strongest lock for the whole copy."""
    who = "its table's queries" if relation.kind == "index" else "reads and writes"
    return f"ACCESS EXCLUSIVE on {relation.id} for about {format_duration(seconds)}: {who} wait"
