"""Look for every kind of damage in a server that has recovered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgstow.emulate.crash_test.amcheck import Checker
from pgstow.emulate.crash_test.ledger import Audit, Ledger
from pgstow.emulate.crash_test.result import Findings
from pgstow.host.server import EmbeddedServer
from pgstow.model.errors import ServerError
from pgstow.postgres import Connection, connect
from pgstow.postgres.connect import server_errors
from pgstow.postgres.queries import query

_VERIFICATION = "page verification failed"
_INVALID = re.compile(
    r'(?P<level>[A-Z]+): +invalid page in block \d+ of relation "(?P<file>[^"]+)"'
)
_SHOWN = 3


def check(server: EmbeddedServer, checker: Checker, ledger: Ledger) -> Findings:
    """Compare with the ledger, and run the server's own checks; resolves what was in doubt."""
    audit = Audit(checked=0)
    other = []
    try:
        with connect(server.dsn, purpose="act") as connection, server_errors("reading the ledger"):
            audit = ledger.audit(connection.execute(query("ledger_journal")).fetchall())
            other += _describe(audit)
            other += _queries(connection, ledger)
    except ServerError as error:
        other.append(error.message)
    amcheck = checker.check(server)
    log = read_log(server.log_file.read_text(errors="replace").splitlines())
    other += log.problems[:_SHOWN]
    return Findings(
        transfers_checked=audit.checked,
        lost=len(audit.lost),
        lost_ids=audit.lost[:_SHOWN],
        landed=audit.landed,
        vanished=audit.vanished,
        zeroed_maps=log.zeroed_maps,
        amcheck=amcheck,
        other=tuple(other),
    )


@dataclass(frozen=True, slots=True)
class Log:
    """What a server's log says of its pages."""

    zeroed_maps: int
    problems: tuple[str, ...]


def read_log(lines: Sequence[str]) -> Log:
    """Separate damaged pages from those of free space maps, which may be damaged.

    A free space map is a hint, and PostgreSQL does not log its changes: it reads it so that a torn
    page is taken for an empty one (fsm_readbuf, RBM_ZERO_ON_ERROR), and says so in its log.
    """
    zeroed, failed, problems = 0, 0, []
    for line in lines:
        found = _INVALID.search(line)
        if found is not None and found["file"].endswith("_fsm"):
            zeroed += found["level"] == "LOG"  # a warning follows it
        elif found is not None or "PANIC: " in line:
            problems.append(line)
        failed += _VERIFICATION in line
    if failed > zeroed and not problems:
        problems.append(f"{failed} pages failed their checksums, {zeroed} of free space maps")
    return Log(zeroed, tuple(problems))


def _describe(audit: Audit) -> list[str]:
    kinds = {
        "are other than they were sent": audit.damaged,
        "are there twice": audit.repeated,
        "are there though they were rolled back or never sent": audit.phantom,
    }
    return [
        f"{len(found)} transfers {what}: {', '.join(map(str, found[:_SHOWN]))}"
        for what, found in kinds.items()
        if found
    ]


def _queries(connection: Connection, ledger: Ledger) -> list[str]:
    problems = []
    accounts = [row[0] for row in connection.execute(query("ledger_unbalanced"))]
    if accounts:
        shown = ", ".join(map(str, accounts[:_SHOWN]))
        problems.append(f"{len(accounts)} accounts do not agree with the journal: {shown}")
    generations = connection.execute(query("ledger_generations")).fetchall()
    wrong = ledger.wrong_generation([(row[0], row[1], row[2]) for row in generations])
    problems += [] if wrong is None else [wrong]
    problems += _indexes(connection)
    if _row(connection, "checksums_enabled") != (True,):
        problems.append("pages have no checksums")
    return problems


def _indexes(connection: Connection) -> list[str]:
    """Indexes of kinds that pg_amcheck leaves out must find what the table holds."""
    total = connection.execute("SELECT count(*) FROM ledger_journal").fetchone()
    with connection.transaction():
        connection.execute("SET LOCAL enable_seqscan = off")
        counts = _row(connection, "ledger_index_counts")
        has_gin_check = connection.execute("SELECT to_regproc('gin_index_check')").fetchone()
        if has_gin_check != (None,):
            connection.execute("SELECT gin_index_check('ledger_journal_words')")
    assert total is not None
    return [
        f"the {kind} index finds {count} of {total[0]} transfers"
        for kind, count in zip(("BRIN", "GIN", "hash"), counts, strict=True)
        if count != total[0]
    ]


def _row(connection: Connection, name: str) -> tuple[int, ...]:
    row = connection.execute(query(name)).fetchone()
    assert row is not None
    return row
