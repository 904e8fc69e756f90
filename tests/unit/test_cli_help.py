"""Every command explains itself, and the command line starts without the heavy packages."""

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
import typer
from typer.testing import CliRunner

import pgstow.cli
from pgstow.cli.main import app

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


def test_the_command_line_starts_light() -> None:
    assert pgstow.cli.main is not None  # what the subprocess imports exists here
    program = "import json, sys; import pgstow.cli; print(json.dumps(sorted(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert HEAVY & set(json.loads(loaded.stdout)) == set()


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
