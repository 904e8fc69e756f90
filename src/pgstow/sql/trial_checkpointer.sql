-- Checkpoints so far, from 17. Those that were timed are counted also where nothing was to be done.
SELECT num_timed, num_requested, buffers_written, write_time, sync_time, stats_reset
  FROM pg_stat_checkpointer
