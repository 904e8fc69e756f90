-- Every page of the table: no index has bid, so none can answer instead.
SELECT sum(bid) FROM pgbench_accounts;
