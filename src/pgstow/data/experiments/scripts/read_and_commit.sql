-- Four accounts by their keys, then a row appended to a table without an index, and a commit.
\set aid1 random(1, 100000 * :scale)
\set aid2 random(1, 100000 * :scale)
\set aid3 random(1, 100000 * :scale)
\set aid4 random(1, 100000 * :scale)
BEGIN;
SELECT aid, abalance FROM pgbench_accounts WHERE aid IN (:aid1, :aid2, :aid3, :aid4);
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid1, 1, now());
END;
