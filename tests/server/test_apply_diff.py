"""``pgstow diff`` on real servers."""

import json
import subprocess

import in_process
from apply_samples import Bench
from local_server import LocalServer


def diff(bench: Bench, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["diff", *arguments, f"--dsn={bench.server.dsn}", f"--workspace={bench.workspace}"]
    return in_process.run(command)


def test_it_lists_the_steps_and_changes_nothing(own_server: LocalServer) -> None:
    bench = Bench.of(own_server)
    bench.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    relations = ("postgres.public.orders", "postgres.public.orders_pkey")
    path = str(bench.write(bench.layout(relations, wal="wal")))
    text = diff(bench, path)
    assert text.returncode == 0, text.stderr
    assert "REINDEX (TABLESPACE fast) INDEX CONCURRENTLY public.orders_pkey" in text.stdout
    assert "ACCESS EXCLUSIVE on postgres.public.orders" in text.stdout
    assert "base backup" in " ".join(text.stderr.split())
    found = json.loads(diff(bench, path, "--json").stdout)
    assert found["totals"]["steps"] == len(found["steps"]) == 4
    assert found["totals"]["needs_restart"]
    assert {warning["code"] for warning in found["warnings"]} == {"base-backup"}
    assert set(bench.places().values()) == {"pg_default"}


def test_a_layout_that_cannot_be_says_so_in_one_line(own_server: LocalServer) -> None:
    bench = Bench.of(own_server)
    result = diff(bench, str(bench.write(bench.layout(("postgres.public.nothing",)))))
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "which the server does not have" in result.stderr
