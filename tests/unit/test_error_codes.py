"""Errors for programs: a code with ``--json``, the same line as ever, and a page of codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pgstow.cli import main as command_line

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/reference/codes.md"


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["pgstow", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["plan", "--workspace", "nowhere.db"], "workspace-path", 2),
        (["plan", "--nosuch"], "usage", 2),
        (["catalog", "price", "nosuch", "--size", "1GiB"], "invalid-request", 2),
        (["diff", "nosuch.toml"], "invalid-request", 2),
    ],
)
def test_a_failure_is_an_object_with_json_and_the_same_line_without(
    arguments: list[str],
    code: str,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    plainly, nothing, line = run(capsys, monkeypatch, *arguments)
    assert (plainly, nothing) == (status, "")
    ended, out, err = run(capsys, monkeypatch, *arguments, "--json")
    said = json.loads(out)["error"]
    assert (ended, said["code"]) == (status, code)
    assert err == line
    assert line == f"pgstow: {'; '.join(filter(None, (said['message'], said['remedy'])))}\n"
    assert f"| `{code}` | {status} |" in PAGE.read_text(encoding="utf-8")


def test_the_page_of_codes_is_what_the_sources_say() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/update_codes.py", "--check"], cwd=ROOT, check=False
    )
    assert done.returncode == 0, "run scripts/update_codes.py"
