-- A ledger whose every transaction can be told afterwards: accounts, and a journal of transfers.
-- Room on the accounts' pages makes heap-only updates; notes are stored out of line, unpacked.
CREATE TABLE ledger_account (
    id integer PRIMARY KEY,
    balance bigint NOT NULL,
    transfers bigint NOT NULL,
    owner text NOT NULL
) WITH (fillfactor = 60);
CREATE TABLE ledger_journal (
    id bigint PRIMARY KEY,
    source integer NOT NULL,
    target integer NOT NULL,
    amount bigint NOT NULL,
    checksum bigint NOT NULL,
    words text[] NOT NULL,
    note text NOT NULL,
    made timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE ledger_journal ALTER note SET STORAGE EXTERNAL;
CREATE INDEX ledger_journal_source ON ledger_journal (source);
CREATE INDEX ledger_journal_checksum ON ledger_journal USING hash (checksum);
CREATE INDEX ledger_journal_words ON ledger_journal USING gin (words);
CREATE INDEX ledger_journal_made ON ledger_journal USING brin (made);
-- Emptied and filled again now and then, and so given a new file each time.
CREATE TABLE ledger_summary (
    generation bigint NOT NULL,
    source integer NOT NULL,
    transfers bigint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (generation, source)
);
INSERT INTO ledger_account
SELECT id, 1000000, 0, repeat(md5(id::text), 4) FROM generate_series(0, 19999) AS id;
CREATE FUNCTION ledger_transfer(
    the_id bigint, the_source integer, the_target integer, the_amount bigint, the_checksum bigint,
    the_words text[], the_note text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- In one order for everybody, so that none waits for another in a circle.
    PERFORM FROM ledger_account WHERE id IN (the_source, the_target) ORDER BY id FOR UPDATE;
    UPDATE ledger_account SET balance = balance - the_amount, transfers = transfers + 1
     WHERE id = the_source;
    INSERT INTO ledger_journal (id, source, target, amount, checksum, words, note)
    VALUES (the_id, the_source, the_target, the_amount, the_checksum, the_words, the_note);
    UPDATE ledger_account SET balance = balance + the_amount, transfers = transfers + 1
     WHERE id = the_target;
END
$$;
CREATE FUNCTION ledger_summarise(the_generation bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE ledger_summary;
    INSERT INTO ledger_summary
    SELECT the_generation, source, count(*), sum(amount) FROM ledger_journal GROUP BY source;
END
$$;
