"""What the tests of observing share: statements, a load in the background, a short watch."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from local_server import LocalServer

from pgstow.model import Profile, Relation, RelationId
from pgstow.observe import observe

HOSTILE = ['we"ird', "new\nline", "<script>alert(1)</script>", "$(rm -rf ~)", "a'b;--", "Größe 💥"]


def run(server: LocalServer, database: str, *statements: str) -> None:
    """Run statements as the superuser."""
    with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def watch(dsn: str, seconds: float = 3.0, **options: object) -> Profile:
    """Observe with short intervals."""
    defaults = {
        "duration_s": seconds,
        "interval_s": 1.0,
        "clock": time.monotonic,
        "sleep": time.sleep,
    }
    return observe(dsn, **(defaults | options))  # type: ignore[arg-type]


@contextmanager
def load(server: LocalServer, database: str, *options: str) -> Iterator[None]:
    """Keep pgbench running inside."""
    command = server.pgbench_command("-n", "-T", "60", *options, database=database)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1.0)
        yield
    finally:
        process.terminate()
        process.wait()


def of(relations: tuple[Relation, ...], name: str, database: str) -> Relation:
    """The relation of that name in a database's schema public."""
    return next(r for r in relations if r.id == RelationId(database, "public", name))


def codes(profile: Profile) -> set[str]:
    """The codes of a profile's warnings."""
    return {warning.code for warning in profile.warnings}
