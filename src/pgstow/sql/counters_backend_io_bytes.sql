-- Blocks that backends wrote or added themselves, where one operation may be of many (from 18).
SELECT (coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)), 0)
        / current_setting('block_size')::int)::bigint,
       max(stats_reset)
  FROM pg_stat_io
 WHERE object = 'relation' AND backend_type NOT IN ('checkpointer', 'background writer')
