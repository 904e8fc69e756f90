-- Checkpoints so far, up to 16.
SELECT checkpoints_timed, checkpoints_req, buffers_checkpoint, checkpoint_write_time,
       checkpoint_sync_time, stats_reset
  FROM pg_stat_bgwriter
