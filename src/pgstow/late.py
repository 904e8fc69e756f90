"""Packages whose names are read when they are first asked for.

Making a class of values takes its time, and most commands need few of them.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def reader(package: str, names: Sequence[str], parts: Sequence[str]) -> Callable[[str], object]:
    """A package's ``__getattr__``: looks for its names in its parts, in this order."""

    def read(name: str) -> object:
        for part in parts if name in names else ():
            found = vars(import_module(f"{package}.{part}"))
            if name in found:
                setattr(sys.modules[package], name, found[name])
                return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return read
