-- Counted visits are added to an article's day.
\set article random(1, :daily_articles)
\set day random(0, :days - 1)
INSERT INTO analytics_daily (article_id, views, visitors, reading_s, day, referrers)
VALUES (:article, 10, 1, 300, date '2026-01-01' + :day::integer, '')
ON CONFLICT (article_id, day) DO UPDATE
SET views = analytics_daily.views + excluded.views, visitors = analytics_daily.visitors + 1;
