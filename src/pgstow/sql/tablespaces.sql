-- Tablespaces that a user made, with their directory and options.
SELECT spcname::text,
       pg_tablespace_location(oid),
       coalesce(spcoptions, '{}')
  FROM pg_tablespace
 WHERE spcname NOT IN ('pg_default', 'pg_global')
 ORDER BY spcname
