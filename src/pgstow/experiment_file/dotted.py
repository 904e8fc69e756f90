"""Dotted keys over tables: what ``"layout.volumes.data.stripes" = 4`` changes."""

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]


def split_key(key: str) -> Path:
    """The parts of a dotted key; one with dots in it stands in double quotes.

    >>> split_key("schedule.duration")
    ('schedule', 'duration')
    >>> split_key('server.settings."auto_explain.log_analyze"')[-1]
    'auto_explain.log_analyze'
    """
    parts = re.findall(r'"([^"]*)"|([^".]+)', key)
    path = tuple(quoted or plain for quoted, plain in parts)
    if not path or key not in (joined(path), ".".join(path)):
        raise ValueError(f"{key!r} is no dotted key; write it like schedule.duration")
    return path


def joined(path: Path) -> str:
    """A path as one dotted key."""
    plain = re.compile(r'[^".]+')
    return ".".join(part if plain.fullmatch(part) else f'"{part}"' for part in path)


def changes(tables: Mapping[str, Any], within: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values that a table of dotted keys sets. A table as a value stands for its keys."""
    for key, value in tables.items():
        path = within + split_key(key)
        if isinstance(value, Mapping) and value:
            yield from changes(value, path)
        else:
            yield path, value


def changed(tables: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with one key set; tables on the way to it are made where there are none."""
    name, rest = path[0], path[1:]
    copied = dict(tables)
    if not rest:
        copied[name] = copy.deepcopy(value)
        return copied
    below = copied.get(name)
    copied[name] = changed(below if isinstance(below, Mapping) else {}, rest, value)
    return copied


def value_at(tables: Any, path: Path) -> Any:
    """The value of a key; None where there is none."""
    for part in path:
        if not isinstance(tables, Mapping) or part not in tables:
            return None
        tables = tables[part]
    return tables
