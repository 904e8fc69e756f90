-- Checkpoints and the blocks they and the background writer wrote, up to 16.
SELECT checkpoints_timed, checkpoints_req, buffers_checkpoint, buffers_clean, stats_reset
  FROM pg_stat_bgwriter
