-- What the WAL cost so far, where pg_stat_wal has it all (14 to 17).
SELECT wal_bytes::float8, wal_records, wal_fpi, wal_write, wal_sync, wal_write_time, wal_sync_time,
       stats_reset
  FROM pg_stat_wal
