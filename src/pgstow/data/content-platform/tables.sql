-- One statement a table, of the name before the colon. Row widths and fill factors are chosen for
-- the proportions of table to index that the content platform has: see content_platform/tables.py.

-- articles:
CREATE TABLE articles (
    id bigint NOT NULL,
    published_at timestamptz NOT NULL,
    category_id integer NOT NULL,
    revision integer NOT NULL,
    title text NOT NULL,
    body text NOT NULL
) WITH (fillfactor = 95);

-- analytics_events:
CREATE TABLE analytics_events (
    ts timestamptz NOT NULL,
    article_id bigint NOT NULL,
    kind integer NOT NULL,
    payload text NOT NULL
);

-- analytics_daily:
CREATE TABLE analytics_daily (
    article_id bigint NOT NULL,
    views bigint NOT NULL,
    visitors bigint NOT NULL,
    reading_s bigint NOT NULL,
    day date NOT NULL,
    referrers text NOT NULL
) WITH (fillfactor = 95);

-- subscriptions:
CREATE TABLE subscriptions (
    id bigint NOT NULL,
    renewed_at timestamptz NOT NULL,
    plan integer NOT NULL,
    reader text NOT NULL
) WITH (fillfactor = 90);

-- old_articles:
CREATE TABLE old_articles (
    id bigint NOT NULL,
    published_at timestamptz NOT NULL,
    category_id integer NOT NULL,
    title text NOT NULL,
    body text NOT NULL
);
