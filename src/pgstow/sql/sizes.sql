-- Bytes of each relation's forks. pg_relation_size waits for a relation that someone holds in
-- ACCESS EXCLUSIVE mode, or waits for in it; of those, the size at the last vacuum is taken.
WITH busy AS MATERIALIZED (
    SELECT l.relation
      FROM pg_locks l
      JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
     WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
)
SELECT c.oid::bigint,
       CASE WHEN c.oid IN (SELECT relation FROM busy)
            THEN c.relpages::bigint * current_setting('block_size')::int
            ELSE coalesce(pg_relation_size(c.oid, 'main') + pg_relation_size(c.oid, 'fsm')
                          + pg_relation_size(c.oid, 'vm'), 0)
       END
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm', 't', 'i')
   AND c.relpersistence <> 't'
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
