-- Cumulative counters of the databases that clients use, and when each was reset.
SELECT datname::text,
       xact_commit + xact_rollback,
       active_time + idle_in_transaction_time,
       temp_bytes,
       stats_reset
  FROM pg_stat_database
 WHERE datname IS NOT NULL
