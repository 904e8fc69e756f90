-- The server itself: one row.
SELECT current_setting('server_version_num')::int,
       split_part(current_setting('server_version'), ' ', 1),
       (SELECT system_identifier::text FROM pg_control_system()),
       current_setting('data_directory'),
       pg_is_in_recovery(),
       current_setting('port')::int,
       pg_postmaster_start_time(),
       current_setting('unix_socket_directories'),
       (SELECT count(*) FROM pg_stat_replication WHERE state IN ('streaming', 'catchup'))
