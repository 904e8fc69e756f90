-- How often the WAL was written so far and for how long (from 18); "init" zeroes new segments.
SELECT coalesce(sum(writes), 0)::bigint, coalesce(sum(write_time), 0)::float8,
       current_setting('track_wal_io_timing')::bool
  FROM pg_stat_io
 WHERE object = 'wal' AND context = 'normal'
