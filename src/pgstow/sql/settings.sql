-- Settings that matter to storage, as SHOW prints them; the server names those it has.
SELECT name::text,
       current_setting(name, true)
  FROM pg_settings
 WHERE name IN ('block_size', 'wal_block_size', 'wal_segment_size', 'data_checksums', 'fsync',
                'shared_buffers', 'effective_cache_size', 'work_mem', 'hash_mem_multiplier',
                'maintenance_work_mem', 'temp_buffers', 'temp_tablespaces', 'temp_file_limit',
                'default_tablespace', 'random_page_cost', 'seq_page_cost',
                'effective_io_concurrency', 'maintenance_io_concurrency', 'io_method',
                'io_workers', 'io_combine_limit', 'io_max_combine_limit', 'io_max_concurrency',
                'debug_io_direct', 'huge_pages', 'wal_level', 'wal_buffers', 'wal_compression',
                'wal_sync_method', 'wal_init_zero', 'wal_recycle', 'wal_writer_delay',
                'wal_writer_flush_after', 'max_wal_size', 'min_wal_size', 'wal_keep_size',
                'full_page_writes', 'synchronous_commit', 'synchronous_standby_names',
                'commit_delay', 'commit_siblings', 'checkpoint_timeout',
                'checkpoint_completion_target', 'checkpoint_flush_after', 'bgwriter_delay',
                'bgwriter_lru_maxpages', 'bgwriter_lru_multiplier', 'bgwriter_flush_after',
                'backend_flush_after', 'archive_mode',
                'max_connections', 'max_wal_senders', 'autovacuum', 'track_counts',
                'track_io_timing', 'track_wal_io_timing', 'port', 'data_directory',
                'unix_socket_directories')
 ORDER BY name
