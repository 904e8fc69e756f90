-- Sessions that execute something now, by what they wait for. The function below pg_stat_activity,
-- which is spared its joins.
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), count(*)::int
  FROM pg_stat_get_activity(NULL)
 WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker')
   AND pid <> pg_backend_pid()
 GROUP BY 1
