-- What the server as a whole says of itself: start time, next transaction ID, clients.
SELECT pg_postmaster_start_time(),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND application_name <> 'pgstow'),
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND application_name <> 'pgstow'
           AND state IN ('active', 'idle in transaction', 'fastpath function call',
                         'idle in transaction (aborted)'))
