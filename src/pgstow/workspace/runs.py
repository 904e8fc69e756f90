"""Runs of experiments and their trials, each trial on disk when it has ended.

A run is one experiment on one target, however often it was interrupted and resumed. More
blocks may be added to it; anything else that differs makes another run.
"""

import hashlib
import json
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from pgstow.model import Experiment, Levels, Trial, WorkspaceError
from pgstow.typed import adapter

SCHEMA = """
CREATE TABLE IF NOT EXISTS experiment_run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    profile TEXT NOT NULL,
    digest TEXT NOT NULL,            -- of all that a trial depends on
    experiment TEXT NOT NULL,        -- as JSON
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS trial (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES experiment_run (id),
    block INTEGER NOT NULL,
    levels TEXT NOT NULL,            -- [[factor, level], ...]
    tps REAL NOT NULL,
    trial TEXT NOT NULL,             -- as JSON
    created_at TEXT NOT NULL,
    UNIQUE (run, block, levels)
);
"""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run without its contents."""

    id: int
    name: str
    profile: str
    created_at: str
    trials: int
    planned: int

    @property
    def is_complete(self) -> bool:
        """Whether every trial of the design is there."""
        return self.trials >= self.planned


class Runs:
    """The experiments' runs in an open workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self, experiment: Experiment) -> int:
        """Open a run. Its number."""
        values = (experiment.name, experiment.profile, digest(experiment), _dump(experiment))
        cursor = self._connection.execute(
            "INSERT INTO experiment_run (name, profile, digest, experiment, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (*values, _now()),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def latest(self, experiment: Experiment) -> int | None:
        """The newest run of the same experiment, were it of more or fewer blocks."""
        row = self._connection.execute(
            "SELECT id FROM experiment_run WHERE digest = ? ORDER BY id DESC LIMIT 1",
            (digest(experiment),),
        ).fetchone()
        return None if row is None else int(row[0])

    def widen(self, run: int, blocks: int) -> Experiment:
        """Give a run more blocks, if it has fewer. The experiment as it is then."""
        experiment = self.experiment(run)
        if blocks > experiment.blocks:
            experiment = replace(experiment, blocks=blocks)
            self._connection.execute(
                "UPDATE experiment_run SET experiment = ? WHERE id = ?", (_dump(experiment), run)
            )
        return experiment

    def add(self, run: int, trial: Trial) -> None:
        """Keep a trial that has ended; the same one again takes its place."""
        self._connection.execute(
            "INSERT OR REPLACE INTO trial (run, block, levels, tps, trial, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                run,
                trial.block,
                json.dumps(trial.levels),
                trial.outcome.tps,
                json.dumps(adapter(Trial).dump_python(trial, mode="json")),
                _now(),
            ),
        )

    def experiment(self, run: int) -> Experiment:
        """The experiment that a run is of."""
        row = self._connection.execute(
            "SELECT experiment FROM experiment_run WHERE id = ?", (run,)
        ).fetchone()
        if row is None:
            raise WorkspaceError(f"the workspace has no run {run}", "see pgstow bench list")
        return _read(Experiment, row[0], f"run {run}")

    def trials(self, run: int) -> tuple[Trial, ...]:
        """A run's trials, in the order in which they began."""
        rows = self._connection.execute("SELECT trial FROM trial WHERE run = ? ORDER BY id", (run,))
        trials = [_read(Trial, row[0], f"a trial of run {run}") for row in rows]
        return tuple(sorted(trials, key=lambda trial: trial.began_at))

    def done(self, run: int) -> frozenset[tuple[int, Levels]]:
        """Which trials are there: their blocks and levels."""
        rows = self._connection.execute("SELECT block, levels FROM trial WHERE run = ?", (run,))
        return frozenset((block, _levels(text)) for block, text in rows)

    def list(self, name: str | None = None) -> tuple[RunEntry, ...]:
        """What runs there are, oldest first; of one experiment, if named."""
        rows = self._connection.execute(
            "SELECT id, name, profile, created_at, experiment,"
            " (SELECT count(*) FROM trial WHERE run = experiment_run.id)"
            " FROM experiment_run WHERE ?1 IS NULL OR name = ?1 ORDER BY id",
            (name,),
        ).fetchall()
        return tuple(
            RunEntry(id, name, profile, created_at, trials, _planned(text))
            for id, name, profile, created_at, text, trials in rows
        )


def digest(experiment: Experiment) -> str:
    """What two runs must have in common to be one: all but how many blocks there are."""
    plain = adapter(Experiment).dump_python(replace(experiment, blocks=1), mode="json")
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _dump(experiment: Experiment) -> str:
    return json.dumps(adapter(Experiment).dump_python(experiment, mode="json"))


def _read(kind: type[_T], text: str, what: str) -> _T:
    try:
        return adapter(kind).validate_json(text)
    except ValidationError as error:
        raise WorkspaceError(
            f"{what} cannot be read: {error.errors()[0]['msg']}",
            "run it again, or use the version of pgstow that wrote it",
        ) from error


def _planned(text: str) -> int:
    plain: dict[str, Any] = json.loads(text)
    return int(plain["blocks"]) * len(plain["treatments"])


def _levels(text: str) -> Levels:
    return tuple((factor, level) for factor, level in json.loads(text))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
