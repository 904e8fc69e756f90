"""Plain data to values of a type and back; what that takes is found out once, when it is needed."""

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")
_known: dict[Any, TypeAdapter[Any]] = {}


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """What reads and writes values of a type. Making one takes longer than many a command."""
    if kind not in _known:
        _known[kind] = TypeAdapter(kind)
    return _known[kind]
