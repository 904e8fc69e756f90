"""The examples in the docstrings hold, of every module that has some."""

import doctest
import importlib
from pathlib import Path

import pytest

import pgstow
from pgstow import model

SOURCES = Path(pgstow.__file__).parent
MODULES = [
    ".".join(("pgstow", *path.relative_to(SOURCES).with_suffix("").parts))
    for path in sorted(SOURCES.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold(name: str) -> None:
    module = importlib.import_module(name)
    words = {one: getattr(model, one) for one in model.__all__ if not hasattr(module, one)}
    found = doctest.testmod(module, extraglobs=words)
    assert found.attempted > 0 and found.failed == 0
