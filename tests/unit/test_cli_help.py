"""Every command explains itself, and the command line starts without the heavy packages."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from pgstow.cli.main import app
from pgstow.workspace import Workspace

HEAVY = {
    "altair", "boto3", "highspy", "jinja2", "numpy", "pgstow._native", "psycopg", "pydantic",
    "rich.table", "scipy", "sqlite3", "vl_convert",
}  # fmt: skip


def commands() -> Iterator[tuple[str, ...]]:
    """The arguments that lead to each command and group."""

    def descend(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for key, child in getattr(command, "commands", {}).items():
            yield from descend(child, (*path, key))

    yield from descend(typer.main.get_command(app), ())


@pytest.mark.parametrize("path", list(commands()), ids=lambda path: " ".join(path) or "pgstow")
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output
    assert CliRunner().invoke(app, [*path, "-h"]).exit_code == 0


def test_a_command_that_does_not_exist_is_the_users_mistake() -> None:
    assert CliRunner().invoke(app, ["stow-it"]).exit_code == 2


STARTED = """
import json, sys
from pgstow.__main__ import main
try:
    main()
finally:
    json.dump(sorted(sys.modules), sys.stderr)
"""
EMULATES = {"pgstow.emulate.bring_up", "pgstow.emulate.calibrate", "pgstow.emulate.injection"}


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("--version",), set()),
        (("--help",), set()),
        (("emulate", "status", "--json"), {"pydantic"}),
        (("observe", "--list", "--json"), {"pydantic", "sqlite3"}),
    ],
    ids=lambda one: " ".join(sorted(one)),
)
def test_commands_read_no_more_than_they_need(
    arguments: tuple[str, ...], needed: set[str], tmp_path: Path
) -> None:
    Workspace.open(tmp_path / "pgstow.db", create=True).close()
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PGSTOW_EMULATOR": str(tmp_path / "emulator")},
    )
    assert done.returncode == 0, done.stderr
    assert (HEAVY | EMULATES) & set(json.loads(done.stderr)) == needed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("catalog", "price", "gp3"), "Missing option '--size'; see pgstow catalog price --help"),
        (("nosuch",), "No such command 'nosuch'; see pgstow --help"),
        (("explain", "--nosuch"), "see pgstow explain --help"),
        (("plan", "--headroom", "7"), "see pgstow plan --help"),
    ],
)
def test_a_misused_command_line_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    program = "from pgstow.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("pgstow: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


CHANGES = (
    "apply", "demo", "bench run", "bench load", "bench load-and-run", "bench clear",
    "catalog update",
    "emulate up", "emulate down", "emulate limits", "emulate set", "emulate volatile",
    "emulate bench", "emulate crash-test", "emulate fault power-loss", "emulate fault stall",
    "emulate fault error", "emulate fault slow", "emulate fault disappear", "emulate fault full",
    "emulate fault schedule", "emulate fault clear", "emulate trace start",
)  # fmt: skip


def options_of() -> dict[str, set[str]]:
    """The options of each command that is not a group of others."""

    def descend(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
        children = getattr(command, "commands", {})
        for key, child in children.items():
            yield from descend(child, (*path, key))
        if not children:
            yield " ".join(path), {name for one in command.params for name in one.opts}

    return dict(descend(typer.main.get_command(app), ()))


def test_what_changes_something_can_be_looked_at_first() -> None:
    options = options_of()
    assert [one for one in CHANGES if "--dry-run" not in options[one]] == []


def test_every_result_can_be_had_as_json() -> None:
    without = {name for name, options in options_of().items() if "--json" not in options}
    assert without == {"bench export"}  # it has --format json


def test_help_says_it_plainly() -> None:
    wrong = re.compile(r"so (many|much|long)\b|such a |that are there|(?<!\[)\[\](?!\])")
    for path in commands():
        shown = " ".join(CliRunner().invoke(app, [*path, "--help"]).output.split())
        assert not wrong.search(shown), (path, wrong.search(shown))


def test_the_shells_completion_answers() -> None:
    asked = {"_PGSTOW_COMPLETE": "complete_bash", "COMP_WORDS": "pgstow pl", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pgstow"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked,
    )
    assert done.stdout.split() == ["plan"]


def test_dry_runs_that_need_nothing_change_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    state = ["--state-dir", str(tmp_path / "state")]
    for arguments in (
        ["demo", "--dry-run", "--out", str(out)],
        ["demo", "--dry-run", "--json", "--out", str(out)],
        ["catalog", "update", "--dry-run", "--out", str(out)],
        ["catalog", "update", "--dry-run", "--json", "--prices", "--out", str(out)],
        ["emulate", "down", "--dry-run", *state],
        ["emulate", "down", "--dry-run", "--json", *state],
        ["emulate", "fault", "clear", "--dry-run", *state],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output)
        assert "--json" not in arguments or json.loads(result.output) is not None
    assert list(tmp_path.iterdir()) == []
