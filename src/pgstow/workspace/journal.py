"""The durable journal of apply: each run and step, recorded before and after it is executed.

A run has one target layout for a server, however often it was killed and resumed. All
writes are single statements in autocommit under synchronous=FULL: what is written stays.
"""

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pgstow.model import Step
from pgstow.model.result import StepStatus
from pgstow.typed import adapter

SCHEMA = """
CREATE TABLE IF NOT EXISTS apply_run (
    id INTEGER PRIMARY KEY,
    server TEXT NOT NULL,            -- system identifier
    layout TEXT NOT NULL,            -- digest of the target layout
    status TEXT NOT NULL,            -- running, done, failed, undone
    pid INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT
);
CREATE TABLE IF NOT EXISTS apply_step (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES apply_run (id),
    status TEXT NOT NULL,            -- StepStatus
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    step TEXT NOT NULL,              -- the step, as JSON
    undo TEXT,                       -- undo arguments found out when it ran, as JSON
    facts TEXT NOT NULL DEFAULT '{}',-- what resuming needs to know, as JSON
    started_at TEXT,
    finished_at TEXT,
    seconds REAL,
    bytes INTEGER,
    note TEXT
);
CREATE INDEX IF NOT EXISTS apply_step_run ON apply_step (run);
"""

RunStatus = Literal["running", "done", "failed", "undone"]
OPEN: tuple[StepStatus, ...] = ("running", "undoing", "unknown")
_IN_EFFECT: tuple[StepStatus, ...] = ("done", "partial", *OPEN)
# Names among a step's facts: the rebuilds it began and has not seen to leave nothing behind; the
# directories it made.
REBUILDS = "rebuilds"
MADE = "made"
_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run."""

    id: int
    server: str
    layout: str
    status: RunStatus
    started_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run; ``step`` carries the undo arguments that were found when it ran."""

    id: int
    run: int
    status: StepStatus
    step: Step
    facts: Mapping[str, Any]
    started_at: str | None
    finished_at: str | None
    seconds: float | None
    bytes: int | None
    note: str | None

    @property
    def made(self) -> tuple[str, ...]:
        """Directories it made, or was about to make."""
        found = self.facts.get(MADE)
        return tuple(found) if isinstance(found, list) else ()


class Journal:
    """The journal in an open workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self, server: str, layout: str) -> int:
        """Open a run, or resume the last one if it had the same target layout."""
        last = self.last_run(server)
        if last is not None and last.layout == layout and last.status != "undone":
            self._write(
                "UPDATE apply_run SET status = 'running', pid = ?, finished_at = NULL WHERE id = ?",
                os.getpid(),
                last.id,
            )
            return last.id
        return self._write(
            "INSERT INTO apply_run (server, layout, status, pid, started_at)"
            " VALUES (?, ?, 'running', ?, ?)",
            server,
            layout,
            os.getpid(),
            _now(),
        )

    def finish(self, run: int, status: RunStatus) -> None:
        """Close a run."""
        self._write(
            "UPDATE apply_run SET status = ?, finished_at = ? WHERE id = ?", status, _now(), run
        )

    def plan(self, run: int, steps: Sequence[Step]) -> tuple[int, ...]:
        """Record steps before the first is executed; they replace the run's earlier plans."""
        self._write(
            "UPDATE apply_step SET status = 'skipped', note = 'planned again'"
            " WHERE run = ? AND status IN ('planned', 'failed')",
            run,
        )
        return tuple(
            self._write(
                "INSERT INTO apply_step (run, status, kind, subject, step)"
                " VALUES (?, 'planned', ?, ?, ?)",
                run,
                step.kind,
                step.subject,
                adapter(Step).dump_json(step).decode(),
            )
            for step in steps
        )

    def started(self, step: int, status: StepStatus = "running") -> None:
        """A step is about to be executed (with "undoing": reverted)."""
        self._write(
            "UPDATE apply_step SET status = ?, started_at = ?, finished_at = NULL WHERE id = ?",
            status,
            _now(),
            step,
        )

    def finished(
        self,
        step: int,
        status: StepStatus,
        *,
        seconds: float | None = None,
        bytes: int | None = None,
        note: str | None = None,
    ) -> None:
        """A step came to its end."""
        self._write(
            "UPDATE apply_step SET status = ?, finished_at = ?, seconds = ?, bytes = ?, note = ?"
            " WHERE id = ?",
            status,
            _now(),
            seconds,
            bytes,
            note,
            step,
        )

    def remember(self, step: int, facts: Mapping[str, Any]) -> None:
        """Add what resuming the step would need to know."""
        known = dict(self.facts(step)) | dict(facts)
        self._write("UPDATE apply_step SET facts = ? WHERE id = ?", json.dumps(known), step)

    def facts(self, step: int) -> Mapping[str, Any]:
        """The facts noted of a step."""
        row = self._connection.execute("SELECT facts FROM apply_step WHERE id = ?", (step,))
        found: Mapping[str, Any] = json.loads(row.fetchone()[0])
        return found

    def remember_undo(self, step: int, arguments: tuple[tuple[str, str], ...]) -> None:
        """Replace the planned undo by what the server showed just before the step."""
        text = adapter(_Pairs).dump_json(arguments).decode()
        self._write("UPDATE apply_step SET undo = ? WHERE id = ?", text, step)

    def last_run(self, server: str) -> RunRecord | None:
        """The last run on a server."""
        return self._run("WHERE server = ? ORDER BY id DESC LIMIT 1", server)

    def last_of_all(self) -> RunRecord | None:
        """The last run on any server."""
        return self._run("ORDER BY id DESC LIMIT 1")

    def last_undoable(self, server: str) -> RunRecord | None:
        """The last run on a server that has a step to revert."""
        where = f"SELECT run FROM apply_step WHERE status IN {_IN_EFFECT}"  # noqa: S608
        return self._run(f"WHERE server = ? AND id IN ({where}) ORDER BY id DESC LIMIT 1", server)

    def steps(self, run: int) -> tuple[StepRecord, ...]:
        """A run's steps, in the order they were planned."""
        return self._steps("WHERE run = ? ORDER BY id", run)

    def unfinished_wal_moves(self) -> tuple[StepRecord, ...]:
        """Moves of pg_wal that were under way when a run ended; their server may be down."""
        return self._steps(f"WHERE kind = 'move wal' AND status IN {OPEN} ORDER BY id")

    def step(self, id: int) -> StepRecord:
        """One step as it is recorded now."""
        (record,) = self._steps("WHERE id = ?", id)
        return record

    def in_effect(self, run: int) -> tuple[StepRecord, ...]:
        """A run's steps that took effect, or may have, in the order they were planned."""
        return self._steps(f"WHERE run = ? AND status IN {_IN_EFFECT} ORDER BY id", run)

    def open_steps(self, server: str) -> tuple[StepRecord, ...]:
        """Steps of any run on a server of which nobody knows how they ended."""
        return self._of_server(server, f"status IN {OPEN}")

    def rebuilds(self, server: str) -> tuple[StepRecord, ...]:
        """Steps of any run that began to rebuild an index and have not been seen to leave nothing.

        See :data:`REBUILDS`.
        """
        found = self._of_server(server, "kind = 'move index'")
        return tuple(record for record in found if record.facts.get(REBUILDS))

    def made_directories(self, server: str) -> frozenset[str]:
        """Directories that steps on this server made (or were about to make)."""
        return frozenset(
            directory
            for record in self._of_server(server, "facts LIKE '%\"made\"%'")
            for directory in record.made
        )

    def is_reconciled(self, server: str) -> bool:
        """Whether the runs on a server left nothing to look at."""
        return not (self.open_steps(server) or self.rebuilds(server))

    def made_tablespaces(self, server: str) -> dict[str, str]:
        """Tablespaces that runs on this server made and nobody took back, and where they were."""
        made: dict[str, str] = {}
        kinds = "kind IN ('create tablespace', 'drop tablespace')"
        for record in self._of_server(server, f"status = 'done' AND {kinds}"):
            if record.step.kind == "create tablespace":
                made[record.step.subject] = record.step.argument("location")
            else:
                made.pop(record.step.subject, None)
        return made

    def _of_server(self, server: str, condition: str) -> tuple[StepRecord, ...]:
        of_server = "WHERE run IN (SELECT id FROM apply_run WHERE server = ?)"
        return self._steps(f"{of_server} AND {condition} ORDER BY id", server)

    def _write(self, statement: str, *values: object) -> int:
        with self._connection:
            return self._connection.execute(statement, values).lastrowid or 0

    def _run(self, where: str, *values: object) -> RunRecord | None:
        row = self._connection.execute(
            "SELECT id, server, layout, status, started_at, finished_at FROM apply_run "  # noqa: S608
            + where,
            values,
        ).fetchone()
        return None if row is None else RunRecord(*row)

    def _steps(self, where: str, *values: object) -> tuple[StepRecord, ...]:
        rows = self._connection.execute(
            "SELECT id, run, status, step, facts, started_at, finished_at, seconds, bytes, note,"  # noqa: S608
            " undo FROM apply_step " + where,
            values,
        )
        return tuple(_step_record(*row) for row in rows)


def _step_record(id: int, run: int, status: StepStatus, step: str, facts: str, *rest: Any) -> Any:
    *times, undo = rest
    value = adapter(Step).validate_json(step)
    if undo is not None:
        value = _with_undo(value, adapter(_Pairs).validate_json(undo))
    return StepRecord(id, run, status, value, json.loads(facts), *times)


def _with_undo(step: Step, arguments: tuple[tuple[str, str], ...]) -> Step:
    return replace(step, undo_arguments=arguments)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
