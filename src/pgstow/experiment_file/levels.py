"""Factors' levels as changes of the file's tables, and the combinations to run."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgstow.experiment_file.dotted import Path, changes, split_key
from pgstow.experiment_file.tables import CHANGEABLE, ExperimentTable, FactorTable
from pgstow.model import Levels, UserError
from pgstow.toml_file import did_you_mean, dotted, shown


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a factor, and the keys that it sets."""

    factor: str
    name: str
    changes: tuple[tuple[Path, Any], ...]

    @property
    def location(self) -> str:
        """Where it stands, for errors."""
        return f"factors.{self.factor} level {self.name}"


def levels_of(name: str, factor: FactorTable) -> tuple[Level, ...]:
    """A factor's levels, in the file's order."""
    location = f"factors.{name}"
    if factor.key is not None:
        path = _path(f"{location}.key", factor.key)
        named = _named_values(f"{location}.levels", factor.levels)
        found = [Level(name, level, ((path, value),)) for level, value in named]
    elif isinstance(factor.levels, Mapping):
        found = [Level(name, one, _changes(location, one, v)) for one, v in factor.levels.items()]
    else:
        raise UserError(f"{location}.key: is missing", "say which key has these values")
    names = [level.name for level in found]
    for level in names:
        if names.count(level) > 1:
            raise UserError(f"{location}.levels: {level} is there twice", "name each level once")
    if not names:
        raise UserError(f"{location}.levels: has none", "give the factor its levels")
    return tuple(found)


def _named_values(location: str, values: list[Any] | dict[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(values, Mapping):
        return list(values.items())
    return [(_level_name(location, value), value) for value in values]


def _level_name(location: str, value: Any) -> str:
    """What people call a level that is given by its value alone."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return " ".join(_level_name(location, one) for one in value) or "none"
    if isinstance(value, Mapping):
        remedy = "give it a name: levels = { NAME = … }"
        raise UserError(f"{location}: {shown(value)}: a table has no short name", remedy)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _changes(location: str, name: str, table: Any) -> tuple[tuple[Path, Any], ...]:
    where = f"{location}.levels.{name}"
    if not isinstance(table, Mapping):
        remedy = 'write what it changes, like { "schedule.duration" = "30s" }, or give key'
        raise UserError(f"{where}: must be a table, not {shown(table)}", remedy)
    try:
        found = tuple(changes(table))
    except ValueError as error:
        rule, _, remedy = str(error).partition("; ")
        raise UserError(f"{where}: {rule}", remedy) from None
    for path, _ in found:
        _refuse_foreign(where, path)
    return found


def _path(where: str, key: str) -> Path:
    try:
        path = split_key(key)
    except ValueError as error:
        rule, _, remedy = str(error).partition("; ")
        raise UserError(f"{where}: {rule}", remedy) from None
    _refuse_foreign(where, path)
    return path


def _refuse_foreign(where: str, path: Path) -> None:
    if path[0] not in CHANGEABLE:
        what = f"{where}: {dotted(path)}: is nothing that a factor can change"
        raise UserError(what, did_you_mean(path[0], CHANGEABLE))


def combinations(
    table: ExperimentTable, factors: Mapping[str, tuple[Level, ...]], known: Mapping[str, set[str]]
) -> Iterator[tuple[Level, ...]]:
    """All combinations of levels but the excluded; ``known`` has other profiles' levels too."""
    excluded = [_excluded(number, one, known) for number, one in enumerate(table.exclude)]
    for combination in itertools.product(*factors.values()):
        names: dict[str, str] = {level.factor: level.name for level in combination}
        if not any(all(names[f] in levels for f, levels in one.items()) for one in excluded):
            yield combination


def _excluded(
    number: int, one: Mapping[str, str | list[str]], known: Mapping[str, set[str]]
) -> dict[str, set[str]]:
    where = f"exclude[{number}]"
    if not one:
        raise UserError(f"{where}: has none", "name factors and their levels")
    found = {}
    for factor, named in one.items():
        if factor not in known:
            what = f"{where}.{factor}: the experiment has no such factor"
            raise UserError(what, did_you_mean(factor, known))
        levels = {named} if isinstance(named, str) else set(named)
        for level in sorted(levels - known[factor]):
            what = f"{where}.{factor}: {shown(level)}: the factor has no such level"
            raise UserError(what, did_you_mean(level, known[factor]))
        found[factor] = levels
    return found


def levels_text(levels: Levels) -> str:
    """A treatment's levels, as people say them."""
    return ", ".join(f"{factor} {level}" for factor, level in levels)
