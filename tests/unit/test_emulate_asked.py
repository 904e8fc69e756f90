"""``pgstow emulate down`` on a terminal asks first; elsewhere it goes on at once."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgstow import emulate
from pgstow.cli.main import app
from pgstow.emulate.take_down import Cleanup


@pytest.mark.parametrize(
    ("is_terminal", "answer", "options", "goes"),
    [
        (True, "n\n", [], False),
        (True, "y\n", [], True),
        (True, "", ["--yes"], True),
        (False, "", [], True),
    ],
)
def test_down_asks_on_a_terminal(
    is_terminal: bool,
    answer: str,
    options: list[str],
    goes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Path] = []

    def down(directory: Path, **_: object) -> Cleanup:
        done.append(directory)
        return Cleanup()

    monkeypatch.setattr(emulate, "down", down)
    module = sys.modules["pgstow.cli.emulate"]
    monkeypatch.setattr(emulate, "plan_down", lambda _, **__: ("remove volume data",))
    monkeypatch.setattr(module, "is_answered", lambda: is_terminal)
    monkeypatch.setattr("pgstow.cli.output.is_answered", lambda: is_terminal)
    arguments = ["emulate", "down", "--state-dir", str(tmp_path / "state"), *options]
    result = CliRunner().invoke(app, arguments, input=answer)
    assert bool(done) is goes, result.output
    assert result.exit_code == (0 if goes else 1)


def test_files_that_purge_deletes_are_named_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is up: they are all that earlier runs have left."""
    kept = tmp_path / "usual" / "data.volume"
    kept.parent.mkdir()
    kept.write_text("x")
    monkeypatch.setattr("pgstow.emulate.backing.default_directory", lambda _: kept.parent)
    module = sys.modules["pgstow.cli.emulate"]
    monkeypatch.setattr(module, "is_answered", lambda: True)
    monkeypatch.setattr("pgstow.cli.output.is_answered", lambda: True)
    down = ["emulate", "down", "--purge", "--state-dir", str(tmp_path / "state")]
    result = CliRunner().invoke(app, [*down, "--dry-run"])
    assert result.exit_code == 0 and f"would: delete {kept}" in result.output
    assert CliRunner().invoke(app, down, input="n\n").exit_code == 1
    assert kept.exists()
    assert CliRunner().invoke(app, [*down, "--yes"]).exit_code == 0
    assert not kept.exists()


def test_one_fault_is_one(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    one = '[[faults]]\nat = "10s"\nkind = "stall"\n'
    for text, says in ((one, "faults.toml: 1 fault\n"), (one * 2, "faults.toml: 2 faults\n")):
        file.write_text(text)
        result = CliRunner().invoke(app, ["emulate", "fault", "schedule", "--check", str(file)])
        assert says in result.output
