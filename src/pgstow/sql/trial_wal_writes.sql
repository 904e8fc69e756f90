-- How often the WAL was written so far and for how long, where pg_stat_wal says it (14 to 17).
SELECT wal_write, wal_write_time, current_setting('track_wal_io_timing')::bool
  FROM pg_stat_wal
