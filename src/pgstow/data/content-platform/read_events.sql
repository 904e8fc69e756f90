-- An analyst looks at the visits of some ten milliseconds of the recorded past.
\set moment random(1, :events)
SELECT kind, count(*) FROM analytics_events
WHERE ts >= timestamptz '2026-01-01 00:00:00+00' + :moment * interval '1 millisecond'
AND ts < timestamptz '2026-01-01 00:00:00+00' + (:moment + 10) * interval '1 millisecond'
GROUP BY kind;
