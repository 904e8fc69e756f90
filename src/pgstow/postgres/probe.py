"""A commit probe: tiny transactions at a fixed rate, each timed, to know what a commit costs.

One transactional logical message is the smallest thing that makes PostgreSQL flush its WAL; it
changes no table, and readers of logical replication slots skip a prefix they do not know.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import psycopg

from pgstow.model.errors import PgstowError
from pgstow.model.provenance import Warning
from pgstow.postgres.connect import connect
from pgstow.postgres.queries import query


class CommitProbe:
    """A context manager that probes in a thread; a rate of None probes nothing.

    ``commit_ms`` fills with the time of each commit, in order.
    """

    def __init__(self, dsn: str, rate_per_s: float | None, clock: Callable[[], float]) -> None:
        self._dsn = dsn
        self._period_s = 1 / rate_per_s if rate_per_s else None
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commit-probe", daemon=True)
        self.commit_ms: list[float] = []
        self.warnings: list[Warning] = []

    @property
    def commits(self) -> int:
        """How many commits were made."""
        return len(self.commit_ms)

    @property
    def busy_ms(self) -> float:
        """How long the probe's session was at work."""
        return sum(self.commit_ms)

    def __enter__(self) -> Self:
        if self._period_s is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._period_s is not None:
            self._thread.join()

    def _run(self) -> None:
        assert self._period_s is not None
        try:
            with connect(self._dsn, purpose="probe") as connection:
                connection.execute("SET statement_timeout = '10s'")
                while not self._ended.wait(self._period_s):
                    began_s = self._clock()
                    connection.execute(query("commit_probe"))
                    self.commit_ms.append((self._clock() - began_s) * 1000)
        except (PgstowError, psycopg.Error) as error:
            reason = " ".join(str(error).split())
            self.warnings.append(Warning("commit-probe-ended", f"the commit probe ended: {reason}"))
