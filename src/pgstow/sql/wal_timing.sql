-- Whether WAL writes and flushes are timed, and how the WAL is flushed.
SELECT current_setting('track_wal_io_timing')::bool, current_setting('wal_sync_method')
