"""Targets that pgstow makes: for each trial fresh volumes, a copy of the data, and a server."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pgstow.catalog import load as load_catalog
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets import base_data, tablespace_layout
from pgstow.experiment.targets.base_data import BaseSpec, BaseStore
from pgstow.experiment.targets.directories import MountedDirectories
from pgstow.experiment.targets.record import (
    Record,
    clear_leftovers,
    default_state_directory,
    open_state,
)
from pgstow.experiment.targets.restored import Restored
from pgstow.experiment.targets.target import MakeGenerator, Ready, Volumes
from pgstow.host import installations, locks, programs
from pgstow.host.memory_limit import MemoryLimit
from pgstow.host.server import EmbeddedServer
from pgstow.model.errors import PgstowError, UserError
from pgstow.model.experiment import Experiment, Treatment
from pgstow.model.provenance import Warning
from pgstow.model.storage import Layout
from pgstow.postgres import changes, connect
from pgstow.postgres.warming import read_through
from pgstow.units import format_size

_TEMPORARY = Path("/var/tmp")  # noqa: S108 (a private name in it); often /tmp is memory
_SPARE_CONNECTIONS = 30
_DEFAULT_CONNECTIONS = 100
_SETTINGS = {"track_io_timing": "on", "track_wal_io_timing": "on"}
_DIRECT_IO_SINCE = 16


@dataclass(frozen=True, slots=True)
class _Directories:
    """Where a target keeps the base data, and records what it has made."""

    cache: Path
    state: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionedTarget:
    """What emulated volumes and mounted directories have in common."""

    cache_directory: Path | None = None
    state_directory: Path | None = None

    def volumes(self) -> Volumes:
        """The volumes of one trial, not made yet."""
        raise NotImplementedError

    def placed(self, layout: Layout, directory: Path) -> Layout:
        """The layout with its mounts where this target has them."""
        raise NotImplementedError

    def check(self, experiment: Experiment) -> None:
        """Refuse treatments without a layout, of an unknown server, or side by side."""
        if experiment.side_by_side:
            raise UserError(
                f"experiment {experiment.name}: treatments side by side would share this machine",
                "let them run one after the other, or name a server for each",
            )
        for treatment in experiment.treatments:
            if treatment.layout is None:
                raise UserError(
                    f"treatment {treatment.name} has no layout", "write [layout] in the experiment"
                )
            if treatment.dsn is not None:
                raise UserError(
                    f"treatment {treatment.name} names a server, and these are made for each trial",
                    'write target = "server", or drop dsn',
                )
            installations.require_bindir(treatment.server.version)
            self.placed(treatment.layout, _TEMPORARY)

    def prepare(
        self, treatments: Sequence[Treatment], generator: MakeGenerator, run_context: RunContext
    ) -> None:
        """Load the data of each treatment that are not loaded yet."""
        store = BaseStore(self._directories.cache)
        for treatment in treatments:
            spec = _base_spec(treatment)
            if store.missing(spec):
                made = generator(treatment.workload, treatment.data)
                made.check()
                with store.held(spec, made.load, run_context):
                    pass

    @contextmanager
    def ready(
        self, treatment: Treatment, generator: MakeGenerator, run_context: RunContext
    ) -> Iterator[Ready]:
        """A server on fresh volumes, alone on this machine."""
        assert treatment.layout is not None, "checked before"
        state = self._directories.state
        volumes = self.volumes()
        made = generator(treatment.workload, treatment.data)
        with ExitStack() as stack:
            stack.enter_context(_exclusive_lock(state, run_context))
            clear_leftovers(state, volumes.down)
            record = Record(state / f"trial-{os.getpid()}-{secrets.token_hex(4)}.json")
            stack.callback(record.forget_if_gone)
            directory = _TEMPORARY / f"pgstow-bench-{secrets.token_hex(6)}"
            record.note_directory(directory)
            directory.mkdir(mode=0o755)
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            layout = self.placed(treatment.layout, directory)
            run_context.report("making volumes")
            stack.callback(volumes.down)
            volumes.up(layout)
            restored = Restored(layout, record)
            stack.callback(restored.remove)
            stack.callback(volumes.limits, False)  # so that removing them is quick
            volumes.limits(False)
            store = BaseStore(self._directories.cache)
            with store.held(_base_spec(treatment), made.load, run_context) as base:
                run_context.report("copying the data")
                load_s = treatment.schedule.warm_up_s + treatment.schedule.duration_s
                restored.copy(base, _settings(treatment, layout).get("max_wal_size"), load_s)
            yield _serve(
                treatment,
                layout,
                restored=restored,
                volumes=volumes,
                directory=directory,
                run_context=run_context,
                stack=stack,
            )

    @property
    def _directories(self) -> _Directories:
        return _Directories(
            self.cache_directory or base_data.default_cache_directory(),
            self.state_directory or default_state_directory(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedTarget(ProvisionedTarget):
    """Volumes that behave like the cloud's. ``make_volumes`` is a function of a module's own, so
    that the target can be sent to another machine."""

    make_volumes: Callable[[], Volumes]

    def volumes(self) -> Volumes:
        """The volumes of one trial, not made yet."""
        return self.make_volumes()

    def placed(self, layout: Layout, directory: Path) -> Layout:
        """The layout with its mounts in a trial's own directory."""
        mounted = (
            replace(volume, mount=str(directory / "volumes" / volume.name))
            for volume in layout.volumes
        )
        return replace(layout, volumes=tuple(mounted))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTarget(ProvisionedTarget):
    """Volumes that are there already: directories by the layout's names for them."""

    directories: tuple[tuple[str, Path], ...]

    def volumes(self) -> Volumes:
        """The directories, which must be empty."""
        return MountedDirectories()

    def placed(self, layout: Layout, directory: Path) -> Layout:  # noqa: ARG002 (they are where they are)
        """The layout with its mounts at the directories."""
        known = dict(self.directories)
        for volume in layout.volumes:
            if volume.name not in known:
                raise UserError(
                    f"volume {volume.name} of the layout has no directory",
                    f"name it: {volume.name}=DIRECTORY",
                )
        mounted = (
            replace(volume, mount=str(known[volume.name].absolute())) for volume in layout.volumes
        )
        return replace(layout, volumes=tuple(mounted))


@contextmanager
def _exclusive_lock(state: Path, run_context: RunContext) -> Iterator[None]:
    """One trial at a time on a machine: two would measure each other."""
    open_state(state)
    what = "waiting for another experiment on this machine"
    with locks.locked(state / "lock", waiting=lambda: run_context.pause(what)):
        yield


def _base_spec(treatment: Treatment) -> BaseSpec:
    assert treatment.layout is not None
    bindir = installations.require_bindir(treatment.server.version)
    version = programs.run([str(bindir / "postgres"), "--version"], timeout_s=30).strip()
    return BaseSpec(treatment.data, bindir, version, tablespace_layout.spaces(treatment.layout))


def _serve(
    treatment: Treatment,
    layout: Layout,
    *,
    restored: Restored,
    volumes: Volumes,
    directory: Path,
    run_context: RunContext,
    stack: ExitStack,
) -> Ready:
    """Start the server on the restored data; ``stack`` ends it."""
    warnings: list[Warning] = []
    limit = _limit_memory(treatment, restored.record, warnings, stack)
    if limit is not None or treatment.schedule.caches == "cold":
        run_context.report("dropping caches")
        restored.forget_cached()
    else:
        run_context.report("reading the data into memory")
        restored.cache()
    run_context.report("starting the server")
    bindir = installations.require_bindir(treatment.server.version)
    server = stack.enter_context(
        EmbeddedServer(restored.data_directory, bindir=bindir, memory_limit=limit)
    )
    restored.record.note_directory(server.runtime_directory)
    settings = _settings(treatment, layout)
    if limit is None and treatment.server.memory_bytes and _may_bypass_cache(treatment):
        settings["debug_io_direct"] = "data"
    server.start(settings)
    restored.record.note_server(server.process, server.runtime_directory)
    with connect(server.dsn_for(base_data.DATABASE), purpose="experiment") as connection:
        version = connection.info.parameter_status("server_version") or ""
        memory = treatment.server.memory_bytes
        if limit is not None and memory is not None and treatment.schedule.caches == "warm":
            run_context.report("reading the data into the server's memory")
            read_through(connection, memory)

    def begin() -> None:
        with connect(server.dsn, purpose="experiment") as connection:
            changes.checkpoint(connection)
        volumes.limits(True)

    return Ready(
        dsn=server.dsn_for(base_data.DATABASE),
        server_version=version.split()[0],
        log_directory=directory / "log",
        volumes=dict(volumes.devices()),
        is_local=True,
        begin=begin,
        note_clients=restored.record.note_clients,
        watch=volumes.watch,
        usd_month=load_catalog().layout_price(layout).usd_month,
        warnings=tuple(warnings),
    )


def _settings(treatment: Treatment, layout: Layout) -> dict[str, str]:
    connections = max(_DEFAULT_CONNECTIONS, treatment.workload.clients + _SPARE_CONNECTIONS)
    settings = _SETTINGS | {"max_connections": str(connections)}
    temporary = tablespace_layout.temp_tablespaces(layout)
    if temporary is not None:
        settings["temp_tablespaces"] = temporary
    return settings | dict(layout.postgres.settings) | dict(treatment.server.settings)


def _may_bypass_cache(treatment: Treatment) -> bool:
    return treatment.server.version >= _DIRECT_IO_SINCE


def _limit_memory(
    treatment: Treatment, record: Record, warnings: list[Warning], stack: ExitStack
) -> MemoryLimit | None:
    """A control group of the size that the treatment has; a warning where that is impossible."""
    if treatment.server.memory_bytes is None:
        return None
    name = f"pgstow-bench-{os.getpid()}"
    found = MemoryLimit.create(name, int(treatment.server.memory_bytes))
    if isinstance(found, str):
        instead = "the page cache may hold all of the data"
        if _may_bypass_cache(treatment):
            instead = "debug_io_direct keeps the page cache out instead"
        warnings.append(Warning("memory-not-limited", f"{found}: {instead}", "run it as root"))
        return None
    record.note_cgroup(found.directory)
    stack.callback(found.remove)
    stack.enter_context(_kills_named(found, treatment))
    return found


@contextmanager
def _kills_named(limit: MemoryLimit, treatment: Treatment) -> Iterator[None]:
    """Tell a server or load that fails because it lacks memory from one that fails by itself."""
    try:
        yield
    except PgstowError as error:
        kills = limit.kills()
        if not kills:
            raise
        size = format_size(treatment.server.memory_bytes or 0)
        raise UserError(
            f"treatment {treatment.name}: the kernel killed {kills} of the server's processes, "
            f"which had {size} of memory together",
            "give it more (server.memory), or fewer clients",
        ) from error
