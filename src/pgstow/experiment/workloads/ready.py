"""The workloads that are ready by name: pgbench's own, the studies', and scripts from files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from pgstow.experiment.workloads import content_platform, options, pgbench_data
from pgstow.experiment.workloads.content_platform import mix
from pgstow.experiment.workloads.scripts import Script, WorkloadSpec
from pgstow.model.errors import UserError
from pgstow.model.experiment import DataChoice, WorkloadChoice

CONTENT_PLATFORM = "content-platform"
_FROM_FILES = "script:"
_PACKAGED = Path(str(files("pgstow").joinpath("data/workloads")))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WEIGHTED = re.compile(r"(.+?)(?:@(\d+))?")


@dataclass(frozen=True, slots=True)
class _Ready:
    """A workload's parts: scripts with their weights, and the variables they use by default."""

    parts: tuple[tuple[str, int], ...]
    variables: Mapping[str, int] = field(default_factory=dict)


_BUILT_IN = ("tpcb-like", "simple-update", "select-only")
_FILES = {
    "batch-read": "batch_read.sql",
    "full-scan": "full_scan.sql",
    "update-indexed": "update_indexed.sql",
    "small-commit": "small_commit.sql",
    "batch-insert": "batch_insert.sql",
}
_READY = {
    **{name: _Ready(((name, 1),)) for name in (*_BUILT_IN, *_FILES)},
    "key-read": _Ready((("select-only", 1),)),
    "batch-read": _Ready((("batch-read", 1),), {"rows": 10_000}),
    "batch-insert": _Ready((("batch-insert", 1),), {"rows": 100}),
    # 950 clients of pgbench -S -N: what two options of the same pgbench run in equal parts.
    "select-update": _Ready((("select-only", 1), ("simple-update", 1))),
    # Three reads to one commit: about what a TPC-B transaction asks of its devices.
    "mixed-commit": _Ready((("select-only", 3), ("small-commit", 1))),
}
_PLATFORM_SCRIPTS = {part.script.replace("_", "-"): part.script for part in mix.PARTS}
NAMES = (*_READY, CONTENT_PLATFORM, *_PLATFORM_SCRIPTS)


def spec_of(
    choice: WorkloadChoice, data: DataChoice, scripts_directory: Path | None
) -> WorkloadSpec:
    """The scripts of a workload; UserError where it is not known or does not fit its data.

    A name is one of NAMES; or several, ``key-read@9,small-commit``, with weights; or scripts from
    files, ``script:read.sql@9,write.sql``, relative to ``scripts_directory``.
    """
    if choice.name.startswith(_FROM_FILES):
        scripts, variables = _from_files(choice, data, scripts_directory or Path())
    elif choice.name == CONTENT_PLATFORM:
        scripts, variables = _platform(choice, data, tuple(_platform_scripts(data).values()))
    else:
        scripts, variables = _from_names(choice, data)
    return WorkloadSpec(
        name=choice.name,
        scripts=scripts,
        variables=variables,
        clients=choice.clients,
        threads=choice.threads,
        rate_per_s=choice.rate_per_s,
        latency_limit_ms=choice.latency_limit_ms,
        transactions=choice.transactions,
    )


_Parts = tuple[tuple[Script, ...], tuple[tuple[str, int], ...]]


def _from_files(choice: WorkloadChoice, data: DataChoice, directory: Path) -> _Parts:
    for name, _ in choice.variables:
        if _VARIABLE.fullmatch(name) is None:
            raise UserError(f"{name!r} cannot be a variable of a script", "use letters and _")
    scripts = []
    for name, weight in _weighted(choice.name.removeprefix(_FROM_FILES)):
        path = (directory / Path(name).expanduser()).absolute()
        if not path.is_file():
            raise UserError(f"there is no script {path}", "name a file with a pgbench script")
        scripts.append(Script(name.removesuffix(".sql"), path, weight))
    given = dict(choice.variables)
    return tuple(scripts), tuple(({"scale": data.scale} | given).items())


def _from_names(choice: WorkloadChoice, data: DataChoice) -> _Parts:
    weights = _weighted(choice.name)
    for name, _ in weights:
        if name not in _READY and name not in _PLATFORM_SCRIPTS:
            raise UserError(f"there is no workload {name}", f"use {', '.join(NAMES)}")
    if all(name in _PLATFORM_SCRIPTS for name, _ in weights):
        known = _platform_scripts(data)
        chosen = [(known[_PLATFORM_SCRIPTS[name]], weight) for name, weight in weights]
        scripts = tuple(Script(script.name, script.path, weight) for script, weight in chosen)
        return _platform(choice, data, scripts)
    _require(choice, data, pgbench_data.MAKER)
    scripts_by_name: dict[str, int] = {}
    variables: dict[str, int] = {}
    for name, weight in weights:
        ready = _READY.get(name)
        if ready is None:
            raise UserError(f"workload {name} needs other data than the rest of {choice.name}")
        variables |= ready.variables
        for script, share in ready.parts:
            scripts_by_name[script] = scripts_by_name.get(script, 0) + share * weight
    scripts = tuple(
        Script(name, _PACKAGED / _FILES[name] if name in _FILES else None, weight)
        for name, weight in scripts_by_name.items()
    )
    given = dict(choice.variables)
    options.refuse_unknown(f"workload {choice.name}", tuple(given), tuple(variables), "variable")
    variables |= given
    most = data.scale * pgbench_data.ROWS_PER_SCALE
    if not 1 <= variables.get("rows", 1) <= most:
        raise UserError(
            f"workload {choice.name}: rows is {variables['rows']}", f"use 1 to {most} rows"
        )
    return scripts, tuple(({"scale": data.scale} | variables).items())


def _platform(choice: WorkloadChoice, data: DataChoice, scripts: tuple[Script, ...]) -> _Parts:
    _require(choice, data, CONTENT_PLATFORM)
    names = [name for name, _ in choice.variables]
    options.refuse_unknown(f"workload {choice.name}", names, (), "variable")
    return scripts, mix.variables(content_platform.extent(data.scale))


def _platform_scripts(data: DataChoice) -> dict[str, Script]:
    spec = mix.workload(content_platform.extent(data.scale))
    return {script.name: script for script in spec.scripts}


def _require(choice: WorkloadChoice, data: DataChoice, maker: str) -> None:
    if data.maker != maker:
        raise UserError(
            f"workload {choice.name} needs data of {maker}, not {data.maker}",
            "give it that data, or another workload",
        )


def _weighted(text: str) -> list[tuple[str, int]]:
    """Names with weights.

    >>> _weighted("key-read@9, small-commit")
    [('key-read', 9), ('small-commit', 1)]
    """
    parts = []
    for part in text.split(","):
        match = _WEIGHTED.fullmatch(part.strip())
        if match is None:
            raise UserError(f"workload {text!r} has an empty part", "write NAME@WEIGHT,NAME@WEIGHT")
        parts.append((match[1], int(match[2] or 1)))
    return parts
