-- A batch of ten visits: appended to the table and to the right edge of its index, and committed.
\set article random(1, :articles)
INSERT INTO analytics_events (ts, article_id, kind, payload)
SELECT clock_timestamp(), :article, number, repeat('visitor ', 16)
FROM generate_series(1, 10) AS number;
