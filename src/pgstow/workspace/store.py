"""The project file: typed documents, the journal and experiments' runs, in one SQLite database."""

import json
import os
import sqlite3
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from pydantic import ValidationError

from pgstow.model.errors import PgstowError, WorkspaceError, WorkspacePathError
from pgstow.typed import adapter
from pgstow.workspace import journal, runs

FORMAT = 3  # PRAGMA user_version: raised with every change that an older pgstow cannot read
_APPLICATION_ID = 0x70677374  # "pgst"; tells a workspace from other programs' databases
_BUSY_TIMEOUT_S = 10.0

DocumentType = Literal["profile", "plan", "prediction", "measurement", "layout"]
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS document (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    created_at TEXT NOT NULL,        -- ISO 8601, UTC
    json TEXT NOT NULL,
    name TEXT                        -- what a person calls it
);
CREATE INDEX IF NOT EXISTS document_kind ON document (kind, id);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document's row without its contents."""

    id: int
    kind: str
    created_at: str
    name: str | None = None


class _Connection(sqlite3.Connection):
    """A connection whose failures are WorkspaceErrors, for the journal's statements too."""

    path: Path

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except sqlite3.Error as error:
            raise _workspace_error(self.path, error) from error

    def commit(self) -> None:
        try:
            super().commit()
        except sqlite3.Error as error:
            raise _workspace_error(self.path, error) from error


class Workspace:
    """An open workspace; a context manager. Every write is on disk when its call returns."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, *, is_private: bool = True
    ) -> None:
        self.path = path
        self.is_private = is_private  # False: others may read it, and this user cannot change that
        self.connection = connection
        self.journal = journal.Journal(connection)
        self.runs = runs.Runs(connection)

    @classmethod
    def open(cls, path: Path, create: bool = True) -> Self:
        """Open a workspace file; with ``create`` it is made where there is none.

        Only its owner may read it: it names databases, relations and hosts.
        """
        _look(path, create)
        try:
            connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, factory=_Connection
            )
        except sqlite3.Error as error:
            raise _workspace_error(path, error) from error
        connection.path = path
        try:
            _prepare(connection, path, create)
        except BaseException:
            connection.close()
            raise
        return cls(connection, path, is_private=_close_to_others(path))

    @classmethod
    def empty(cls) -> Self:
        """A workspace without a file, which holds nothing."""
        path = Path(":memory:")
        connection = sqlite3.connect(path, isolation_level=None, factory=_Connection)
        connection.path = path
        _prepare(connection, path, create=True)
        return cls(connection, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def add(self, kind: DocumentType, value: object, name: str | None = None) -> int:
        """Store a value of the model as a new document; returns its number."""
        plain = adapter(type(value)).dump_python(value, mode="json")
        cursor = self.connection.execute(
            "INSERT INTO document (kind, created_at, json, name) VALUES (?, ?, ?, ?)",
            (kind, datetime.now(UTC).isoformat(timespec="milliseconds"), json.dumps(plain), name),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def latest(self, kind: DocumentType, type: type[T]) -> T | None:
        """The newest document of a kind."""
        row = self.connection.execute(
            "SELECT id, json FROM document WHERE kind = ? ORDER BY id DESC LIMIT 1", (kind,)
        ).fetchone()
        return None if row is None else self._read(kind, row, type)

    def get(self, kind: DocumentType, id: int, type: type[T]) -> T | None:
        """The document of that kind and number."""
        row = self.connection.execute(
            "SELECT id, json FROM document WHERE kind = ? AND id = ?", (kind, id)
        ).fetchone()
        return None if row is None else self._read(kind, row, type)

    def list(self, kind: DocumentType | None = None) -> tuple[Entry, ...]:
        """What documents there are, oldest first."""
        rows = self.connection.execute(
            "SELECT id, kind, created_at, name FROM document"
            " WHERE ?1 IS NULL OR kind = ?1 ORDER BY id",
            (kind,),
        )
        return tuple(Entry(*row) for row in rows)

    def _read(self, kind: str, row: tuple[int, str], type: type[T]) -> T:
        try:
            return adapter(type).validate_json(row[1])
        except (ValidationError, PgstowError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise WorkspaceError(
                f"{kind} {row[0]} in workspace {self.path} cannot be read: {reason}",
                "make it again, or use the version of pgstow that wrote it",
            ) from error


def _look(path: Path, create: bool) -> None:
    """See that the path can be a workspace's; a new file is its owner's alone, whatever umask."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not create:
            raise WorkspacePathError(
                f"there is no workspace {path}", "run pgstow observe first, or check --workspace"
            ) from None
        _make(path)
        return
    except OSError as error:
        raise _path_error(path, error) from None
    if stat.S_ISDIR(mode):
        raise WorkspacePathError(f"workspace {path} is a directory", "name a file")
    if not stat.S_ISREG(mode):
        raise WorkspacePathError(f"workspace {path} is not a file", "name a file")


def _make(path: Path) -> None:
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another pgstow was faster
        return
    except OSError as error:
        raise _path_error(path, error) from None
    os.fchmod(opened, 0o600)
    os.close(opened)


def _close_to_others(path: Path) -> bool:
    """Take others' rights from the file and from SQLite's own beside it; whether none are left."""
    is_private = True
    for one in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        try:
            mode = stat.S_IMODE(one.stat().st_mode)
            if mode & 0o077:
                one.chmod(mode & 0o700)
        except FileNotFoundError:
            continue
        except OSError:
            is_private = False
    return is_private


def _path_error(path: Path, error: OSError) -> WorkspacePathError:
    return WorkspacePathError(
        f"workspace {path} cannot be opened: {error.strerror}",
        "check the path and its mode, or name another file with --workspace",
    )


def _prepare(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    """See that the file is a workspace this version can read; make the tables where it is new."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != _APPLICATION_ID and tables:
        raise WorkspacePathError(
            f"{path} is a database of another program", "name another file with --workspace"
        )
    if found > FORMAT:
        raise WorkspaceError(
            f"workspace {path} was written by a newer pgstow (format {found})", "upgrade pgstow"
        )
    if not (create or tables):
        raise WorkspacePathError(f"workspace {path} is empty", "run pgstow observe first")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if found < FORMAT:
        _create(connection)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _statements(_SCHEMA + journal.SCHEMA + runs.SCHEMA):
            connection.execute(statement)
        columns = {row[1] for row in connection.execute("PRAGMA table_info(document)")}
        if "name" not in columns:  # a workspace of format 1 or 2
            connection.execute("ALTER TABLE document ADD COLUMN name TEXT")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    except BaseException:
        connection.rollback()
        raise
    connection.execute("COMMIT")


def _statements(script: str) -> list[str]:
    """Split a script; executescript would commit what runs around it."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def _workspace_error(path: Path, error: sqlite3.Error) -> WorkspaceError:
    text = str(error)
    if "not a database" in text:
        return WorkspacePathError(
            f"{path} is not a pgstow workspace", "name another file with --workspace"
        )
    if "disk is full" in text or "disk I/O error" in text:
        return WorkspaceError(
            f"workspace {path} cannot be written: {text}", "free space on its disk and try again"
        )
    if "unable to open" in text or "readonly" in text:
        return WorkspacePathError(
            f"workspace {path} cannot be opened for writing",
            f"check that directory {path.parent} exists and that you may write there",
        )
    if "locked" in text:
        return WorkspaceError(
            f"workspace {path} is in use by another pgstow", "wait for it to end and try again"
        )
    return WorkspaceError(f"workspace {path}: {text}", "keep a copy of it, and make a new one")
