-- How many transfers each kind of index finds that pg_amcheck does not check (run without
-- sequential scans): BRIN, GIN, hash.
SELECT (SELECT count(*) FROM ledger_journal WHERE made > '2000-01-01'),
       (SELECT count(*) FROM ledger_journal WHERE words @> '{transfer}'),
       (SELECT count(*) FROM ledger_journal AS one CROSS JOIN LATERAL (
            SELECT FROM ledger_journal AS other
             WHERE other.checksum = one.checksum AND other.id = one.id LIMIT 1
        ) AS found)
