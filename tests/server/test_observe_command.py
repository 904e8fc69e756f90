"""``pgstow observe`` as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from local_server import LocalServer
from observing import load
from psycopg import sql

from pgstow.model import Profile
from pgstow.workspace import Workspace


def pgstow(*arguments: str) -> subprocess.Popen[str]:
    """Start pgstow as a user would."""
    return subprocess.Popen(
        [sys.executable, "-c", "from pgstow.cli import main; main()", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "120"},
    )


def test_the_command_prints_and_keeps_the_profile(
    server: LocalServer, monitor: str, database: str, tmp_path: Path
) -> None:
    hostile = "[bold]x\n<b>"
    with psycopg.connect(server.dsn_for("postgres", database), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} AS SELECT generate_series(1, 50000) x").format(
                sql.Identifier(hostile)
            )
        )
    script = server.directory / f"{database}.sql"
    table = f'"{hostile}"'
    script.write_text(f"SELECT count(*) FROM {table};\nUPDATE {table} SET x = x WHERE x = 7;\n")
    workspace = tmp_path / "w.db"
    with load(server, database, "-c", "1", "-R", "20", "-f", str(script)):
        process = pgstow(
            *("observe", "--dsn", monitor, "--duration", "3s", "--interval", "1s"),
            *("--workspace", str(workspace)),
        )
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "[bold]x\\n<b>" in output.replace(" ", "")
    assert "Transactions" in output
    with Workspace.open(workspace) as store:
        profile = store.latest("profile", Profile)
    assert profile is not None
    assert any(d.relation.name == hostile for d in profile.demands)


def test_json_is_all_there_is_on_standard_output(monitor: str, tmp_path: Path) -> None:
    process = pgstow(
        *("observe", "--dsn", monitor, "--duration", "2s", "--interval", "1s", "--json"),
        *("--workspace", str(tmp_path / "w.db")),
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(output)["samples"] == 3


def test_ctrl_c_keeps_what_was_sampled(server: LocalServer, monitor: str, tmp_path: Path) -> None:
    workspace = tmp_path / "w.db"
    process = pgstow(
        *("observe", "--dsn", monitor, "--duration", "10min", "--interval", "1s"),
        *("--workspace", str(workspace)),
    )
    looks = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgstow'"
    with psycopg.connect(server.dsn_for("postgres", "postgres"), autocommit=True) as connection:
        while connection.execute(looks).fetchone() is None:
            time.sleep(0.1)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    with Workspace.open(workspace) as store:
        profile = store.latest("profile", Profile)
    assert profile is not None and 2 <= profile.samples <= 6


def test_mistakes_and_failures_are_one_line(tmp_path: Path) -> None:
    place = ("--workspace", str(tmp_path / "w.db"))
    for arguments, status in (
        (("observe", "--dsn", "host=127.0.0.1 port=1", *place), 1),  # a failure, not a mistake
        (("observe", "--duration", "soon", *place), 2),
        (("observe", "--duration", "2s", "--interval", "1ms", *place), 2),
    ):
        process = pgstow(*arguments)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == status, errors
        assert output == ""
        (line,) = errors.strip().splitlines()
        assert line.startswith("pgstow: ")
