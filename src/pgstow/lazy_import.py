"""Packages whose names are imported at their first use.

Creating value classes takes time, and most commands need few of them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def reader(package: str, parts: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """A package's ``__getattr__``: ``parts`` has the names of each module that others may use."""
    module_of = {name: part for part, names in parts.items() for name in names}

    def read(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return read
