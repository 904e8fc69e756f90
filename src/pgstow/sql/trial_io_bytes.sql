-- pg_stat_io where one operation may be of many blocks (from 18); rows in which nothing happened are
-- left out.
SELECT backend_type, object, context,
       coalesce(reads, 0), coalesce(read_bytes, 0)::float8, read_time,
       coalesce(writes, 0), coalesce(write_bytes, 0)::float8, write_time,
       coalesce(extends, 0), coalesce(hits, 0), coalesce(evictions, 0),
       coalesce(fsyncs, 0), fsync_time, stats_reset
  FROM pg_stat_io
 WHERE coalesce(reads, 0) + coalesce(writes, 0) + coalesce(extends, 0) + coalesce(hits, 0)
       + coalesce(fsyncs, 0) > 0
