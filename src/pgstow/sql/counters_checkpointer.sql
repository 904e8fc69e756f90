-- Checkpoints and the blocks they and the background writer wrote, from 17.
SELECT c.num_timed, c.num_requested, c.buffers_written, b.buffers_clean,
       greatest(c.stats_reset, b.stats_reset)
  FROM pg_stat_checkpointer c
 CROSS JOIN pg_stat_bgwriter b
