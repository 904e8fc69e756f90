-- When the server started, what all databases take, whether I/O and WAL I/O are timed, and whether
-- a flush is part of the write.
SELECT pg_postmaster_start_time(),
       (SELECT sum(pg_database_size(oid))::bigint FROM pg_database
         WHERE has_database_privilege(oid, 'CONNECT')),
       current_setting('track_io_timing')::bool, current_setting('track_wal_io_timing')::bool,
       current_setting('wal_sync_method') IN ('open_sync', 'open_datasync')
