"""pgstow: EXPLAIN ANALYZE for the storage under PostgreSQL."""

__version__ = "0.1.0"
