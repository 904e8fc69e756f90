-- Accounts that are not what the journal makes of them, and those that are not there at all.
WITH moves AS (
    SELECT source AS id, -amount AS amount FROM ledger_journal
     UNION ALL
    SELECT target, amount FROM ledger_journal
), expected AS (
    SELECT id, 1000000 + coalesce(sum(amount), 0) AS balance, count(amount) AS transfers
      FROM generate_series(0, 19999) AS id LEFT JOIN moves USING (id) GROUP BY id
)
SELECT id
  FROM expected FULL JOIN ledger_account AS account USING (id)
 WHERE (expected.balance, expected.transfers, repeat(md5(id::text), 4))
       IS DISTINCT FROM (account.balance, account.transfers, account.owner)
 ORDER BY id
