-- What the WAL cost so far, where writes and flushes are in pg_stat_io (from 18). Context "init" is
-- the zeroing of new segments, which pg_stat_wal did not count either.
SELECT w.wal_bytes::float8, w.wal_records, w.wal_fpi,
       io.writes, io.fsyncs, io.write_time, io.fsync_time,
       greatest(w.stats_reset, io.stats_reset)
  FROM pg_stat_wal w
 CROSS JOIN (SELECT coalesce(sum(writes), 0)::bigint AS writes,
                    coalesce(sum(fsyncs), 0)::bigint AS fsyncs,
                    coalesce(sum(write_time), 0)::float8 AS write_time,
                    coalesce(sum(fsync_time), 0)::float8 AS fsync_time,
                    max(stats_reset) AS stats_reset
               FROM pg_stat_io
              WHERE object = 'wal' AND context = 'normal') io
