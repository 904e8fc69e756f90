"""The sessions of a run: one that holds the lock, and per database one to change, one to watch."""

import contextlib
from types import TracebackType
from typing import Self

from pgstow.model import HostError, PgstowError, ServerState, UserError
from pgstow.postgres import Connection, changes, connect, facts

_WATCH_LOCK_TIMEOUT_S = 5.0


class Sessions:
    """Opened when first needed, closed together."""

    def __init__(self, dsn: str, state: ServerState) -> None:
        self._dsn = dsn
        # Advisory locks are per database, so that everyone must take it in the same one.
        maintenance_database = (
            "postgres" if "postgres" in state.databases else min(state.databases, default=None)
        )
        self._maintenance_database = maintenance_database
        self._lock: Connection | None = None
        self._open: dict[tuple[str, str | None], Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lock(self) -> None:
        """Take the lock that keeps a second apply out, and refuse a standby."""
        if self._lock is not None:
            with contextlib.suppress(Exception):
                self._lock.close()
        session = connect(self._dsn, self._maintenance_database, purpose="apply")
        self._lock = session
        changes.prepare_session(session, lock_timeout_s=_WATCH_LOCK_TIMEOUT_S)
        holder = changes.try_lock(session)
        if holder is not None:
            self.close()
            raise UserError(
                f"another apply is running on this server (session pid {holder or 'unknown'})",
                "wait until it has finished",
            )
        if facts.is_in_recovery(session):
            self.close()
            raise UserError(
                "the server is a standby, on which nothing can be changed",
                "connect to its primary; the standby follows",
            )

    def check(self) -> None:
        """Make sure, on the server, that the lock is still held.

        A server that restarted has forgotten it, and the session that holds it may have been ended.
        """
        try:
            held = self._lock is not None and changes.holds_lock(self._lock)
        except PgstowError:
            held = False
        if not held:
            raise HostError(
                "the session that keeps a second apply out is gone", "run apply again to go on"
            )

    def to_change(self, database: str | None = None) -> Connection:
        """The session that changes things in a database."""
        return self._session("change", database)

    def to_watch(self, database: str | None = None) -> Connection:
        """A second session, to watch the first from."""
        return self._session("watch", database)

    def close(self) -> None:
        """Close them all; the lock is given back."""
        for session in (*self._open.values(), self._lock):
            if session is not None:
                with contextlib.suppress(Exception):
                    session.close()
        self._open.clear()
        self._lock = None

    def _session(self, role: str, database: str | None) -> Connection:
        name = database or self._maintenance_database
        found = self._open.get((role, name))
        if found is None or found.closed:
            found = connect(self._dsn, name, purpose="apply")
            changes.prepare_session(found, lock_timeout_s=_WATCH_LOCK_TIMEOUT_S)
            self._open[role, name] = found
        return found
