-- A reader pays.
\set id random(1, :subscriptions)
UPDATE subscriptions SET renewed_at = now() WHERE id = :id;
