-- Blocks that backends wrote or added themselves, where pg_stat_io counts them (16 and 17).
SELECT (coalesce(sum(writes), 0) + coalesce(sum(extends), 0))::bigint, max(stats_reset)
  FROM pg_stat_io
 WHERE object = 'relation' AND backend_type NOT IN ('checkpointer', 'background writer')
