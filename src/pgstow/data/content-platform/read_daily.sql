-- A dashboard: one day of eight articles.
\set article1 random(1, :daily_articles)
\set article2 random(1, :daily_articles)
\set article3 random(1, :daily_articles)
\set article4 random(1, :daily_articles)
\set article5 random(1, :daily_articles)
\set article6 random(1, :daily_articles)
\set article7 random(1, :daily_articles)
\set article8 random(1, :daily_articles)
\set day random(0, :days - 1)
SELECT article_id, views, visitors FROM analytics_daily
WHERE article_id IN (:article1, :article2, :article3, :article4, :article5, :article6, :article7, :article8)
AND day = date '2026-01-01' + :day::integer;
