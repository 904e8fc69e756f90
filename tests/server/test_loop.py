"""The loop as a user walks it: observe, explain, apply, verify, report, on a real server."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import in_process
from apply_samples import Bench
from local_server import LocalServer
from observing import load

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, n int DEFAULT 0, note text);
INSERT INTO orders SELECT n, 0, repeat('x', 100) FROM generate_series(1, 20000) n;
CREATE TABLE events (at date NOT NULL, id int) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO events SELECT '2026-01-01'::date + n % 59, n FROM generate_series(1, 1000) n;
"""
SCRIPT = r"""\set id random(1, 20000)
UPDATE orders SET n = n + 1 WHERE id = :id;
INSERT INTO events VALUES ('2026-01-15', :id);
"""
WINDOW = ("--duration", "3s", "--interval", "1s")


def pgstow(bench: Bench, *arguments: str) -> "subprocess.CompletedProcess[str]":
    result = in_process.run([*arguments, f"--workspace={bench.workspace}"])
    assert result.returncode == 0, result.stderr + result.stdout
    return result


def plain(bench: Bench, *arguments: str) -> Any:
    return json.loads(pgstow(bench, *arguments, "--json").stdout)


def test_what_preceded_the_apply_is_before_and_what_was_applied_is_verified(
    make_server: Callable[..., LocalServer],
) -> None:
    bench = Bench.of(make_server(15))
    bench.execute(*filter(str.strip, TABLES.split(";\n")))
    script = bench.server.directory / "load.sql"
    script.write_text(SCRIPT)
    dsn = f"--dsn={bench.server.dsn}"
    present = bench.write(bench.present()).rename(bench.server.directory / "present.toml")
    layout = bench.layout(("postgres.public.orders_pkey",))
    with load(bench.server, "postgres", "-c", "2", "-R", "200", "-f", str(script)):
        seen = pgstow(bench, "observe", dsn, *WINDOW, "--layout", str(present), "--name", "first")
        assert "events (2 partitions)" in seen.stdout
        assert "next: pgstow explain" in seen.stdout
        explained = plain(bench, "explain")
        assert {one["metric"] for one in explained["comparisons"]} >= {"tps", "latency_ms.mean"}
        assert explained["observed"]["performance"]["latency_ms"]["mean"] > 0
        assert "WAL pg_wal" in pgstow(bench, "explain", "--why", "wal").stdout
        assert "Partitioned table" in pgstow(bench, "explain", "--why", "events").stdout
        early = plain(bench, "verify", str(bench.write(layout)), dsn, *WINDOW)
        assert "not-applied" in {one["code"] for one in early["measured"]["warnings"]}
        bench.apply_layout(layout)
        pgstow(bench, "observe", dsn, *WINDOW, "--layout", str(present), "--name", "between")
        verified = plain(bench, "verify", dsn, *WINDOW)
    spaces = verified["predicted"]["layout"]["tablespaces"]
    assert [one["name"] for one in spaces] == ["fast"]
    assert "not-applied" not in {one["code"] for one in verified["measured"]["warnings"]}
    rows = plain(bench, "observe", "--list")
    # verify before the apply made the second profile, which is the last one before
    assert [row["report"] for row in rows] == [None, "before", None, "after"]
    page = plain(bench, "report", "--before", "first")
    assert page["before"]["layout"]["tablespaces"] == []
    assert page["after"]["layout"]["tablespaces"][0]["name"] == "fast"
    assert page["steps"] and page["comparisons"]
    assert any("--layout present.toml" in command for command in page["commands"])
