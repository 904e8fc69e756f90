-- The server's settings that somebody set, and those that storage depends on in any case. What may
-- hold a secret or a path of the machine is left out, as are extensions' own.
SELECT name, current_setting(name)
  FROM pg_settings
 WHERE (source NOT IN ('default', 'override', 'client', 'session')
        OR name IN ('autovacuum', 'bgwriter_lru_maxpages', 'block_size',
                    'checkpoint_completion_target', 'checkpoint_timeout', 'commit_delay',
                    'commit_siblings', 'data_checksums', 'effective_io_concurrency',
                    'effective_cache_size', 'fsync', 'full_page_writes', 'huge_pages', 'io_method',
                    'io_workers', 'maintenance_work_mem', 'max_connections', 'max_wal_size',
                    'min_wal_size', 'random_page_cost', 'shared_buffers', 'synchronous_commit',
                    'track_io_timing', 'track_wal_io_timing', 'wal_buffers', 'wal_compression',
                    'wal_init_zero', 'wal_level', 'wal_recycle', 'wal_segment_size',
                    'wal_sync_method', 'wal_writer_delay', 'wal_writer_flush_after', 'work_mem'))
   AND name NOT LIKE '%.%'
   AND name !~ '(_file|_directory|_directories|_command|conninfo|password|_library|_libraries)'
   AND name NOT IN ('listen_addresses', 'port', 'cluster_name', 'application_name',
                    'krb_server_keyfile', 'primary_slot_name', 'synchronous_standby_names')
 ORDER BY name
