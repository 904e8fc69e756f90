"""PostgreSQL: the only package that imports psycopg."""

from pgstow.postgres.connect import Connection, connect, redacted_dsn
from pgstow.postgres.sampling import Sampler
from pgstow.postgres.state import Inspection, inspect, read_state

__all__ = [
    "Connection",
    "Inspection",
    "Sampler",
    "connect",
    "inspect",
    "read_state",
    "redacted_dsn",
]
