"""Measure combinations of layout and workload on emulated volumes, each with its profile.

A trial: the data copied, the load without limits until caches are full, a checkpoint, limits in
force, settled, measured; beside it `observe`, the instruments and who used the processors.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from prediction_cases import LAYOUTS, Case, treatment
from pydantic import TypeAdapter

from pgstow import catalog, emulate, observe
from pgstow.cli import bench_volumes
from pgstow.experiment.builds import build
from pgstow.experiment.instruments import Recorder
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets import EmulatedTarget
from pgstow.experiment.targets.target import Ready
from pgstow.experiment.workloads import generator
from pgstow.host import cpu, installations
from pgstow.model import Instruments, Layout, Outcome, Profile, Treatment, Volume
from pgstow.postgres import connect

VERSION = 1
_INTERVAL_S = 3.0
_PROBES_PER_S = 20.0
_SAMPLES_PER_S = 5.0
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux's sched.h
_SLACK_S = 60.0
_AGES = (
    "SELECT extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND state <> 'idle' AND application_name = 'pgbench'"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Busy cores by who kept them busy; of what is missing to all, interrupts are most."""

    all: float
    server: float
    clients: float
    emulator: float
    observer: float
    kernel: float
    others: float  # what had no business there and was there all the time

    @property
    def disturbance(self) -> float:
        """What nobody who belongs there used."""
        known = self.server + self.clients + self.emulator + self.observer + self.kernel
        return self.all - known


@dataclass(frozen=True, slots=True)
class Record:
    """One combination. Credits in the layout are those when the limits came into force."""

    workload: str
    layout_name: str
    layout: Layout
    settings: tuple[tuple[str, str], ...]
    memory_bytes: int
    clients: int
    settle_s: float
    duration_s: float
    outcome: Outcome
    commit_ms: tuple[float, ...]
    transaction_ages_ms: tuple[float, ...]  # of those under way, at samples
    usage: Usage
    instruments: Instruments
    profile: Profile
    measured_with: tuple[tuple[str, str], ...]
    began_at: float


_RECORDS = TypeAdapter(dict[str, Record])


def read(path: Path) -> dict[str, Record]:
    """The records of a file by "workload/layout"; none where there is no file."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["version"] != VERSION:
        raise SystemExit(f"{path} has records of version {document['version']}, not {VERSION}")
    return _RECORDS.validate_python(document["records"], strict=False)


def write(path: Path, records: dict[str, Record]) -> None:
    """Replace the file by these records, one a line."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
        for key, value in sorted(_RECORDS.dump_python(records, mode="json").items())
    ]
    text = f'{{"version": {VERSION}, "records": {{\n' + ",\n".join(lines) + "\n}}\n"
    partial = path.with_suffix(".part")
    partial.write_text(_rounded(text), encoding="utf-8")
    partial.replace(path)


def _rounded(text: str) -> str:
    """The same document with floats of six digits: more are noise."""

    def short(literal: str) -> Any:
        value = float(f"{float(literal):.6g}")
        return int(value) if value.is_integer() and abs(value) < 1e15 else value

    document = json.loads(text, parse_float=short)
    records = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
        for key, value in document["records"].items()
    )
    return f'{{"version": {VERSION}, "records": {{\n{records}\n}}}}\n'


@dataclass
class _Volumes(bench_volumes.EmulatedVolumes):
    """The emulated volumes of a trial, and when they came into being."""

    made_at: float = 0.0
    limited_at: float = 0.0

    def up(self, layout: Layout) -> None:
        """Make them."""
        self.made_at = time.monotonic()
        super().up(layout)

    def limits(self, enabled: bool) -> None:
        """Switch the limits, and note when they come into force."""
        super().limits(enabled)
        if enabled:
            self.limited_at = time.monotonic()


@contextmanager
def settled(
    case: Case,
    treatment: Treatment,
    volumes: bench_volumes.EmulatedVolumes,
    run_context: RunContext,
) -> Iterator[tuple[Ready, Any, Any]]:
    """A trial ready to be measured, its load and that as it runs.

    On fresh volumes, the caches filled without limits, then settled with them.
    """
    target = EmulatedTarget(make_volumes=lambda: volumes)

    def make(choice: Any, data: Any) -> Any:
        bindir = installations.newest_bindir()
        return generator(choice, data, bindir=bindir, scripts_directory=None)

    load = make(case.workload, case.data)
    load.check()
    target.prepare([treatment], make, run_context)
    with target.ready(treatment, make, run_context) as ready:
        running_s = case.filling_s + case.settle_s + case.duration_s + _SLACK_S
        with load.start(
            ready.dsn, duration_s=running_s, log_directory=ready.log_directory, seed=7
        ) as running:
            ready.note_clients(running.pids())
            run_context.sleep(case.filling_s, "filling the caches")
            ready.begin()
            run_context.sleep(case.settle_s, "settling")
            yield ready, load, running


def record(case: Case, layout: str, run_context: RunContext) -> Record:
    """Run one combination."""
    volumes = _Volumes()
    chosen = LAYOUTS[layout]
    with settled(case, treatment(case, layout, chosen), volumes, run_context) as (
        ready,
        load,
        running,
    ):
        watched = _watch(case, ready, running, run_context)
        running.stop()
        outcome = running.outcome(watched.began_at, watched.ended_at)
        versions = asdict(build(ready.server_version, load.version()))
    elapsed_s = volumes.limited_at - volumes.made_at
    return Record(
        workload=case.name,
        layout_name=layout,
        layout=_with_credits(chosen, elapsed_s),
        settings=case.settings,
        memory_bytes=case.memory,
        clients=case.workload.clients,
        settle_s=case.settle_s,
        duration_s=watched.ended_at - watched.began_at,
        outcome=outcome,
        commit_ms=watched.profile.commit_ms,
        transaction_ages_ms=tuple(watched.ages_ms),
        usage=watched.usage,
        instruments=watched.instruments,
        profile=replace(watched.profile, commit_ms=()),
        measured_with=tuple(versions.items()),
        began_at=watched.began_at,
    )


@dataclass
class _Watched:
    began_at: float
    ended_at: float
    profile: Profile
    usage: Usage
    instruments: Instruments
    ages_ms: list[float]


def _watch(case: Case, ready: Ready, running: Any, run_context: RunContext) -> _Watched:
    """Observe, record and count for the time that is measured."""
    run_context.report("measuring")
    with (
        _sampled_ages(ready.dsn) as ages_ms,
        Recorder(
            ready.dsn, volumes=ready.volumes, client_pids=running.pids, is_local=True
        ) as recorder,
    ):
        processors = _Processors(ready.dsn, running.pids())
        began_at = time.time()
        profile = observe.observe(
            ready.dsn,
            duration_s=case.duration_s,
            interval_s=_INTERVAL_S,
            emulated=_named(),
            commit_probe_per_s=_PROBES_PER_S,
            clock=time.monotonic,
            sleep=time.sleep,
        )
        ended_at = time.time()
        usage = processors.usage()
    return _Watched(began_at, ended_at, profile, usage, recorder.instruments, ages_ms)


def _named() -> tuple[Volume, ...]:
    """The emulated volumes, so that observe knows what the mounts are."""
    return tuple(one.volume for one in emulate.emulated_volumes(bench_volumes.STATE_DIRECTORY))


class _Processors:
    """Who uses the processors, by the processes there are at two times, in seconds."""

    def __init__(self, dsn: str, client_pids: tuple[int, ...]) -> None:
        with connect(dsn, purpose="observe") as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity").fetchall()
        emulator = emulate.read_status(bench_volumes.STATE_DIRECTORY).pid
        self._known = {row[0]: "server" for row in rows} | dict.fromkeys(client_pids, "clients")
        self._known |= {emulator: "emulator", os.getpid(): "observer"}
        self._before = _process_seconds()
        self._busy_s = cpu.busy_core_seconds()
        self._began_s = time.monotonic()

    def usage(self) -> Usage:
        """Mean busy cores since."""
        busy_s, seconds = cpu.busy_core_seconds() - self._busy_s, time.monotonic() - self._began_s
        used = {"server": 0.0, "clients": 0.0, "emulator": 0.0, "observer": 0.0, "kernel": 0.0}
        used["others"] = 0.0
        for pid, (now_s, is_kernel) in _process_seconds().items():
            who = "kernel" if is_kernel else self._known.get(pid, "others")
            used[who] += now_s - self._before.get(pid, (0.0, False))[0]
        return Usage(all=busy_s / seconds, **{who: own / seconds for who, own in used.items()})


def _process_seconds() -> dict[int, tuple[float, bool]]:
    """Every process's processor seconds, and whether it is the kernel's own."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            is_kernel = bool(int(fields[6]) & _KERNEL_THREAD)
            found[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / ticks, is_kernel
    return found


@contextmanager
def _sampled_ages(dsn: str) -> Iterator[list[float]]:
    """How old the clients' transactions under way are, again and again, in milliseconds."""
    ages_ms: list[float] = []
    ended = threading.Event()

    def sample() -> None:
        with connect(dsn, purpose="observe") as connection:
            while not ended.wait(1 / _SAMPLES_PER_S):
                rows = connection.execute(_AGES)
                ages_ms.extend(round(row[0] * 1e3, 2) for row in rows if row[0] is not None)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield ages_ms
    finally:
        ended.set()
        thread.join()


def _with_credits(layout: Layout, elapsed_s: float) -> Layout:
    """The layout with the burst credits there were after so long without traffic."""
    rules = catalog.load()

    def later(volume: Volume) -> Volume:
        burst = rules.device(volume, layout.host).member.burst
        if burst is None or volume.burst_credits is None:
            return volume
        earned = elapsed_s * burst.refill_per_s / burst.capacity
        return replace(volume, burst_credits=min(1.0, volume.burst_credits + earned))

    return replace(layout, volumes=tuple(later(volume) for volume in layout.volumes))
