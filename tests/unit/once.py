"""Searches that several tests of a module ask for alike: each is done once."""

from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def once(search: Callable[..., Found]) -> Callable[..., Found]:
    """The search, remembering what it was asked and found; what it refuses it is asked again."""
    known: list[tuple[object, Found]] = []

    def remembered(*given: object, **named: object) -> Found:
        for before, found in known:
            if before == (given, named):
                return found
        known.append(((given, named), search(*given, **named)))
        return known[-1][1]

    return remembered
