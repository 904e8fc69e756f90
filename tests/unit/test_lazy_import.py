"""Packages that import lazily: each name is the one that type checkers see."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("pgstow.emulate", "pgstow.model")
FIRST = "import sys, {0}; print([name for name in sys.modules if name.startswith('{0}.')])"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_the_one_that_it_is_typed_as(package: str) -> None:
    read = import_module(package)
    assert read.__file__ is not None
    typed = {
        name.name: node.module
        for node in ast.walk(ast.parse(Path(read.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(package)
        for name in node.names
    }
    lazy = [name for names in read._PARTS.values() for name in names]
    assert sorted(typed) == sorted(read.__all__) == sorted(lazy)
    for name, module in typed.items():
        assert getattr(read, name) is getattr(import_module(module), name), name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = read.nothing


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_read_before_it_is_asked_for(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST.format(package)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
