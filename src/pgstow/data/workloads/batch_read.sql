-- Consecutive rows by way of the index, anywhere in the table; their sum, so that little is sent.
\set first random(1, 100000 * :scale - :rows + 1)
\set last :first + :rows - 1
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :first AND :last;
