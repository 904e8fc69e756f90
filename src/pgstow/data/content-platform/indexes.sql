-- The statements that index each table once it is loaded, of the table's name before the colon.

-- articles:
ALTER TABLE articles ADD CONSTRAINT articles_pkey PRIMARY KEY (id);
CREATE INDEX articles_cat_pub ON articles (category_id, published_at);

-- analytics_events:
CREATE INDEX analytics_events_ts ON analytics_events (ts);

-- analytics_daily:
ALTER TABLE analytics_daily ADD CONSTRAINT analytics_daily_pkey PRIMARY KEY (article_id, day);

-- subscriptions:
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

-- old_articles:
ALTER TABLE old_articles ADD CONSTRAINT old_articles_pkey PRIMARY KEY (id);
