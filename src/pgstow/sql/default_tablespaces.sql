-- Each database's own tablespace: where relations and temporary files go that name none.
SELECT d.datname::text, t.spcname::text
  FROM pg_database d
  JOIN pg_tablespace t ON t.oid = d.dattablespace
 WHERE d.datallowconn AND NOT d.datistemplate
