"""The load: clients that transfer, and a housekeeper that gives recovery real work.

Each client writes down what it sends and what is acknowledged, in this process's memory, which
no power cut of emulated volumes reaches.
"""

import random
import threading
import time
from typing import LiteralString

from pgstow.emulate.crash_test.ledger import ClientRecord, Ledger, transfer
from pgstow.model.errors import HostError, PgstowError, ServerError
from pgstow.postgres import Connection, connect
from pgstow.postgres.connect import server_errors

_JOIN_TIMEOUT_S = 30.0
_IN_BLOCKS = 0.2  # the part of transfers sent as BEGIN, transfer, COMMIT and not as one statement
_ROLLED_BACK = 0.05
_REWRITES: tuple[LiteralString, ...] = (
    "SELECT ledger_summarise(%(generation)s)",
    "CHECKPOINT",
    "CHECKPOINT",
    "VACUUM ledger_journal",
    "VACUUM FULL ledger_account",
    "REINDEX INDEX ledger_journal_source",
    "REINDEX INDEX ledger_account_pkey",
)
_SUMMARISE = _REWRITES[0]


class Load:
    """Clients at work on one server, from :meth:`start` until :meth:`stop` or until it dies."""

    def __init__(self, dsn: str, ledger: Ledger, chooser: random.Random) -> None:
        self._dsn = dsn
        self._ledger = ledger
        self._ending = threading.Event()
        self._complaints: list[tuple[float, str]] = []
        seeds = [chooser.getrandbits(32) for _ in range(len(ledger.clients) + 1)]
        self._threads = [
            threading.Thread(target=self._client, args=(record, seed), daemon=True)
            for record, seed in zip(ledger.clients, seeds, strict=False)
        ]
        self._threads.append(threading.Thread(target=self._keeper, args=(seeds[-1],), daemon=True))

    def start(self) -> None:
        """Begin; a client that cannot connect shows in :meth:`stop`."""
        for thread in self._threads:
            thread.start()

    def stop(self, power_lost_at: float | None = None) -> None:
        """End, waiting for every client; what failed before ``power_lost_at`` is an error.

        That is a time of the monotonic clock; None: the server was never cut off.
        """
        self._ending.set()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_S)
            if thread.is_alive():
                raise HostError("a client of the load does not end", "is the server stopped?")
        early = [
            text for at, text in self._complaints if power_lost_at is None or at < power_lost_at
        ]
        if early:
            raise HostError(f"the load failed with the power on: {early[0]}")

    def _client(self, record: ClientRecord, seed: int) -> None:
        chooser = random.Random(seed)  # noqa: S311  (a load, no secrets)
        try:
            with connect(self._dsn, purpose="act") as connection:
                while not self._ending.is_set():
                    self._transfer(connection, record, chooser.random())
        except PgstowError as error:
            self._complaints.append((time.monotonic(), error.message))

    def _transfer(self, connection: Connection, record: ClientRecord, kind: float) -> None:
        entry = transfer(self._ledger.seed, record.next_number())
        values = (
            entry.id,
            entry.source,
            entry.target,
            entry.amount,
            entry.checksum,
            entry.words,
            entry.note,
        )
        statement = "SELECT ledger_transfer(%s, %s, %s, %s, %s, %s, %s)"
        is_rolled_back = kind < _ROLLED_BACK
        # Written down before it is sent: whatever happens from here on, it is known.
        (record.refused if is_rolled_back else record.in_doubt).append(entry.id)
        try:
            with server_errors("a transfer"):
                if kind < _IN_BLOCKS:
                    connection.execute("BEGIN")
                    connection.execute(statement, values)
                    connection.execute("ROLLBACK" if is_rolled_back else "COMMIT")
                else:
                    connection.execute(statement, values)
        except ServerError:
            if connection.closed:
                raise  # no answer came: in doubt
            if not is_rolled_back:  # the server refused, as it does to end a deadlock
                record.refused.append(record.in_doubt.pop())
            _roll_back(connection)
            return
        if not is_rolled_back:
            record.acknowledged.append(record.in_doubt.pop())

    def _keeper(self, seed: int) -> None:
        chooser = random.Random(seed)  # noqa: S311
        try:
            with connect(self._dsn, purpose="act") as connection:
                while not self._ending.wait(chooser.uniform(0.0, 0.2)):
                    try:
                        self._keep(connection, chooser.choice(_REWRITES))
                    except ServerError:
                        if connection.closed:
                            raise
        except PgstowError as error:
            self._complaints.append((time.monotonic(), error.message))

    def _keep(self, connection: Connection, statement: LiteralString) -> None:
        with server_errors(statement):
            if statement != _SUMMARISE:
                connection.execute(statement)
                return
            self._ledger.generation_sent += 1
            number = self._ledger.generation_sent
            connection.execute(statement, {"generation": number})
            self._ledger.generation_acknowledged = number


def _roll_back(connection: Connection) -> None:
    """Leave a block of transaction, if in one."""
    with server_errors("ROLLBACK"):
        connection.rollback()
