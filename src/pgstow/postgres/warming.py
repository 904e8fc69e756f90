"""Fill a server's share of the page cache: its own processes read what a database holds."""

import psycopg

from pgstow.postgres.connect import server_errors
from pgstow.postgres.queries import query

_SEGMENT_BYTES = 1 << 30  # of a relation's files, as PostgreSQL is built
_CHUNK_BYTES = 4 << 20


def read_through(connection: psycopg.Connection, most_bytes: int) -> int:
    """Read the database's relations, the largest first, but only so many bytes of the last; how
    many that were.

    What a control group of limited memory keeps is what its server read last, so what is read
    before that is spared. Reading as another process would fill another's share.
    """
    with server_errors("reading the data into memory"):
        files = connection.execute(query("relation_files")).fetchall()
        total = sum(size for _, size in files)
        skipped = spared = max(total - most_bytes, 0)
        for path, size in files:
            first = min(skipped, size) // _CHUNK_BYTES * _CHUNK_BYTES
            skipped = max(skipped - size, 0)
            for offset in range(first, size, _CHUNK_BYTES):
                segment, start = divmod(offset, _SEGMENT_BYTES)
                name = f"{path}.{segment}" if segment else path
                connection.execute(
                    "SELECT length(pg_read_binary_file(%s, %s, %s, true))",
                    (name, start, _CHUNK_BYTES),
                )
    return int(total - spared)
