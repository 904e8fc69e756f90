"""Runs in the workspace: taken up where they stopped, widened, never mixed with others."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_samples import experiment, trial

from pgstow.model import WorkspaceError
from pgstow.workspace import Workspace
from pgstow.workspace.store import FORMAT


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(tmp_path / "pgstow.db") as workspace:
        yield workspace


def test_a_trial_comes_back_equal(store: Workspace) -> None:
    run = store.runs.begin(experiment())
    one, other = trial(0, 1, 200.0, wal="apart"), trial(0, 0, 100.0, wal="shared")
    store.runs.add(run, one)
    store.runs.add(run, other)
    assert store.runs.trials(run) == (other, one)
    assert store.runs.done(run) == {(0, (("wal", "apart"),)), (0, (("wal", "shared"),))}
    assert store.runs.experiment(run) == experiment()


def test_a_trial_run_again_takes_the_place_of_the_first(store: Workspace) -> None:
    run = store.runs.begin(experiment())
    store.runs.add(run, trial(0, 1, 200.0, wal="apart"))
    store.runs.add(run, trial(0, 1, 300.0, wal="apart"))
    assert [one.outcome.tps for one in store.runs.trials(run)] == [300.0]


def test_a_run_is_found_again_whatever_its_number_of_blocks(store: Workspace) -> None:
    run = store.runs.begin(experiment(blocks=3))
    assert store.runs.latest(experiment(blocks=5)) == run
    assert store.runs.widen(run, 5).blocks == 5
    assert store.runs.widen(run, 4).blocks == 5
    assert store.runs.experiment(run).blocks == 5


@pytest.mark.parametrize("change", [{"seed": 8}, {"profile": "full"}, {"name": "other"}])
def test_another_experiment_is_another_run(store: Workspace, change: dict[str, object]) -> None:
    store.runs.begin(experiment())
    assert store.runs.latest(replace(experiment(), **change)) is None


def test_the_list_says_what_is_still_to_come(store: Workspace) -> None:
    run = store.runs.begin(experiment(blocks=1))
    store.runs.add(run, trial(0, 0, 100.0, wal="shared"))
    (entry,) = store.runs.list()
    assert (entry.trials, entry.planned, entry.is_complete) == (1, 2, False)
    store.runs.add(run, trial(0, 1, 100.0, wal="apart"))
    assert store.runs.list("wal-split")[0].is_complete
    assert store.runs.list("striping") == ()


def test_a_run_that_is_not_there(store: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="no run 9; see pgstow bench list"):
        store.runs.experiment(9)


def test_a_workspace_of_the_first_format_gets_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with Workspace.open(path) as workspace:
        workspace.connection.execute("DROP TABLE trial")
        workspace.connection.execute("DROP TABLE experiment_run")
        workspace.connection.execute("PRAGMA user_version = 1")
    with Workspace.open(path) as workspace:
        workspace.runs.begin(experiment())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
