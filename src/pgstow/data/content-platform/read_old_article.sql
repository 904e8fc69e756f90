-- Someone follows an old link.
\set id random(1, :old_articles)
SELECT title, body FROM old_articles WHERE id = :id;
