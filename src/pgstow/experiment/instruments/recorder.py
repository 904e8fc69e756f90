"""Read the instruments at the beginning and the end of a trial, and sample waits in between."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from pgstow.experiment.instruments import differences
from pgstow.experiment.instruments.waits import Sample, average_active_sessions
from pgstow.host import cpu, devices
from pgstow.model import CpuUse, DeviceUse, Instruments, Warning
from pgstow.model.errors import PgstowError
from pgstow.postgres.trial import TrialCounters, TrialSession
from pgstow.units import Bytes

_MOST_OF_INTERVAL = 0.05  # what a sample may take; a slower server is sampled less often
_LONGEST_INTERVAL_S = 2.0
_CPU_EVERY_S = 1.0


class Recorder:
    """Records while it is entered; then :attr:`instruments` and :attr:`warnings` are there.

    ``volumes`` names the volume of each block device of interest; ``client_pids`` are the load
    generator's processes. Where the server is not local, only SQL is used. What cannot be read is
    None and said in a warning: the trial goes on.
    """

    def __init__(
        self,
        dsn: str,
        *,
        volumes: Mapping[str, str],
        client_pids: Callable[[], Sequence[int]],
        is_local: bool,
        sample_interval_s: float = 0.1,
    ) -> None:
        self.instruments = Instruments()
        self.warnings: tuple[Warning, ...] = ()
        self._volumes = dict(volumes)
        self._client_pids = client_pids
        self._is_local = is_local
        self._interval_s = sample_interval_s
        self._session: TrialSession | None = None
        self._before: TrialCounters | None = None
        self._machine: devices.HostSample | None = None
        self._samples: list[Sample] = []
        self._client_cpu_s: dict[int, tuple[float, float]] = {}  # at first, and last
        self._told: list[Warning] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._session = TrialSession(dsn)
        except PgstowError as error:
            self._tell("instruments", f"the server's statistics cannot be read: {error.message}")

    def __enter__(self) -> Self:
        self._before = self._counters()
        self._began_s = time.monotonic()
        if self._is_local:
            self._machine = devices.sample(self._began_s)
        self._read_client_cpu()
        self._thread = threading.Thread(target=self._sample, name="instruments", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()
        seconds = time.monotonic() - self._began_s
        self._read_client_cpu()
        machine = devices.sample(time.monotonic()) if self._is_local else None
        self.instruments = replace(
            self._server(self._counters()),
            waits=average_active_sessions(self._samples, seconds),
            devices=self._devices(machine, seconds),
            cpu=self._cpu(machine, seconds),
        )
        self.warnings = tuple(self._told)
        if self._session is not None:
            self._session.close()

    def _counters(self) -> TrialCounters | None:
        if self._session is None:
            return None
        try:
            return self._session.counters()
        except PgstowError as error:
            self._tell("instruments", error.message)
            return None

    def _sample(self) -> None:
        """Sample the sessions' waits until the end; seldomer where a sample takes long."""
        due_s, cpu_due_s = self._began_s, self._began_s + _CPU_EVERY_S
        interval_s = self._interval_s
        while self._session is not None:
            due_s = max(due_s + interval_s, time.monotonic())
            if self._ended.wait(due_s - time.monotonic()):
                return
            asked_s = time.monotonic()
            try:
                sessions = self._session.waits()
            except PgstowError as error:
                self._tell("waits", error.message)
                return
            took_s = time.monotonic() - asked_s
            self._samples.append((asked_s - self._began_s, sessions))
            interval_s = max(self._interval_s, min(took_s / _MOST_OF_INTERVAL, _LONGEST_INTERVAL_S))
            if asked_s >= cpu_due_s:
                self._read_client_cpu()
                cpu_due_s = asked_s + _CPU_EVERY_S

    def _server(self, after: TrialCounters | None) -> Instruments:
        """What the server counted in between; nothing where its counters do not hold."""
        before = self._before
        if before is None or after is None:
            return Instruments()
        if before.started_at != after.started_at:
            self._tell("counter-reset", "the server was restarted in the middle of the trial")
            return Instruments(database_bytes=Bytes(after.database_bytes))
        wal = checkpoints = io = None
        if self._holds("wal", before, after) and not differences.went_back(before.wal, after.wal):
            wal = differences.wal_use(before.wal, after.wal)
        if self._holds("checkpoints", before, after):
            checkpoints = differences.checkpoint_use(before.checkpoints, after.checkpoints)
        if before.io is not None and after.io is not None and self._holds("io", before, after):
            io = differences.io_use(before.io, after.io)
        return Instruments(
            wal=wal, io=io, checkpoints=checkpoints, database_bytes=Bytes(after.database_bytes)
        )

    def _holds(self, kind: str, before: TrialCounters, after: TrialCounters) -> bool:
        """Whether statistics were not reset in between."""
        if before.resets.get(kind) == after.resets.get(kind):
            return True
        self._tell("counter-reset", f"the statistics of {kind} were reset in the trial")
        return False

    def _devices(
        self, after: devices.HostSample | None, seconds: float
    ) -> tuple[DeviceUse, ...] | None:
        before = self._machine
        if before is None or after is None:
            return None
        return tuple(
            differences.device_use(name, volume, before.devices[name], after.devices[name], seconds)
            for name, volume in self._volumes.items()
            if name in before.devices and name in after.devices
        )

    def _cpu(self, after: devices.HostSample | None, seconds: float) -> CpuUse | None:
        if self._machine is None or after is None:
            return None
        clients = [last - first for first, last in self._client_cpu_s.values()]
        return CpuUse(
            cores=cpu.cores(),
            busy_cores=(after.busy_core_s - self._machine.busy_core_s) / seconds,
            client_cores=sum(clients) / seconds if clients else None,
        )

    def _read_client_cpu(self) -> None:
        for pid in self._client_pids():
            with suppress(ProcessLookupError):  # it ended: what it last had stands
                now_s = cpu.process_cpu_seconds(pid)
                first_s, _ = self._client_cpu_s.get(pid, (now_s, now_s))
                self._client_cpu_s[pid] = first_s, now_s

    def _tell(self, code: str, message: str) -> None:
        self._told.append(Warning(code, message))
