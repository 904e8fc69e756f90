"""pgbench's tables: by pgbench itself, then as many indexes more as are asked for.

pgbench sends the rows (``-I g``): it loads them frozen with COPY, which took half the time of
making them in the server (``-I G``), whose rows VACUUM must then read again.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from pgstow.experiment.generator import Progress
from pgstow.experiment.workloads import options
from pgstow.experiment.workloads.pgbench_run import find, password_environment
from pgstow.host.background import BackgroundProgram, Ended
from pgstow.model.errors import ServerError, UserError
from pgstow.model.experiment import DataChoice
from pgstow.postgres import connect, redacted_dsn
from pgstow.postgres.connect import Connection, server_errors

MAKER = "pgbench"
ROWS_PER_SCALE = 100_000
_TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
_OPTIONS = ("fillfactor", "unlogged", "extra_indexes", "foreign_keys", "partitions")
_INDEX_SHARE = 0.2  # of the rows' work, for progress
_LONGEST_S = 7 * 86400.0
_PROGRESS = re.compile(r"(\d+) of \d+ tuples")


@dataclass(frozen=True, slots=True)
class PgbenchData:
    """How pgbench's tables are made.

    Of ``extra_indexes`` the last is on abalance, so that no update is heap-only, and the others
    are on aid: pgbench_accounts_aid_1, …, pgbench_accounts_abalance.
    """

    scale: int
    fillfactor: int = 100
    unlogged: bool = False
    extra_indexes: int = 0
    foreign_keys: bool = False
    partitions: int = 0

    @classmethod
    def of(cls, data: DataChoice) -> "PgbenchData":
        """What a choice asks for; UserError for what pgbench does not have."""
        names = [name for name, _ in data.options]
        options.refuse_unknown(f"data of {MAKER}", names, _OPTIONS, "option")
        return cls(
            scale=data.scale,
            fillfactor=options.whole_number(data, "fillfactor", 100, least=10, most=100),
            unlogged=options.yes_or_no(data, "unlogged"),
            extra_indexes=options.whole_number(data, "extra_indexes", 0, least=0, most=100),
            foreign_keys=options.yes_or_no(data, "foreign_keys"),
            partitions=options.whole_number(data, "partitions", 0, least=0, most=1000),
        )

    def command(self, program: str, dsn: str) -> list[str]:
        """pgbench's command line; a password goes through the environment."""
        steps = "tgpf" if self.foreign_keys else "tgp"
        command = [
            program,
            "--initialize",
            f"--init-steps={steps}",
            f"--scale={self.scale}",
            f"--fillfactor={self.fillfactor}",
        ]
        command += ["--unlogged-tables"] if self.unlogged else []
        command += [f"--partitions={self.partitions}"] if self.partitions else []
        return [*command, redacted_dsn(dsn)]

    def index_statements(self) -> tuple[str, ...]:
        """What makes the extra indexes."""
        on_aid = [
            f"CREATE INDEX pgbench_accounts_aid_{number} ON pgbench_accounts (aid)"
            for number in range(1, self.extra_indexes)
        ]
        last = "CREATE INDEX pgbench_accounts_abalance ON pgbench_accounts (abalance)"
        return (*on_aid, last) if self.extra_indexes else ()


def load(
    spec: PgbenchData, dsn: str, *, bindir: Path | None, progress: Progress | None = None
) -> None:
    """Make, fill, index, freeze and analyse the tables."""
    with connect(dsn, purpose="experiment") as connection:
        _refuse_present(connection)
    rows = spec.scale * ROWS_PER_SCALE
    statements = spec.index_statements()
    total = rows * (1 + _INDEX_SHARE * (1 + len(statements)))

    def report(done: float) -> None:
        if progress is not None:
            progress(done, total)

    def read_line(line: str) -> None:
        match = _PROGRESS.search(line)
        if match is not None:
            report(min(int(match[1]), rows))

    command = spec.command(find(bindir), dsn)
    environment = password_environment(dsn)
    with BackgroundProgram(command, environment=environment, on_error_line=read_line) as program:
        ended = program.wait(_LONGEST_S)
    if ended is None or ended.status != 0:
        raise ServerError(f"pgbench could not make its tables: {_complaint(ended)}")
    with connect(dsn, purpose="experiment") as connection:
        for number, statement in enumerate(statements, 1):
            report(rows * (1 + _INDEX_SHARE * number))
            with server_errors("making an index of pgbench_accounts"):
                connection.execute(statement.encode())
        with server_errors("VACUUM of pgbench's tables"):
            connection.execute(f"VACUUM (FREEZE, ANALYZE) {', '.join(_TABLES)}".encode())
    report(total)


def _refuse_present(connection: Connection) -> None:
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relname = ANY (%s) ORDER BY 1",
        (list(_TABLES),),
    ).fetchone()
    if found is not None:
        raise UserError(
            f"relation {found[0]} is in database {connection.info.dbname} already",
            "load into an empty database",
        )


def _complaint(ended: Ended | None) -> str:
    if ended is None:
        return "it did not end"
    lines = [line for line in ended.errors.splitlines() if "error:" in line]
    return (lines or ended.errors.splitlines()[-1:] or ["no message"])[0].partition("error: ")[2]
