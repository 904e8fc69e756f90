-- A reader logs in.
\set id random(1, :subscriptions)
SELECT plan, renewed_at FROM subscriptions WHERE id = :id;
