-- One row appended to a table without an index, and committed: what is waited for is the WAL.
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, now());
