"""Every command that shows a server's or a file's names shows them without letting them act."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import content_platform
import pytest
from pydantic import TypeAdapter

from pgstow.cli import main as cli_main
from pgstow.model import Profile
from pgstow.workspace import Workspace

HOSTILE = "\x1b[31m\x1b]0;owned\x07\r\x9b31m\u202etxt\n[red]x[/] :skull:"
LAYOUT = """
[host]
platform = "ec2"
region = "\\u001b[31mX\\u0007"
instance = "m5.large"
[volumes.data]
type = "gp3"
size = "100GiB"
mount = "/da\\u001b[31mta"
[postgres]
data = "data"
[tablespaces."\\u001b]0;owned\\u0007"]
volume = "data"
"""


def renamed(value: Any) -> Any:
    """A profile's plain data with a hostile end to every name that a server or host gives."""
    if isinstance(value, dict):
        found = {key: renamed(one) for key, one in value.items()}
        if set(value) == {"database", "schema", "name"}:
            found["name"] = value["name"] + HOSTILE
        for key in ("version", "system_identifier", "device"):
            if isinstance(value.get(key), str):
                found[key] = value[key] + HOSTILE
        return found
    return [renamed(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a workspace and a layout that are full of hostile names."""
    directory = tmp_path_factory.mktemp("hostile")
    adapter = TypeAdapter(Profile)
    plain = adapter.dump_python(content_platform.profile(), mode="json")
    plain["started_at"] = datetime.now(UTC).isoformat()
    with Workspace.open(directory / "pgstow.db") as store:
        store.add("profile", adapter.validate_python(renamed(plain)))
    (directory / "layout.toml").write_text(LAYOUT)
    return directory


def names() -> str:
    seen = content_platform.profile().demands[0].relation
    return seen.name + HOSTILE


COMMANDS = (
    ("explain",),
    ("explain", "--json"),
    ("explain", "--why", names()),
    ("explain", "--why", "no such" + HOSTILE),
    ("explain", "layout.toml"),
    ("explain", "missing" + HOSTILE),
    ("plan", "--max-stripes", "1"),
    ("plan", "--json", "--max-stripes", "1"),
    ("plan", "--pin", f"nosuch{HOSTILE}=fast"),
    ("plan", "--allow", HOSTILE),
    ("plan", "--workspace", HOSTILE),
    ("report", "--json"),
    ("report", "--out", "page\x1b[31m.html"),
    ("report", "--out", f"missing/{HOSTILE}"),
    ("observe", "--list"),
    ("observe", "--dsn", f"host=/nowhere{HOSTILE} user={HOSTILE!r}"),
    ("diff", "layout.toml", "--dsn", "host=/nowhere\x1b[31m"),
    ("apply", "layout.toml", "--dry-run", "--dsn", "host=/nowhere\x1b[31m"),
    ("catalog", "--region", HOSTILE),
    ("catalog", "show", HOSTILE),
    ("catalog", "instances", "--match", "m5.large", "--region", HOSTILE),
    ("catalog", "price", "gp3", "--size", "10GiB", "--region", HOSTILE),
    ("catalog", "price", "gp3", "--size", HOSTILE),
    ("bench", "list"),
    ("bench", "show", HOSTILE),
    ("bench", "run", HOSTILE),
    ("bench", "run", "wal-split", "--only", HOSTILE),
    ("emulate", "up", "layout.toml", "--dry-run", "--thin"),
    ("emulate", "fault", "schedule", HOSTILE, "--check"),
    ("emulate", "forecast", "layout.toml", "--load", HOSTILE),
    ("emulate", "replay", HOSTILE),
    ("emulate", "limits", HOSTILE),
    (HOSTILE,),
)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: ascii(" ".join(one))[:60])
def test_nothing_that_is_shown_acts(
    command: tuple[str, ...],
    debug: bool,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if debug and command[0] == "plan" and "--pin" not in command:
        pytest.skip("shown without --debug already")
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", ["pgstow", *command, *(["--debug"] if debug else [])])
    with pytest.raises(SystemExit) as ended:
        cli_main()
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert {one for one in text if one != "\n" and not one.isprintable()} == set()
    assert ended.value.code in (0, 1, 2)
    assert "internal error" not in printed.err
    if "--json" in command:
        json.loads(printed.out)
    elif ended.value.code == 0 and command == ("explain",):
        assert "\\x1b[31m" in printed.out


def test_a_layout_that_was_edited_is_not_written_over(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def plan() -> tuple[object, str]:
        command = ["pgstow", "plan", "--max-stripes", "1", "--out", "mine.toml"]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            cli_main()
        return ended.value.code, capsys.readouterr().err

    monkeypatch.chdir(place)
    mine = place / "mine.toml"
    assert plan()[0] == 0
    written = mine.read_text()
    assert plan()[0] == 0  # its own
    mine.write_text(written + "# mine\n")
    status, error = plan()
    assert status == 2
    assert "mine.toml is there and is not a plan" in error
    assert mine.read_text() == written + "# mine\n"
