"""Fill a server's share of the page cache: its own processes read what a database holds."""

import psycopg

from pgstow.postgres.connect import server_errors
from pgstow.postgres.queries import query

_SEGMENT_BYTES = 1 << 30  # of a relation's files, as PostgreSQL is built
_CHUNK_BYTES = 4 << 20


def read_through(connection: psycopg.Connection) -> int:
    """Read every relation of the database once, the largest first; how many bytes that were.

    What a control group of limited memory keeps of it is what the server read last, as after a long
    run of any load that asks for all of it alike. Reading as another process would fill another's
    share.
    """
    with server_errors("reading the data into memory"):
        files = connection.execute(query("relation_files")).fetchall()
        for path, size in files:
            for offset in range(0, size, _CHUNK_BYTES):
                segment, place = divmod(offset, _SEGMENT_BYTES)
                name = f"{path}.{segment}" if segment else path
                connection.execute(
                    "SELECT length(pg_read_binary_file(%s, %s, %s, true))",
                    (name, place, _CHUNK_BYTES),
                )
    return sum(size for _, size in files)
