-- The main files of the database's tables and indexes with their sizes, the largest first.
SELECT pg_relation_filepath(oid), pg_relation_size(oid)
  FROM pg_class
 WHERE pg_relation_filepath(oid) IS NOT NULL AND pg_relation_size(oid) > 0
 ORDER BY 2 DESC, 1
