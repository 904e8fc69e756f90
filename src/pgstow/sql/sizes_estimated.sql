-- Bytes of each relation as of its last vacuum or analyze, where looking would wait for locks.
SELECT oid::bigint,
       relpages::bigint * current_setting('block_size')::int
  FROM pg_class
 WHERE relkind IN ('r', 'm', 't', 'i') AND relpersistence <> 't'
