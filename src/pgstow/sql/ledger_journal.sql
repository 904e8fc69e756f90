-- Every transfer, read from the table itself and not through an index.
SELECT id, source, target, amount, checksum, md5(note) FROM ledger_journal
