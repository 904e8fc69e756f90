"""The style that a machine can hold: sizes, names and what the sources may not speak of.

The two ratchets list what is larger than the limit today. They may only shrink: an entry that is
no longer needed fails too.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LINE_COLUMNS_MAX = 100

# path: lines
LARGE_MODULES: dict[str, int] = {}
# path::function: lines
LARGE_FUNCTIONS = {"tests/unit/content_platform.py::profile": 65}

VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
# Written apart, so that this file does not contain what it looks for.
FOREIGN_WORDS = re.compile(
    "|".join(
        [
            r"(?<!user[- ])(?<!cloudwatch )\bag" + r"ents?\b",
            r"\bsession" + r"[ _-]id\b",
            r"\bcl" + r"aude\b|\banth" + r"ropic\b|\bl" + r"lms?\b|\bchat" + r"gpt\b",
            r"\bissues? " + r"#?\d+\b",
            r"\bfield" + r"[- ]notes\b",
        ]
    ),
    re.IGNORECASE,
)
LOCAL_PATHS = re.compile(r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me|Us" + r"ers)/\w")
INDEX_URLS = re.compile(r"index-u" + r"rl|artif" + r"actory|/sim" + r"ple/?$", re.IGNORECASE)
TEXT_SUFFIXES = {
    ".py", ".pyi", ".rs", ".toml", ".md", ".sql", ".sh", ".yml", ".yaml", ".html", ".j2", ".js",
    ".css", ".lock", ".txt", ".json", "",
}  # fmt: skip


def tracked() -> list[Path]:
    """The project's files, by what git tracks or would; all of them where there is no git."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = None
    if shutil.which("git"):
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed is not None and listed.returncode == 0:
        found = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        skipped = {".venv", "target", "build", "dist", ".git"}
        found = [
            path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)
        ]
    return [path for path in found if path.is_file()]


FILES = tracked()
PYTHON = [path for path in FILES if path.suffix == ".py"]
SOURCES = [path for path in FILES if path.suffix in {".py", ".rs"}]


def name(path: Path) -> str:
    """A path as the project says it."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a file with its ratchet's name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(path)}::{node.name}", node


def over(sizes: dict[str, int], limit: int, ratchet: dict[str, int]) -> dict[str, int]:
    """What is larger than its limit, and ratchet entries that are no longer needed."""
    large = {key: size for key, size in sizes.items() if size > ratchet.get(key, limit)}
    stale = {key: size for key, size in ratchet.items() if sizes.get(key, 0) <= limit}
    return large | stale


def test_modules_are_short() -> None:
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert over(sizes, MODULE_LINES_MAX, LARGE_MODULES) == {}


def test_functions_are_short() -> None:
    sizes: dict[str, int] = {}
    for path in PYTHON:
        for key, node in functions(path):
            first = node.body[0].lineno  # a command's options are declared before it
            lines = (node.end_lineno or first) - first + 1
            sizes[key] = max(lines, sizes.get(key, 0))
    assert over(sizes, FUNCTION_LINES_MAX, LARGE_FUNCTIONS) == {}


def test_modules_are_named_for_what_they_do() -> None:
    assert [name(path) for path in SOURCES if path.stem in VAGUE_NAMES] == []


def test_modules_say_their_responsibility() -> None:
    def has_docstring(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".rs":
            return text.startswith("//!")
        return not text.strip() or ast.get_docstring(ast.parse(text)) is not None

    assert [name(path) for path in SOURCES if not has_docstring(path)] == []


@pytest.mark.parametrize("pattern", [FOREIGN_WORDS, LOCAL_PATHS, INDEX_URLS])
def test_the_project_speaks_of_itself_alone(pattern: re.Pattern[str]) -> None:
    found = []
    for path in FILES:
        if path.suffix not in TEXT_SUFFIXES or path.name == "LICENSE":
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = pattern.search(line)
            if match:
                found.append(f"{name(path)}:{number}: {match[0]!r}")
    assert found == []
