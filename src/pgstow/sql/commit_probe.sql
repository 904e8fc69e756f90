-- One transaction that writes a little WAL, and so flushes it when it commits.
SELECT pg_logical_emit_message(true, 'pgstow', '')
