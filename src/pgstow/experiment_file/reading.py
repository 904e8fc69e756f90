"""Read an experiment file: take the profile, apply every combination of levels, check."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pgstow.catalog import load as load_catalog
from pgstow.experiment_file import dotted as keys
from pgstow.experiment_file.levels import Level, combinations, levels_of, levels_text
from pgstow.experiment_file.tables import ExperimentTable, TreatmentTable
from pgstow.model import Experiment, Levels, Treatment, UserError
from pgstow.toml_file import (
    did_you_mean,
    dotted,
    explain,
    first_mistake,
    parse_tables,
    read_text,
    shown,
)

_DOCUMENT = "docs/reference/experiment.md"
_DIRECTORY = Path(str(files("pgstow"))) / "data" / "experiments"
# libpq takes a password as a parameter, of a URI too, and before the @ of a URI
_PASSWORD = re.compile(
    r"(?:^|[\s?&])(?:ssl)?password\s*=|^postgres(?:ql)?://[^@/?]*:[^@/]*@", re.IGNORECASE
)

Tables = dict[str, Any]
Changes = Sequence[tuple[keys.Path, Any]]
_Table = TypeVar("_Table", ExperimentTable, TreatmentTable)


def experiment_names() -> tuple[str, ...]:
    """The experiments that pgstow comes with: the published studies'."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.toml")))


def read_experiment(path_or_name: str | Path, profile: str = "quick") -> Experiment:
    """Read an experiment file, or the one of that name that pgstow comes with."""
    path = find_experiment(path_or_name)
    text = read_text(path, "experiment file")
    return parse_experiment(text, str(path), profile=profile, directory=path.parent)


def find_experiment(path_or_name: str | Path) -> Path:
    """The file that is meant. Scripts that it names are beside it."""
    path = Path(path_or_name)
    name = str(path_or_name)
    if path.suffix == ".toml" or "/" in name or path.is_file():
        return path
    if name in experiment_names():
        return _DIRECTORY / f"{name}.toml"
    remedy = f"{did_you_mean(name, experiment_names())}, or give the path of a file"
    raise UserError(f"there is no experiment {name!r}", remedy)


def parse_experiment(
    text: str, source: str, *, profile: str = "quick", directory: Path = Path()
) -> Experiment:
    """Read an experiment from the text of a file; ``source`` names it in errors.

    Layouts given as files are looked for in ``directory``. A file without profiles is taken as it
    is written.
    """
    tables = parse_tables(text, source)
    try:
        return _Reading(tables, profile, directory).experiment()
    except UserError as error:
        raise UserError(f"{source}: {error.message}", error.remedy) from None


def select(experiment: Experiment, only: Mapping[str, Sequence[str]]) -> Experiment:
    """The experiment with these levels of these factors alone, its baseline among them."""
    for factor, requested in only.items():
        if factor not in experiment.factors:
            what = f"experiment {experiment.name} has no factor {factor}"
            raise UserError(what, did_you_mean(factor, experiment.factors))
        known = experiment.levels_of(factor)
        for level in requested:
            if level not in known:
                what = f"factor {factor} of experiment {experiment.name} has no level {level}"
                raise UserError(what, did_you_mean(level, known))
    if experiment.baseline not in only.get(experiment.compare, (experiment.baseline,)):
        what = f"level {experiment.baseline} of {experiment.compare} is the baseline"
        raise UserError(what, "select it too: the others are compared with it")
    treatments = tuple(
        treatment
        for treatment in experiment.treatments
        if all(treatment.level(factor) in requested for factor, requested in only.items())
    )
    if not treatments:
        what = f"experiment {experiment.name} has no treatment of these levels together"
        raise UserError(what, "its file excludes them; choose others")
    return replace(experiment, treatments=treatments)


class _Reading:
    """One reading of a file's tables; errors do not name the file yet."""

    def __init__(self, tables: Tables, profile: str, directory: Path) -> None:
        _refuse_passwords(tables)
        self.directory = directory
        self.written = tables
        self.origins: dict[keys.Path, str] = {}  # of keys that a profile or a level set
        base = {name: value for name, value in tables.items() if name != "profiles"}
        base = self._with_layout(base, "")
        self.profile, base = self._with_profile(base, profile)
        self.table = _validated(ExperimentTable, base, self.origins)
        self.base: Tables = {
            name: base[name] for name in TreatmentTable.model_fields if name in base
        }
        self.factors = {
            name: levels_of(name, factor) for name, factor in self.table.factors.items()
        }

    def experiment(self) -> Experiment:
        """The model's value."""
        compare = self.table.compared()
        if compare not in self.factors:
            remedy = did_you_mean(compare, self.factors)
            raise UserError(f"compare: {shown(compare)}: there is no such factor", remedy)
        known = [level.name for level in self.factors[compare]]
        baseline = self.table.baseline or known[0]
        if baseline not in known:
            what = f"baseline: {shown(baseline)}: factor {compare} has no such level"
            raise UserError(what, did_you_mean(baseline, known))
        treatments = tuple(
            self._treatment(combination)
            for combination in combinations(self.table, self.factors, self._known_levels())
        )
        self._refuse_alike(treatments)
        return Experiment(
            name=self.table.name,
            title=self.table.title or self.table.name,
            target=self.table.target,
            treatments=treatments,
            compare=compare,
            baseline=baseline,
            blocks=self.table.blocks,
            seed=self.table.seed,
            study=self.table.study,
            profile=self.profile,
            side_by_side=self.table.side_by_side,
        )

    def _with_layout(self, tables: Tables, location: str) -> Tables:
        """The tables with the layout's own, where it is given as a file."""
        name = tables.get("layout")
        if not isinstance(name, str):
            return tables
        path = self.directory / name
        where = f"{location}: layout" if location else "layout"
        try:
            found = parse_tables(read_text(path, "layout file"), str(path))
        except UserError as error:
            raise UserError(f"{where}: {error.message}", error.remedy) from None
        return tables | {"layout": found}

    def _with_profile(self, base: Tables, requested: str) -> tuple[str, Tables]:
        profiles = self.written.get("profiles", {})
        if not isinstance(profiles, Mapping):
            raise UserError(f"profiles: must be a table, not {shown(profiles)}", "[profiles.NAME]")
        if not profiles:
            return "", base
        if requested not in profiles:
            raise UserError(f"there is no profile {requested!r}", did_you_mean(requested, profiles))
        location = f"profiles.{requested}"
        if not isinstance(profiles[requested], Mapping):
            what = f"{location}: must be a table, not {shown(profiles[requested])}"
            raise UserError(what, f"write it as [{location}]")
        try:
            found = list(keys.changes(profiles[requested]))
        except ValueError as error:
            rule, _, remedy = str(error).partition("; ")
            raise UserError(f"{location}: {rule}", remedy) from None
        return requested, self._with_changes(base, found, location)

    def _with_changes(self, tables: Tables, changes: Changes, location: str) -> Tables:
        made = {path[2] for path, _ in changes if path[:2] == _VOLUMES and path[3:] == _TYPE}
        for path, value in changes:
            volumes = keys.value_at(tables, _VOLUMES) or {}
            if path[:2] == _VOLUMES and len(path) > 3 and path[2] not in {*volumes, *made}:
                what = f"{location}: {dotted(path)}: the layout has no volume {path[2]}"
                raise UserError(what, did_you_mean(path[2], volumes))
            tables = self._changed(tables, path, value, location)
        return tables

    def _changed(self, tables: Tables, path: keys.Path, value: Any, location: str) -> Tables:
        """The tables with one key set, as ``location`` of the file says."""
        self.origins[path] = location
        if path[0] == "factors" and path[2:] == ("levels",):
            value = _picked(path, keys.value_at(tables, path), value, location)
        changed = keys.changed(tables, path, value)
        return self._with_layout(changed, location) if path == ("layout",) else changed

    def _known_levels(self) -> dict[str, set[str]]:
        """Every factor's levels, of the file as written too: a profile may have left some out."""
        known = {name: {level.name for level in found} for name, found in self.factors.items()}
        written = self.written.get("factors", {})
        for name in known:
            levels = keys.value_at(written, (name, "levels"))
            if isinstance(levels, Mapping):
                known[name] |= set(levels)
            elif isinstance(levels, list):
                factor = self.table.factors[name].model_copy(update={"levels": levels})
                known[name] |= {level.name for level in levels_of(name, factor)}
        return known

    def _treatment(self, combination: tuple[Level, ...]) -> Treatment:
        tables, profile_origins = self.base, dict(self.origins)
        try:
            for level in combination:
                tables = self._with_changes(tables, level.changes, level.location)
            levels = tuple((level.factor, level.name) for level in combination)
            table = _validated(TreatmentTable, _with_mounts(tables), self.origins)
        finally:
            self.origins = profile_origins
        try:
            treatment = table.treatment(levels)
            self._check(treatment)
        except UserError as error:
            raise UserError(f"{levels_text(levels)}: {error.message}", error.remedy) from None
        return treatment

    def _check(self, treatment: Treatment) -> None:
        """What the target needs, and that the volumes can be bought."""
        target = self.table.target
        if target == "server":
            if treatment.dsn is None:
                remedy = 'name the server, like dsn = "service=mine"'
                raise UserError("server.dsn: is missing", remedy)
        elif treatment.dsn is not None:
            what = f"server.dsn: is for a server that is there already, and target is {target}"
            raise UserError(what, 'write target = "server", or drop dsn')
        elif treatment.layout is None:
            raise UserError("layout: is missing", "write [layout.volumes.NAME] and the rest of it")
        if treatment.layout is not None:
            load_catalog().check(treatment.layout)

    def _refuse_alike(self, treatments: tuple[Treatment, ...]) -> None:
        seen: dict[Treatment, Levels] = {}
        for treatment in treatments:
            other = seen.setdefault(replace(treatment, levels=()), treatment.levels)
            differing = [
                (factor, before, level)
                for (factor, before), (_, level) in zip(other, treatment.levels, strict=True)
                if before != level and not self.table.factors[factor].identical
            ]
            if differing:
                factor, before, level = differing[0]
                what = f"factors.{factor}: levels {before} and {level} come to the same"
                remedy = "let one change something; identical = true asks for an A/A experiment"
                raise UserError(what, remedy)


_VOLUMES = ("layout", "volumes")
_TYPE = ("type",)


def _validated(model: type[_Table], tables: Tables, origins: Mapping[keys.Path, str]) -> _Table:
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        mistake, more = first_mistake(error)
        message, remedy = explain(mistake, model, _DOCUMENT)
        location = tuple(str(part) for part in mistake["loc"] if not isinstance(part, int))
        set_by = [where for path, where in origins.items() if location[: len(path)] == path]
        prefix = f"{set_by[-1]}: " if set_by else ""
        raise UserError(prefix + message, remedy + more) from None


def _picked(path: keys.Path, written: Any, requested: Any, location: str) -> Any:
    """Levels by name, where a profile lists those to keep of a table."""
    if not isinstance(written, Mapping) or not isinstance(requested, list):
        return requested
    for name in requested:
        if name not in written:
            what = f"{location}: {dotted(path)}: {shown(name)}: there is no such level"
            raise UserError(what, did_you_mean(str(name), written))
    return {name: written[name] for name in requested}


def _with_mounts(tables: Tables) -> Tables:
    """Volumes without a mount get a name for it: it is made by whoever runs the experiment."""
    volumes = keys.value_at(tables, _VOLUMES)
    for name in volumes if isinstance(volumes, Mapping) else ():
        if isinstance(volumes[name], Mapping) and "mount" not in volumes[name]:
            tables = keys.changed(tables, (*_VOLUMES, name, "mount"), f"/mnt/{name}")
    return tables


def _refuse_passwords(tables: Tables) -> None:
    for path, text in _texts(tables, ()):
        if _PASSWORD.search(text):
            what = f"{dotted(path)}: holds a password, and files are read by many"
            remedy = "use a password file, a service file or PGPASSWORD in the environment"
            raise UserError(what, remedy)


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, below in value.items():
            yield from _texts(below, (*path, name))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _texts(below, (*path, number))
