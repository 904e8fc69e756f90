-- What the server as a whole says of itself: start time, next transaction ID, clients, and how often
-- pg_subtrans was asked: once for each subtransaction that got a transaction ID, and by snapshots of
-- over 64 such. The statistics are called Subtrans to 16, subtransaction from 17.
SELECT pg_postmaster_start_time(),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND application_name <> 'pgstow'),
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND application_name <> 'pgstow'
           AND state IN ('active', 'idle in transaction', 'fastpath function call',
                         'idle in transaction (aborted)')),
       (SELECT sum(blks_hit + blks_read)::bigint FROM pg_stat_slru
         WHERE lower(name) IN ('subtrans', 'subtransaction'))
