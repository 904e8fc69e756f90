"""Read the instruments at the beginning and the end of a trial, and sample waits in between."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self, TypeVar

from pgstow.experiment import steal_time
from pgstow.experiment.instruments import differences
from pgstow.experiment.instruments.waits import Sample, average_active_sessions
from pgstow.host import cpu, devices
from pgstow.model import CpuUse, DeviceUse, Instruments, Warning
from pgstow.model.errors import PgstowError
from pgstow.postgres.probe import CommitProbe
from pgstow.postgres.trial import TrialCounters, TrialSession
from pgstow.units import Bytes

_Answer = TypeVar("_Answer")
_MOST_OF_INTERVAL = 0.05  # what a sample may take; a slower server is sampled less often
_LONGEST_INTERVAL_S = 2.0
_COUNTERS_EVERY_S = 1.0


class Recorder:
    """Records while it is entered; then :attr:`instruments` and :attr:`warnings` are there.

    ``volumes`` names the volume of each block device of interest; ``client_pids`` are the load
    generator's processes. Where the server is not local, only SQL is used. What cannot be read is
    None, with a warning: the trial goes on. With ``commit_probe_per_s`` over 0 so many test
    commits a second are sent and timed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        volumes: Mapping[str, str],
        client_pids: Callable[[], Sequence[int]],
        is_local: bool,
        commit_probe_per_s: float = 0.0,
        sample_interval_s: float = 0.1,
    ) -> None:
        self.instruments = Instruments()
        self.settings: tuple[tuple[str, str], ...] | None = None
        self.warnings: tuple[Warning, ...] = ()
        self._volumes = dict(volumes)
        self._client_pids = client_pids
        self._is_local = is_local
        self._interval_s = sample_interval_s
        self._session: TrialSession | None = None
        self._before: TrialCounters | None = None
        self._machine: list[devices.HostSample] = []  # about one a second
        self._wal_writes: list[tuple[int, float | None]] = []  # at the same times
        self._probe = CommitProbe(dsn, commit_probe_per_s or None, time.monotonic)
        self._samples: list[Sample] = []
        self._client_cpu_s: dict[int, tuple[float, float]] = {}  # at first, and last
        self._reported: list[Warning] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._session = TrialSession(dsn)
        except PgstowError as error:
            self._report("instruments", f"the server's statistics cannot be read: {error.message}")

    def __enter__(self) -> Self:
        self.settings = self._ask(lambda session: session.settings())
        self._before = self._counters()
        self._began_s = time.monotonic()
        self._stolen_core_s = cpu.stolen_core_seconds() if self._is_local else 0.0
        self._read_every_second()
        self._probe.__enter__()
        self._thread = threading.Thread(target=self._sample, name="instruments", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None, "entered"
        self._thread.join()
        seconds = time.monotonic() - self._began_s
        if self._is_local:
            self._stolen_core_s = cpu.stolen_core_seconds() - self._stolen_core_s
        self._read_every_second()
        after = self._counters()
        self._probe.__exit__(None, None, None)
        self._reported += self._probe.warnings
        self.instruments = replace(
            self._server(after),
            waits=average_active_sessions(self._samples, seconds),
            devices=self._devices(seconds),
            cpu=self._cpu(seconds),
            commits=differences.commit_use(self._probe.commit_ms),
        )
        self.warnings = (*self._reported, *steal_time.warnings(self.instruments))
        if self._session is not None:
            self._session.close()

    def _ask(self, question: Callable[[TrialSession], _Answer]) -> _Answer | None:
        """The server's answer; None, with a warning, where it gives none."""
        if self._session is None:
            return None
        try:
            return question(self._session)
        except PgstowError as error:
            self._report("instruments", error.message)
            return None

    def _counters(self) -> TrialCounters | None:
        return self._ask(lambda session: session.counters())

    def _sample(self) -> None:
        """Sample the sessions' waits until the end; seldomer where a sample takes long."""
        due_s, counters_due_s = self._began_s, self._began_s + _COUNTERS_EVERY_S
        interval_s = self._interval_s
        while self._session is not None:
            due_s = max(due_s + interval_s, time.monotonic())
            if self._ended.wait(due_s - time.monotonic()):
                return
            asked_s = time.monotonic()
            try:
                sessions = self._session.waits()
            except PgstowError as error:
                self._report("waits", error.message)
                return
            took_s = time.monotonic() - asked_s
            self._samples.append((asked_s - self._began_s, sessions))
            interval_s = max(self._interval_s, min(took_s / _MOST_OF_INTERVAL, _LONGEST_INTERVAL_S))
            if asked_s >= counters_due_s:
                self._read_every_second()
                counters_due_s = asked_s + _COUNTERS_EVERY_S

    def _server(self, after: TrialCounters | None) -> Instruments:
        """What the server counted in between; nothing where its counters do not hold."""
        before = self._before
        if before is None or after is None:
            return Instruments()
        if before.started_at != after.started_at:
            self._report("counter-reset", "the server was restarted in the middle of the trial")
            return Instruments(database_bytes=Bytes(after.database_bytes))
        wal = checkpoints = io = None
        if self._holds("wal", before, after) and not differences.went_back(before.wal, after.wal):
            wal = differences.wal_use(before.wal, after.wal, self._wal_writes)
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
        self._report("counter-reset", f"the statistics of {kind} were reset in the trial")
        return False

    def _devices(self, seconds: float) -> tuple[DeviceUse, ...] | None:
        if not self._machine:
            return None
        return tuple(
            differences.device_use(
                name, volume, [sample.devices[name] for sample in self._machine], seconds
            )
            for name, volume in self._volumes.items()
            if all(name in sample.devices for sample in self._machine)
        )

    def _cpu(self, seconds: float) -> CpuUse | None:
        if not self._machine:
            return None
        clients = [last - first for first, last in self._client_cpu_s.values()]
        busy_core_s = self._machine[-1].busy_core_s - self._machine[0].busy_core_s
        return CpuUse(
            cores=cpu.cores(),
            busy_cores=busy_core_s / seconds,
            client_cores=sum(clients) / seconds if clients else None,
            stolen_cores=self._stolen_core_s / seconds,
        )

    def _read_every_second(self) -> None:
        self._read_client_cpu()
        if self._is_local:
            self._machine.append(devices.sample(time.monotonic()))
        totals = self._ask(lambda session: session.wal_writes())
        if totals is not None:
            self._wal_writes.append(totals)

    def _read_client_cpu(self) -> None:
        for pid in self._client_pids():
            with suppress(ProcessLookupError):  # it ended: what it last had stands
                now_s = cpu.process_cpu_seconds(pid)
                first_s, _ = self._client_cpu_s.get(pid, (now_s, now_s))
                self._client_cpu_s[pid] = first_s, now_s

    def _report(self, code: str, message: str) -> None:
        if (warning := Warning(code, message)) not in self._reported:
            self._reported.append(warning)
