-- A front page as of some hour: the newest article of each of eight categories.
\set category1 random(1, :categories)
\set hour1 random(1, :hours)
\set category2 random(1, :categories)
\set hour2 random(1, :hours)
\set category3 random(1, :categories)
\set hour3 random(1, :hours)
\set category4 random(1, :categories)
\set hour4 random(1, :hours)
\set category5 random(1, :categories)
\set hour5 random(1, :hours)
\set category6 random(1, :categories)
\set hour6 random(1, :hours)
\set category7 random(1, :categories)
\set hour7 random(1, :hours)
\set category8 random(1, :categories)
\set hour8 random(1, :hours)
SELECT newest.id, newest.title FROM (VALUES
    (:category1::integer, :hour1::integer),
    (:category2::integer, :hour2::integer),
    (:category3::integer, :hour3::integer),
    (:category4::integer, :hour4::integer),
    (:category5::integer, :hour5::integer),
    (:category6::integer, :hour6::integer),
    (:category7::integer, :hour7::integer),
    (:category8::integer, :hour8::integer)
) AS wanted (category_id, hour),
LATERAL (
    SELECT id, title FROM articles
    WHERE category_id = wanted.category_id
    AND published_at <= timestamptz '2024-01-01 00:00:00+00' + wanted.hour * interval '1 hour'
    ORDER BY published_at DESC
    LIMIT 1
) AS newest;
