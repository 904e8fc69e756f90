"""The SQL files: one query a fact, each of which runs in psql as it is."""

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> bytes:
    """The text of ``sql/<name>.sql``; bytes, which psycopg takes as a query without parsing."""
    return (files("pgstow") / "sql" / f"{name}.sql").read_bytes()
