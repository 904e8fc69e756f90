"""A target, a load generator and instruments that do nothing and say in which order."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from experiment_samples import trial as sample_trial

from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets.target import MakeGenerator, Ready
from pgstow.experiment.trial import Tools
from pgstow.model import (
    CpuUse,
    DataChoice,
    Experiment,
    Instruments,
    Outcome,
    ServerError,
    Treatment,
    Warning,
    WorkloadChoice,
)

EVENTS: list[str] = []  # of this process, in their order
_LOCK = threading.Lock()


def note(event: str) -> None:
    with _LOCK:
        EVENTS.append(event)


@dataclass
class FakeRunning:
    """A load that ends soon, where it is not to be long or to fail."""

    level: str
    duration_s: float
    began_s: float = field(default_factory=time.monotonic)
    stopped: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        note(f"{self.level}: load gone")

    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    def wait(self, timeout_s: float | None = None) -> bool:
        if self.level == "fails":
            return True
        lasts_s = self.duration_s if self.duration_s > 100 else 0.02
        left_s = self.began_s + lasts_s - time.monotonic()
        if self.stopped or left_s <= 0:
            return True
        if timeout_s is None or timeout_s > left_s:
            time.sleep(max(left_s, 0))
            return True
        time.sleep(timeout_s)
        return False

    def stop(self) -> None:
        self.stopped = True
        note(f"{self.level}: load stopped")

    def outcome(self, began_at: float | None = None, ended_at: float | None = None) -> Outcome:
        if self.level == "fails":
            raise ServerError("the load failed")
        part = "part" if began_at is not None else "whole"
        note(f"{self.level}: outcome of the {part}")
        return sample_trial(0, 0, 100.0, wal=self.level).outcome


@dataclass
class FakeGenerator:
    """A load generator whose workload's name is its level."""

    level: str
    name: str = "fake"

    def version(self) -> str:
        return "fake 1"

    def check(self) -> None:
        note(f"{self.level}: checked")

    def load(self, dsn: str, progress: Callable[[float, float], None] | None = None) -> None:
        raise AssertionError("nothing is loaded here")

    def start(
        self,
        dsn: str,
        *,
        duration_s: float,
        log_directory: Path,
        seed: int,
        progress: Callable[[float, float], None] | None = None,
    ) -> FakeRunning:
        note(f"{self.level}: load started with seed {seed}")
        if self.level == "interrupted":
            raise KeyboardInterrupt
        return FakeRunning(self.level, duration_s)


STOLEN_CORES: deque[float] = deque()  # from the next trials, of two


class FakeRecording:
    """Instruments that read nothing, but what is stolen."""

    def __init__(
        self,
        dsn: str,
        *,
        volumes: Mapping[str, str],
        client_pids: Callable[[], Sequence[int]],
        is_local: bool,
        commit_probe_per_s: float = 0.0,
    ) -> None:
        self.dsn = dsn
        self.instruments = Instruments()
        self.settings: tuple[tuple[str, str], ...] | None = (("shared_buffers", "128MB"),)
        self.warnings: tuple[Warning, ...] = ()

    def __enter__(self) -> Self:
        note(f"{self.dsn}: recording")
        return self

    def __exit__(self, *_: object) -> None:
        note(f"{self.dsn}: recorded")
        if STOLEN_CORES:
            self.instruments = Instruments(cpu=CpuUse(2, 1.0, None, STOLEN_CORES.popleft()))
        self.warnings = (Warning("recorded", "it was"),)


def make_generator(
    choice: WorkloadChoice,
    data: DataChoice,
    *,
    bindir: Path | None,
    scripts_directory: Path | None,
) -> FakeGenerator:
    return FakeGenerator(choice.name)


LATE = (Warning("limited-by-emulator", "it was"),)
TOOLS = Tools(make_generator, FakeRecording)


@dataclass(frozen=True)
class FakeTarget:
    """A target whose servers' versions are what the test says."""

    versions: tuple[tuple[str, str], ...] = ()
    late: bool = False

    def check(self, experiment: Experiment) -> None:
        note("checked")

    def prepare(
        self, treatments: Sequence[Treatment], generator: MakeGenerator, run_context: RunContext
    ) -> None:
        note("prepared")

    @contextmanager
    def ready(
        self, treatment: Treatment, generator: MakeGenerator, run_context: RunContext
    ) -> Iterator[Ready]:
        level = treatment.workload.name
        run_context.report("making volumes")
        note(f"{level}: server up")
        try:
            yield Ready(
                dsn=level,
                server_version=dict(self.versions).get(level, "18.4"),
                log_directory=Path("/nonexistent"),
                volumes={},
                is_local=False,
                begin=lambda: note(f"{level}: checkpoint, limits on"),
                note_clients=lambda pids: note(f"{level}: clients noted"),
                watch=lambda: lambda: LATE if self.late else (),
                usd_month=8.0,
            )
        finally:
            note(f"{level}: server gone")
