-- Rows appended to a table without an index in one statement, and committed.
\set aid random(1, 100000 * :scale)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
SELECT 1, 1, :aid, number, now() FROM generate_series(1, :rows) AS number;
