"""Exported trials: they can be read back, and hostile text in them is only text."""

import csv
import functools
import io
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import experiment_page_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pgstow.model import DeviceUse, Experiment, Instruments, Trial
from pgstow.report import trial_columns
from pgstow.report.exports import trials_csv, trials_json, trials_sql

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "experiment-export.md"
TABLES = ("trial", "level", "device", "second", "wait")
UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def loaded(script: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def test_csv_has_a_line_a_trial_with_its_figures() -> None:
    made = samples.wal_split(2)
    rows = read(trials_csv(made.experiment, reversed(made.trials)))
    assert [(row["block"], row["position"]) for row in rows] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")
    ]  # fmt: skip
    first, trial = rows[0], made.trials[0]
    assert first["factor_wal"] == trial.levels[0][1]
    assert float(first["tps"]) == trial.outcome.tps
    assert first["wal_write_ms"] == "" and float(first["cpu_client_cores"]) == 0.3
    assert float(first["volume_wal_flushes_per_s"]) == pytest.approx(trial.outcome.tps * 0.3)
    assert first["volume_wal_read_await_ms"] == "" and first["postgres"] == "18.4"


def test_a_volume_s_devices_are_counted_together() -> None:
    made = samples.wal_split(1)
    members = tuple(
        DeviceUse(f"loop{n}", "data", 10.0 * n, 0.0, 1.0, 0.0, float(n), None, None, 0.5)
        for n in (1, 3)
    )
    trial = replace(made.trials[0], instruments=Instruments(devices=members))
    (row,) = read(trials_csv(made.experiment, [trial]))
    assert float(row["volume_data_reads_per_s"]) == 40.0
    assert float(row["volume_data_read_await_ms"]) == pytest.approx((10 * 1 + 30 * 3) / 40)
    assert row["volume_data_flushes_per_s"] == "" and row["volume_data_write_await_ms"] == ""


def test_no_cell_is_a_formula() -> None:
    made = samples.hostile()
    rows = read(trials_csv(made.experiment, made.trials))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "\t", "\r"))]
    levels = {row["factor_script_alert_1_script"] for row in rows}
    assert levels == {f"'{one}" if one.startswith("=") else one for one in samples.HOSTILE}


def test_numbers_among_levels_stay_numbers() -> None:
    experiment = samples.design("n", "n", {"delay": ("-1", "+2", "-x")}, "delay", 1)
    made = samples.section(experiment, lambda levels: 100.0)
    found = {row["factor_delay"] for row in read(trials_csv(made.experiment, made.trials))}
    assert found == {"-1", "+2", "'-x"}


def test_json_is_what_was_measured() -> None:
    made = samples.hostile()
    found = json.loads(trials_json(made.experiment, made.trials))
    assert (found["format"], found["version"]) == ("pgstow-experiment", 1)
    assert TypeAdapter(Experiment).validate_python(found["experiment"]) == made.experiment
    trials = TypeAdapter(tuple[Trial, ...]).validate_python(found["trials"])
    assert set(trials) == set(made.trials)


def test_what_is_no_number_is_not_known_anywhere() -> None:
    made = samples.wal_split(1)
    outcome = replace(made.trials[0].outcome, max_ms=float("nan"), p99_ms=float("inf"))
    trials = [replace(made.trials[0], outcome=outcome)]
    (row,) = read(trials_csv(made.experiment, trials))
    assert row["latency_max_ms"] == row["latency_p99_ms"] == ""
    assert (
        json.loads(trials_json(made.experiment, trials))["trials"][0]["outcome"]["max_ms"] is None
    )
    database = loaded(trials_sql(made.experiment, trials))
    found = database.execute("SELECT latency_max_ms, latency_p99_ms FROM wal_split_trial")
    assert found.fetchall() == [(None, None)]


@pytest.mark.parametrize(
    "made", [samples.wal_split(2), samples.hostile(1)], ids=["plain", "hostile"]
)
def test_sql_loads_into_sqlite(made: samples.ExperimentSection) -> None:
    database = loaded(trials_sql(made.experiment, made.trials, prefix="x"))
    counts = [database.execute(f"SELECT count(*) FROM x_{table}").fetchone()[0] for table in TABLES]
    trials = made.trials
    waits = [one.instruments.waits for one in trials if one.instruments.waits]
    assert counts == [
        len(trials),
        len(trials) * len(made.experiment.factors),
        2 * len(trials),
        sum(len(one.outcome.tps_samples) for one in trials),
        sum(len(values) for one in waits for _, values in one.sessions),
    ]
    found = database.execute("SELECT trial, factor, level FROM x_level ORDER BY rowid").fetchall()
    assert [row[1:] for row in found if row[0] == 1] == list(trials[0].levels)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def test_two_experiments_load_into_one_database() -> None:
    one, other = samples.wal_split(1), samples.filesystem(1)
    database = loaded(trials_sql(one.experiment, one.trials))
    database.executescript(trials_sql(other.experiment, other.trials))
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {name for (name,) in names} == {
        f"{base}_{table}" for base in ("wal_split", "filesystem") for table in TABLES
    }


def test_a_run_without_trials_is_empty_tables() -> None:
    experiment = samples.wal_split(1).experiment
    database = loaded(trials_sql(experiment, []))
    assert database.execute("SELECT count(*) FROM wal_split_trial").fetchone() == (0,)
    assert read(trials_csv(experiment, [])) == []


@functools.cache
def one_trial() -> Trial:
    return samples.wal_split(1).trials[0]


@settings(max_examples=40)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4, unique=True))
def test_any_level_can_be_exported(levels: list[str]) -> None:
    experiment = samples.design("any", "any", {"level": tuple(levels)}, "level", 1)
    trials = [
        replace(one_trial(), levels=one.levels, position=place)
        for place, one in enumerate(experiment.treatments)
    ]
    written = [one.translate(UNSTORABLE) for one in levels]
    database = loaded(trials_sql(experiment, trials))
    found = database.execute("SELECT level FROM any_level ORDER BY trial").fetchall()
    assert [level for (level,) in found] == written
    rows = list(csv.reader(io.StringIO(trials_csv(experiment, trials), newline="")))
    cells = [row[rows[0].index("factor_level")] for row in rows[1:]]
    for cell, text in zip(cells, written, strict=True):
        assert cell in (text, f"'{text}")
    json.loads(trials_json(experiment, trials).encode("utf-8"))


def test_every_column_is_documented() -> None:
    made = samples.wal_split(1)
    text = REFERENCE.read_text(encoding="utf-8")
    names = [column.name for column in trial_columns.columns(made.experiment, made.trials)]
    documented = {"factor_wal": "factor_NAME"}
    for name in names:
        wanted = documented.get(name, name).replace("volume_wal_", "volume_NAME_")
        assert f"`{wanted.replace('volume_data_', 'volume_NAME_')}`" in text, name
