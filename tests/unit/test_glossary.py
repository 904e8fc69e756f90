"""The glossary is true: its terms are in use, and what it says "not" to is nowhere.

Words are taken from identifiers (in parts), strings and prose alike.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GLOSSARY = ROOT / "docs/glossary.md"
SCOPE = ("src/pgstow", "docs", "README.md", "CONTRIBUTING.md", "crates")
SUFFIXES = {".py", ".md", ".rs", ".sql", ".html"}
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True)
class Term:
    name: str
    banned: tuple[str, ...]
    scope: str
    source: str


def terms() -> list[Term]:
    found = []
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 4 or cells[0] in ("term", "---"):
            continue
        words, _, scope = cells[2].partition(" (")
        banned = tuple(word.strip() for word in words.split(",") if word.strip())
        found.append(Term(cells[0], banned, scope.rstrip(")"), cells[3]))
    return found


def files(scope: str) -> list[Path]:
    root = ROOT / scope
    every = [root] if root.is_file() else sorted(root.rglob("*"))
    return [
        one
        for one in every
        if one.suffix in SUFFIXES and one != GLOSSARY and "__pycache__" not in one.parts
    ]


@cache
def words(file: Path) -> frozenset[str]:
    """Every word of a file, in small letters; ``loadFactor`` and ``load_factor`` have two."""
    return frozenset(part.lower() for part in PART.findall(file.read_text(encoding="utf-8")))


@cache
def text() -> str:
    every = (file.read_text(encoding="utf-8") for scope in SCOPE for file in files(scope))
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", "\n".join(every))  # of CamelCase
    return re.sub(r"[_\s]+", " ", apart).lower()


TERMS = terms()


def test_the_table_is_read() -> None:
    assert len(TERMS) > 40
    assert any(term.banned for term in TERMS)


def test_each_section_is_in_order() -> None:
    sections = GLOSSARY.read_text(encoding="utf-8").split("\n## ")[1:]
    for section in sections:
        names = [line.split("|")[1].strip().lower() for line in section.splitlines()[4:]]
        assert names == sorted(names), section.splitlines()[0]


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_in_use(term: Term) -> None:
    name = re.sub(r"\(.*\)", "", term.name)
    for one in name.split(","):
        assert one.strip().lower() in text()


@pytest.mark.parametrize(
    ("word", "scope"),
    [(word, term.scope) for term in TERMS for word in term.banned],
)
def test_what_is_not_said_is_not_there(word: str, scope: str) -> None:
    places = [scope] if scope else list(SCOPE)
    found = [
        str(file.relative_to(ROOT)) for place in places for file in files(place)
        if word in words(file)
    ]  # fmt: skip
    assert found == [], f"{word}: see docs/glossary.md"
