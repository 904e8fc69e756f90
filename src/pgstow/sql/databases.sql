-- Databases that hold users' relations, and whether this role may connect.
SELECT datname::text,
       has_database_privilege(datname, 'CONNECT')
  FROM pg_database
 WHERE datallowconn AND NOT datistemplate
 ORDER BY datname
