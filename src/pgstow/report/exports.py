"""An experiment's trials for other programs: CSV, JSON and SQL. Pure: values in, text out.

Text from outside is data in all of them: quoted, and in CSV never a formula of a spreadsheet.
"""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pgstow.model import Experiment, Trial
from pgstow.report.trial_columns import Column, SqlType, Value, columns, identifiers

JSON_FORMAT = "pgstow-experiment"
JSON_VERSION = 1
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# What PostgreSQL cannot store, nor UTF-8 write: NUL, and halves of surrogate pairs.
_UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")
_ROWS_AN_INSERT = 500


def trials_csv(experiment: Experiment, trials: Iterable[Trial]) -> str:
    """One line a trial, under a line of names (RFC 4180); an empty cell is not known.

    Text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    ordered = _ordered(trials)
    shown = columns(experiment, ordered)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([column.name for column in shown])
    for trial in ordered:
        writer.writerow([_cell(column.read(trial)) for column in shown])
    return out.getvalue()


def trials_json(experiment: Experiment, trials: Iterable[Trial]) -> str:
    """The experiment and all that its trials have, as the model has it."""
    document = {
        "format": JSON_FORMAT,
        "version": JSON_VERSION,
        "experiment": _plain(dataclasses.asdict(experiment)),
        "trials": [_plain(dataclasses.asdict(trial)) for trial in _ordered(trials)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def trials_sql(experiment: Experiment, trials: Iterable[Trial], *, prefix: str = "") -> str:
    """Tables and rows in standard SQL, for PostgreSQL and SQLite, in one transaction.

    The tables are named after the experiment, or begin with ``prefix``: ``wal_split_trial``,
    with ``_level``, ``_device``, ``_second`` and ``_wait`` beside it.
    """
    ordered = _ordered(trials)
    (base,) = identifiers("", [prefix or experiment.name]).values()
    parts = ["BEGIN;"]
    for table in _tables(base, experiment, ordered):
        parts += table.statements()
    return "\n".join([*parts, "COMMIT;", ""])


@dataclasses.dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[tuple[str, str], ...]  # names and what follows them
    rows: Sequence[Sequence[Value]]

    def statements(self) -> Iterator[str]:
        lines = ",\n  ".join(f"{_identifier(name)} {rest}" for name, rest in self.columns)
        yield f"CREATE TABLE {_identifier(self.name)} (\n  {lines}\n);"
        names = ", ".join(_identifier(name) for name, _ in self.columns)
        for start in range(0, len(self.rows), _ROWS_AN_INSERT):
            some = self.rows[start : start + _ROWS_AN_INSERT]
            values = ",\n  ".join(f"({', '.join(map(_literal, row))})" for row in some)
            yield f"INSERT INTO {_identifier(self.name)} ({names}) VALUES\n  {values};"


def _tables(base: str, experiment: Experiment, trials: Sequence[Trial]) -> Iterator[_Table]:
    numbered = list(enumerate(trials, start=1))
    parent = f"{base}_trial"
    shown = columns(experiment, trials)
    yield _Table(
        parent,
        (
            ("id", "integer PRIMARY KEY"),
            ("experiment", "text NOT NULL"),
            ("profile", "text NOT NULL"),
            *((one.name, one.type) for one in shown),
        ),
        [
            (number, experiment.name, experiment.profile, *_row(shown, trial))
            for number, trial in numbered
        ],
    )
    yield _child(
        f"{base}_level",
        parent,
        (("factor", "text"), ("level", "text")),
        [(number, *pair) for number, trial in numbered for pair in trial.levels],
    )
    yield _child(
        f"{base}_device",
        parent,
        (("device", "text"), ("volume", "text"), *((name, "double precision") for name in _DEVICE)),
        [
            (number, one.device, one.volume, *(getattr(one, name) for name in _DEVICE))
            for number, trial in numbered
            for one in trial.instruments.devices or ()
        ],
    )
    yield _child(
        f"{base}_second",
        parent,
        (("second", "integer"), ("tps", "double precision")),
        [
            (number, second, tps)
            for number, trial in numbered
            for second, tps in enumerate(trial.outcome.tps_samples)
        ],
    )
    yield _child(
        f"{base}_wait",
        parent,
        (("event", "text"), ("second", "double precision"), ("sessions", "double precision")),
        [
            (number, event, index * waits.slice_s, value)
            for number, trial in numbered
            for waits in (trial.instruments.waits,)
            if waits is not None
            for event, values in waits.sessions
            for index, value in enumerate(values)
        ],
    )


_DEVICE = (
    "reads_per_s",
    "writes_per_s",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "read_await_ms",
    "write_await_ms",
    "flushes_per_s",
    "queue",
)


def _child(
    name: str,
    parent: str,
    shown: Sequence[tuple[str, SqlType]],
    rows: Sequence[Sequence[Value]],
) -> _Table:
    reference = f"integer NOT NULL REFERENCES {_identifier(parent)} (id)"
    return _Table(name, (("trial", reference), *shown), rows)


def _row(shown: Sequence[Column], trial: Trial) -> list[Value]:
    return [column.read(trial) for column in shown]


def _ordered(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    return tuple(sorted(trials, key=lambda trial: (trial.block, trial.position, trial.began_at)))


def _cell(value: Value) -> str | int | float:
    """A value as CSV has it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if not isinstance(value, str):
        return value
    text = value.translate(_UNSTORABLE)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Value) -> str:
    """A value as standard SQL has it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.translate(_UNSTORABLE).replace("'", "''") + "'"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "NULL"
    return str(value)


def _plain(value: Any) -> Any:
    """A value of the model as JSON has it: text that can be written, figures that are finite."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return value.translate(_UNSTORABLE)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
