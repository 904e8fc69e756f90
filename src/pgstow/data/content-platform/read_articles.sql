-- A reader's list: eight articles by their keys, anywhere in the table.
\set id1 random(1, :articles)
\set id2 random(1, :articles)
\set id3 random(1, :articles)
\set id4 random(1, :articles)
\set id5 random(1, :articles)
\set id6 random(1, :articles)
\set id7 random(1, :articles)
\set id8 random(1, :articles)
SELECT id, title, body FROM articles
WHERE id IN (:id1, :id2, :id3, :id4, :id5, :id6, :id7, :id8);
