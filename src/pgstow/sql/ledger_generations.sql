-- Which fillings of the summary are there (one, or none yet), and whether each is whole.
SELECT generation, count(*), bool_and(transfers > 0) FROM ledger_summary GROUP BY generation
