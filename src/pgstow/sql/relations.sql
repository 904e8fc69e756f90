-- Users' relations of this database, and what ties them: one row each, locking nothing.
-- Partitioned tables and indexes (p, I) have no file; they are here as parents of partitions.
SELECT c.oid::bigint,
       n.nspname::text,
       c.relname::text,
       c.relkind::text,
       c.relpersistence::text,
       -- 0 stands for the database's own tablespace, which need not be pg_default
       coalesce(own.spcname, whole.spcname)::text,
       x.indrelid::bigint,
       coalesce(x.indisexclusion, false),
       nullif(c.reltoastrelid, 0)::bigint,
       parent.inhparent::bigint
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_database d ON d.datname = current_database()
  JOIN pg_tablespace whole ON whole.oid = d.dattablespace
  LEFT JOIN pg_tablespace own ON own.oid = c.reltablespace
  LEFT JOIN pg_index x ON x.indexrelid = c.oid
  LEFT JOIN pg_inherits parent ON parent.inhrelid = c.oid AND c.relispartition
 WHERE c.relkind IN ('r', 'm', 't', 'i', 'p', 'I')
   AND c.relpersistence <> 't'
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
