-- WAL counters where pg_stat_wal has them all (14 to 17).
SELECT wal_bytes::float8, wal_fpi, wal_write, wal_sync, wal_write_time, wal_sync_time, stats_reset
  FROM pg_stat_wal
