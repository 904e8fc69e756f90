-- An editor saves an article.
\set id random(1, :articles)
UPDATE articles SET revision = revision + 1 WHERE id = :id;
