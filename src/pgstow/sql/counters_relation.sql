-- Cumulative counters of users' relations that have any: blocks, scans, rows.
-- The functions are those under pg_statio_all_tables, pg_stat_all_tables and their index views;
-- called directly, an index and a TOAST table are rows of their own, without aggregation.
SELECT c.oid::bigint,
       pg_stat_get_blocks_fetched(c.oid),
       pg_stat_get_blocks_hit(c.oid),
       CASE WHEN c.relkind = 'i' THEN 0 ELSE pg_stat_get_numscans(c.oid) END,
       CASE WHEN c.relkind = 'i' THEN 0 ELSE pg_stat_get_tuples_returned(c.oid) END,
       pg_stat_get_tuples_inserted(c.oid),
       pg_stat_get_tuples_updated(c.oid),
       pg_stat_get_tuples_hot_updated(c.oid),
       pg_stat_get_tuples_deleted(c.oid),
       c.relpages::bigint,
       greatest(c.reltuples, 0)::bigint
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm', 't', 'i')
   AND c.relpersistence <> 't'
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND c.oid >= 16384 -- the TOAST tables of catalogs are below
   AND pg_stat_get_blocks_fetched(c.oid) + pg_stat_get_tuples_inserted(c.oid)
       + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid)
       + pg_stat_get_numscans(c.oid) > 0
