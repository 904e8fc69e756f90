-- Blocks that backends wrote or added themselves, up to 15.
SELECT buffers_backend, stats_reset FROM pg_stat_bgwriter
