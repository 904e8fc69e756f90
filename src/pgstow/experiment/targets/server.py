"""Servers that are there already and somebody's: they are used, and not otherwise changed."""

import os
import secrets as tokens
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets.known_data import missing_tables, tables_among
from pgstow.experiment.targets.record import (
    Record,
    clear_leftovers,
    default_state_directory,
    open_state,
)
from pgstow.experiment.targets.target import MakeGenerator, Ready
from pgstow.model.errors import UserError
from pgstow.model.experiment import Experiment, Treatment
from pgstow.model.provenance import Warning
from pgstow.postgres import changes, connect, redacted_dsn
from pgstow.postgres.session_settings import (
    ServerSettings,
    check_settings,
    with_secret,
    with_settings,
)
from pgstow.postgres.state import is_local_server
from pgstow.postgres.tables import drop_tables, table_names


@dataclass(frozen=True, slots=True)
class Load:
    """A treatment's tables to be made on its server, and those of their names that go first."""

    treatment: Treatment
    dropped: tuple[str, ...]

    @property
    def dsn(self) -> str:
        """The connection string, as the experiment has it."""
        assert self.treatment.dsn is not None, "checked"
        return self.treatment.dsn

    @property
    def server(self) -> str:
        """The server, without any password."""
        return redacted_dsn(self.dsn)

    @property
    def data(self) -> str:
        """What is made."""
        return f"{self.treatment.data.maker} at scale {self.treatment.data.scale}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTarget:
    """Any server that treatments name. ``secrets`` says which connection strings' passwords are in
    AWS Secrets Manager, and under which name; every other is found as libpq finds it."""

    secrets: tuple[tuple[str, str], ...] = ()
    state_directory: Path | None = None

    def check(self, experiment: Experiment) -> None:
        """Refuse treatments that name no server, or ask what only its owner can do."""
        asked = {treatment.server.version for treatment in experiment.treatments}
        for treatment in experiment.treatments:
            if treatment.dsn is None:
                raise UserError(
                    f"treatment {treatment.name} names no server", 'write dsn = "…" for it'
                )
            if treatment.layout is not None:
                raise self._not_ours(treatment, "a layout")
            if treatment.server.memory_bytes is not None:
                raise self._not_ours(treatment, "a limit of memory")
        self._check_live(experiment, check_version=len(asked) > 1)

    def loads(self, experiment: Experiment, *, replace: bool = False) -> tuple[Load, ...]:
        """Whose tables are to be made, on each server once; refuse where such are there already,
        unless they are to be replaced."""
        self.check(experiment)
        by_server: dict[str, Treatment] = {}
        for treatment in experiment.treatments:
            assert treatment.dsn is not None, "checked"
            other = by_server.setdefault(treatment.dsn, treatment)
            if other.data != treatment.data:
                raise UserError(
                    f"treatments {other.name} and {treatment.name} need different data on one "
                    "server",
                    "name a database of its own for each",
                )
        found = tuple(Load(one, self._tables(one)) for one in by_server.values())
        for load in found:
            if load.dropped and not replace:
                raise UserError(
                    f"table {load.dropped[0]} is in {load.server} already",
                    "name an empty database, or say that it is to be replaced",
                )
        return found

    def load(
        self,
        experiment: Experiment,
        generator: MakeGenerator,
        run_context: RunContext | None = None,
        *,
        replace: bool = False,
    ) -> tuple[Load, ...]:
        """Make the treatments' tables on their servers; see ``loads``."""
        run_context = run_context or RunContext()
        found = self.loads(experiment, replace=replace)
        makers = [generator(one.treatment.workload, one.treatment.data) for one in found]
        for made in makers:
            made.check()
        for load, made in zip(found, makers, strict=True):
            drop_tables(self._connectable(load.dsn), load.dropped)
            what = f"loading {load.data} into {load.server}"
            run_context.report(what)
            made.load(self._connectable(load.dsn), run_context.progress(what))
        return found

    def prepare(
        self, treatments: Sequence[Treatment], generator: MakeGenerator, run_context: RunContext
    ) -> None:
        """See that each server has the tables that its treatments use."""
        del generator
        clear_leftovers(open_state(self._state))
        for treatment in treatments:
            run_context.report("looking at the servers")
            assert treatment.dsn is not None, "checked"
            names = table_names(self._connectable(treatment.dsn))
            missing = missing_tables(names, treatment.data)
            if missing:
                raise UserError(
                    f"table {missing[0]} is not in {redacted_dsn(treatment.dsn)}",
                    "load the data first, or load and run",
                )

    @contextmanager
    def ready(
        self, treatment: Treatment, generator: MakeGenerator, run_context: RunContext
    ) -> Iterator[Ready]:
        """The server as it is, after a checkpoint where the role may ask for one."""
        del generator
        assert treatment.dsn is not None, "checked"
        dsn = with_settings(self._connectable(treatment.dsn), dict(treatment.server.settings))
        run_context.report("looking at the server")
        found = self._require_settings(treatment)
        open_state(self._state)
        warnings = [_NOT_RESTORED]
        warnings += [_NOT_COLD] if treatment.schedule.caches == "cold" else []
        with ExitStack() as stack:
            record = Record(self._state / f"trial-{os.getpid()}-{tokens.token_hex(4)}.json")
            stack.callback(record.forget_if_gone)
            directory = Path(tempfile.gettempdir()) / f"pgstow-bench-{tokens.token_hex(6)}"
            record.note_directory(directory)
            directory.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            warnings += _checkpoint(dsn)
            yield Ready(
                dsn=dsn,
                server_version=found.version,
                log_directory=directory / "log",
                volumes={},
                is_local=is_local_server(dsn),
                begin=_nothing,
                note_clients=record.note_clients,
                warnings=tuple(warnings),
            )

    @property
    def _state(self) -> Path:
        return (self.state_directory or default_state_directory()) / "servers"

    def _connectable(self, dsn: str) -> str:
        """The connection string with its password, where that is in a secret."""
        name = dict(self.secrets).get(dsn)
        if name is None:
            return dsn
        from pgstow.cloud import read_secret

        found = read_secret(name)
        return with_secret(dsn, found.user, found.password)

    def _tables(self, treatment: Treatment) -> tuple[str, ...]:
        """The tables on the server that are named as those of the treatment's data."""
        assert treatment.dsn is not None, "checked"
        return tables_among(table_names(self._connectable(treatment.dsn)), treatment.data)

    def _check_live(self, experiment: Experiment, *, check_version: bool) -> None:
        addresses: dict[str, str] = {}
        for treatment in experiment.treatments:
            found = self._require_settings(treatment)
            version = treatment.server.version
            if check_version and found.version_num // 10000 != version:
                raise self._not_ours(treatment, f"PostgreSQL {version} where {found.version} runs")
            other = addresses.setdefault(found.address, treatment.name)
            if experiment.side_by_side and other != treatment.name:
                raise UserError(
                    f"treatments {other} and {treatment.name} are to run side by side on one "
                    f"server, {found.address}",
                    "name a server of its own for each, or run them one after the other",
                )

    def _require_settings(self, treatment: Treatment) -> ServerSettings:
        assert treatment.dsn is not None, "checked"
        settings = dict(treatment.server.settings)
        found = check_settings(self._connectable(treatment.dsn), settings)
        if found.refused:
            name = found.refused[0]
            raise self._not_ours(treatment, f"{name} = {settings[name]}")
        return found

    def _not_ours(self, treatment: Treatment, what: str) -> UserError:
        assert treatment.dsn is not None, "checked"
        return UserError(
            f"treatment {treatment.name} asks for {what}, and {redacted_dsn(treatment.dsn)} is a "
            "server that is not the experiment's to restart",
            "let its owner set it and drop it here, or let the experiment make its own servers",
        )


_NOT_RESTORED = Warning(
    "state-carried-over",
    "trials on a server of somebody's begin with the data as the trials before left them",
    "load again between runs, or take copies of the server",
)
_NOT_COLD = Warning(
    "caches-as-found",
    "the caches of a server of somebody's cannot be emptied: trials begin with them as they are",
    'let a warm-up make them alike: caches = "warm"',
)


def _nothing() -> None:
    return None


def _checkpoint(dsn: str) -> list[Warning]:
    try:
        with connect(dsn, purpose="experiment") as connection:
            changes.checkpoint(connection)
    except UserError as error:
        what = f"trials do not begin with a checkpoint: {error.message}"
        return [Warning("no-checkpoint-first", what, "GRANT pg_checkpoint TO the role")]
    return []
