"""The test cluster: emulated volumes, a database cluster on them, and the power switch."""

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgstow.emulate import bring_up, injection, take_down
from pgstow.emulate.control import Control, Lost
from pgstow.emulate.crash_test.amcheck import Checker
from pgstow.emulate.crash_test.plan import Combination
from pgstow.emulate.faults import PowerLoss
from pgstow.emulate.state import StateDirectory
from pgstow.host import loops, mounts, postmaster, processes, programs
from pgstow.host.loops import Loop
from pgstow.host.processes import ProcessIdentity
from pgstow.host.server import EmbeddedServer, unprivileged_user
from pgstow.model import Device, HostSpec, Latency, Layout, Member, Placement, Volume
from pgstow.model.errors import HostError
from pgstow.postgres import connect
from pgstow.postgres.connect import server_errors
from pgstow.postgres.queries import query
from pgstow.units import KIB, MIB, Bytes

_END_TIMEOUT_S = 20.0
_REAP_TIMEOUT_S = 10.0
_POLL_S = 0.02
_SYNC_TIMEOUT_S = 60.0
_SEGMENTS = Path("/proc/sysvipc/shm")
_SIZES = {"data": Bytes(1024 * MIB), "wal": Bytes(512 * MIB)}
# Slow enough that at most moments some writes are on their way.
_LATENCY = Latency(150, 300, 2000, 8000)
SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "checkpoint_timeout": "30s",
    "max_wal_size": "192MB",
    # Few, and handed to the device at once, so that much is written between checkpoints too.
    "shared_buffers": "8MB",
    "bgwriter_delay": "10ms",
    "bgwriter_lru_maxpages": "1000",
    "bgwriter_flush_after": "64kB",
    "backend_flush_after": "64kB",
    "checkpoint_flush_after": "64kB",
    "autovacuum_naptime": "5s",
    "max_connections": "40",
    "dynamic_shared_memory_type": "mmap",  # a killed server leaves no POSIX segment behind
    "log_checkpoints": "on",
    # Nothing is in the page cache after a cut; a thousand files need not be synced one by one.
    "recovery_init_sync_method": "syncfs",
}


@dataclass(frozen=True, slots=True)
class Restored:
    """How the restart went; ``failure`` says what failed, None: mounted and started."""

    mount_s: float
    recovery_s: float | None
    failure: str | None = None


class TestCluster:
    """One group's volumes and cluster at a time. As a context manager it leaves nothing."""

    def __init__(self, directory: Path, checker: Checker, settings: Mapping[str, str]) -> None:
        self._state = StateDirectory(directory / "state")
        self._mounts = directory / "mnt"
        self._checker = checker
        self._settings = SETTINGS | dict(settings)
        self._layout: Layout | None = None
        self._family: tuple[ProcessIdentity, ...] = ()  # of the server that was killed last
        self._segments: set[tuple[int, int] | None] = set()  # of servers that were killed
        self._user = unprivileged_user()
        self._clear_leftovers()
        self.server = EmbeddedServer(
            self._mounts / "data/pgdata", bindir=checker.bindir, user=self._user
        )
        try:
            checker.provide(self.server)
        except BaseException:
            self.server.close()
            raise

    def __enter__(self) -> "TestCluster":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.server.close()
        finally:
            take_down.down(self._state.path, force=True)
            self._remove_segments()

    @property
    def control(self) -> Control:
        """The emulator's control socket."""
        return Control(self._state.control)

    def make(self, group: Combination) -> None:
        """New volumes with an empty ledger, for the filesystem and WAL location of a group."""
        self.server.stop("immediate")
        take_down.down(self._state.path, force=True)
        names = ("data", "wal") if group.wal == "apart" else ("data",)
        volumes = tuple(
            Volume(name, "gp3", _SIZES[name], str(self._mounts / name), filesystem=group.filesystem)
            for name in names
        )
        self._layout = Layout(HostSpec(), volumes, Placement(data="data", wal=names[-1]))
        self._up()
        self.control.set_limits(False)
        apart = self._mounts / "wal/pg_wal" if group.wal == "apart" else None
        self.server.initialise(wal_directory=apart, checksums=True)
        self.start()
        with connect(self.server.dsn, purpose="act") as connection, server_errors("the ledger"):
            connection.execute(query("ledger_schema"))
        self._checker.install(self.server)
        self.sync()
        injection.set_volatile(self._state.path, True)

    def start(self, **settings: str) -> None:
        """Start the server with the campaign's settings and these."""
        found = self._checker.settings(self.server)
        self.server.start(self._settings | found | settings)

    def sync(self) -> None:
        """Make everything durable, also what the server has not flushed."""
        assert self._layout is not None
        for volume in self._layout.volumes:
            arguments = ["sync", "--file-system", volume.mount]
            programs.run(arguments, timeout_s=_SYNC_TIMEOUT_S)

    def unflushed_writes(self) -> int:
        """How many writes would be at risk now."""
        return sum(volume.unflushed_writes for volume in self.control.status().volumes)

    def cut_power(self, combination: Combination, seed: int) -> tuple[float, tuple[Lost, ...]]:
        """Cut the power of all volumes at once, then end what a power cut ends: server, mounts.

        Gives the moment on the monotonic clock, just before, and what each volume lost. When this
        returns, the power is on again and nothing is mounted.
        """
        pid = self.server.pid
        if pid is None:
            raise HostError("the server has ended before the power was cut", str(self.log_tail(1)))
        self._segments.add(_shared_memory(self.server.data_directory))
        family = processes.family(pid)
        control = self.control
        at = time.monotonic()
        power_loss = PowerLoss(
            loss=combination.loss, sector_bytes=combination.sector_bytes or 512, seed=seed
        )
        fault = control.fault(power_loss)
        left = processes.kill(family, timeout_s=_END_TIMEOUT_S)
        if left:
            raise HostError(f"server processes {[entry.pid for entry in left]} do not end")
        self.server.process = None
        self._family = family
        self._release()
        control.clear(fault.id)
        return at, fault.lost

    def restore(self) -> Restored:
        """Mount, which replays the filesystem's journal, and start, which recovers."""
        began = time.monotonic()
        try:
            self._up()
        except HostError as error:
            return Restored(time.monotonic() - began, None, f"mounting failed: {error}")
        self.control.set_limits(False)
        mounted = time.monotonic()
        self._forget_processes()
        try:
            self.start()
        except HostError as error:
            return Restored(mounted - began, None, f"recovery failed: {error}")
        return Restored(mounted - began, time.monotonic() - mounted)

    def log_tail(self, lines: int = 200) -> list[str]:
        """The end of the server's log since its last start."""
        try:
            return self.server.log_file.read_text(errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    def _forget_processes(self) -> None:
        """Make sure that the new server does not believe the killed one is running."""
        if not processes.wait_until_reaped(self._family, timeout_s=_REAP_TIMEOUT_S):
            # Nobody reaps here, as in a container without an init. That nothing of the old server
            # runs is known: its filesystem could be unmounted.
            (self.server.data_directory / "postmaster.pid").unlink(missing_ok=True)
        for path in self.server.runtime_directory.glob(".s.PGSQL.*"):
            path.unlink()

    def _up(self) -> None:
        assert self._layout is not None
        devices = [
            Device(
                volume.name,
                volume.total_bytes,
                stripes=1,
                chunk_bytes=volume.chunk_bytes,
                member=Member(None, None, 256 * KIB, _LATENCY),
            )
            for volume in self._layout.volumes
        ]
        bring_up.up(self._layout, devices, None, state_directory=self._state.path, owner=self._user)

    def _release(self) -> None:
        """Unmount and detach: a machine that starts again has no page cache of before."""
        state = self._state.read()
        for entry in () if state is None else state.volumes:
            if entry.loop is None:
                continue
            with suppress(OSError):  # it has stopped by itself
                mounts.shut_down(Path(entry.volume.mount))
            self._unmount(entry.loop)
            if not loops.detach(entry.loop):
                raise HostError(f"{entry.loop.device} is still in use after the power cut")

    def _unmount(self, loop: Loop) -> None:
        deadline = time.monotonic() + _END_TIMEOUT_S
        for mount in mounts.mounts_of(loop.device):
            while True:
                try:
                    mounts.unmount(mount)
                    break
                except HostError:  # a process that the server had just begun
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_S)

    def _remove_segments(self) -> None:
        """Remove what a killed server leaves where the cut took its lock file, which names it."""
        for line in _SEGMENTS.read_text().splitlines()[1:]:
            fields = line.split()
            is_unused = fields[6] == "0"
            if is_unused and (int(fields[0]), int(fields[1])) in self._segments:
                programs.run(["ipcrm", "--shmem-id", fields[1]], timeout_s=_SYNC_TIMEOUT_S)

    def _clear_leftovers(self) -> None:
        """What a campaign that was killed has left: its server, then its volumes."""
        pid = postmaster.running_pid(str(self._mounts / "data/pgdata"))
        if pid is not None:
            processes.kill(processes.family(pid), timeout_s=_END_TIMEOUT_S)
        take_down.down(self._state.path, force=True)


def _shared_memory(data_directory: Path) -> tuple[int, int] | None:
    """Key and id of a server's System V shared memory, from the seventh line of its lock file."""
    try:
        key, segment = (data_directory / "postmaster.pid").read_text().split("\n")[6].split()
    except (OSError, ValueError, IndexError):
        return None
    return int(key), int(segment)


def seeded(seed: int, *parts: object) -> random.Random:
    """A random number generator of its own for each part of a campaign."""
    return random.Random(f"{seed} {parts}")  # noqa: S311  (a load, no secrets)
