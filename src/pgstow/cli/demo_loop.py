"""The demo's loop: load, observe, plan, apply, verify, on an own server under load."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.cli import demo_time
from pgstow.cli.demo_place import DemoVolumes
from pgstow.model.errors import PgstowError, UserError

if TYPE_CHECKING:
    from pgstow.apply import Observer, Outcome
    from pgstow.catalog import Catalog
    from pgstow.experiment.workloads import RunningPgbench, WorkloadSpec
    from pgstow.host.memory_limit import MemoryLimit
    from pgstow.host.server import EmbeddedServer
    from pgstow.model import Goal, Layout, Measurement, Plan, Profile, Step
    from pgstow.workspace import Workspace

MEMORY_LIMIT_MIB = 512
_BUDGET_SHARE = 1.5  # the plan may cost half as much again as the single volume
_COMMIT_SHARE = 0.25  # and have commits wait a quarter as long
_SHORTEST_COMMIT_MS = 10.0  # where they do not wait for long as it is
_PROBES_PER_S = 40.0
_INTERVAL_S = 3.0
_WARM_UP_S = 12.0
_PLANS = 3  # made anew with less to move, at most
_LONGEST_S = 900  # of the load; it is stopped when the demo is done

# As a small production server: durable, with checkpoints often enough to fall into the window.
SERVING = {
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "30s",
    "max_connections": "120",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "work_mem": "4MB",
    "jit": "off",
}

Report = Callable[[str], None]


@dataclass
class Demo:
    """One run of the demo. ``report`` is called as each stage begins."""

    volumes: DemoVolumes
    server: "EmbeddedServer"
    store: "Workspace"
    rules: "Catalog"
    out: Path
    limit: "MemoryLimit | None"
    scale: int
    clients: int
    window_s: float
    layout: "Layout"  # the one it starts from
    report: Report
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """What is left of the time that all of it is to take at most."""
        return self.began + demo_time.longest_s(self.window_s) - time.monotonic()

    @property
    def warm_up_s(self) -> float:
        """How long the load runs before it is looked at."""
        return min(_WARM_UP_S, self.window_s / 2)

    @property
    def dsn(self) -> str:
        """The content platform's database."""
        from pgstow.experiment.workloads.content_platform import DATABASE

        return self.server.dsn_for(DATABASE)

    def load(self, progress: Callable[[float, float], None]) -> "WorkloadSpec":
        """Make the data with no limits in force, then start as a small production server."""
        from pgstow.experiment.workloads import content_platform
        from pgstow.host.memory_limit import forget_files

        self.volumes.limits(enabled=False)
        self.server.initialise()
        self._start(content_platform.LOAD_SETTINGS)
        content_platform.create_database(self.server.dsn)
        loaded = content_platform.load(self.server.dsn, scale=self.scale, progress=progress)
        self.server.stop()
        forget_files(self.server.data_directory)
        self.server.memory_limit = self.limit
        self._start(SERVING | ({} if self.limit else {"debug_io_direct": "data"}))
        self.volumes.limits(enabled=True)
        return content_platform.workload(loaded.extent, clients=self.clients)

    def start_load(self, spec: "WorkloadSpec", name: str) -> "RunningPgbench":
        """Start the load in the background; a restart of the server interrupts it, no more."""
        from pgstow.experiment import workloads

        return workloads.start(
            spec,
            self.dsn,
            duration_s=_LONGEST_S,
            log_directory=self.volumes.directory / name,
            bindir=self.server.bindir,
            survive_restarts=True,
        )

    def look(
        self,
        load: "RunningPgbench",
        layout: "Layout",
        progress: Callable[[float, float], None],
        *,
        window_s: float | None = None,
    ) -> "tuple[Profile, Measurement]":
        """Observe one window of the load, end the load, and measure the window.

        Throughput and latency are the clients'; the rest is the server's and the host's.
        """
        from pgstow import observe
        from pgstow.cli.verify import measure
        from pgstow.model import LatencyMs

        time.sleep(self.warm_up_s)
        limited = self.volumes.watch()
        began_at = time.time()
        profile = observe.observe(
            self.dsn,
            duration_s=window_s or self.window_s,
            interval_s=_INTERVAL_S,
            layout=layout,
            commit_probe_per_s=_PROBES_PER_S,
            clock=time.monotonic,
            sleep=time.sleep,
            progress=progress,
        )
        ended_at, warnings = time.time(), limited()
        load.stop()
        outcome = load.outcome(began_at, ended_at)
        # What was observed says more of the layout before (its tablespaces) than what was asked.
        shown = profile.layout if layout == self.layout else layout
        found = measure(profile, shown, self.rules, self.volumes.provenance)
        latency = LatencyMs(outcome.mean_ms, outcome.p99_ms)
        performance = replace(found.performance, tps=outcome.tps, latency_ms=latency)
        measured = replace(
            found,
            performance=performance,
            tps_samples=outcome.tps_samples,
            warnings=(*found.warnings, *warnings),
        )
        self.store.add("profile", profile)
        self.store.add("measurement", measured)
        return profile, measured

    def plan(self, before: "Measurement", profile: "Profile") -> "Plan":
        """The fastest layout for half as much again, with a quarter of the commits' p99."""
        from pgstow import planning
        from pgstow.model import Goal

        p99_ms = before.performance.commit_ms.p99
        goal = Goal(
            budget_usd_month=(before.performance.usd_month or 0.0) * _BUDGET_SHARE,
            commit_p99_ms=max(p99_ms * _COMMIT_SHARE, _SHORTEST_COMMIT_MS) if p99_ms else None,
        )
        found = self._in_time(planning.plan(profile, goal, self.rules), profile, goal)
        self.store.add("plan", found)
        return found

    def _in_time(self, found: "Plan", profile: "Profile", goal: "Goal") -> "Plan":
        """The plan, or one that moves no more than there is time for."""
        from pgstow import planning
        from pgstow.cli.diff import between, format_time

        within_s = demo_time.moving_s(self.left_s, self.warm_up_s, self.window_s)
        for _ in range(_PLANS):
            steps = between(profile.server, found.layout, self.store).steps
            fit = demo_time.bytes_that_fit(steps, within_s)
            if fit is None:
                break
            self.report(
                f"That would take {format_time(steps)}, and {within_s:.0f} s are left for it: "
                "planning with less to move"
            )
            try:
                found = planning.plan(profile, replace(goal, max_move_bytes=fit), self.rules)
            except UserError:  # so little would not meet the goal: rather late than nothing
                break
        return found

    def apply(
        self, layout: "Layout", watching: "Callable[[Sequence[Step]], Observer]"
    ) -> "tuple[Outcome, ...]":
        """Make the volumes and move what is to move, under load; pg_wal last, by a restart."""
        from pgstow import apply
        from pgstow.cli.diff import between
        from pgstow.cli.loop import remember_layout
        from pgstow.host import processes
        from pgstow.layout_file import layout_digest
        from pgstow.postgres import read_state

        self.volumes.up(layout)
        found = between(read_state(self.dsn), layout, self.store)
        remember_layout(self.store, layout)
        result = apply.run(
            found.steps,
            state=found.state,
            layout=layout_digest(layout),
            dsn=self.dsn,
            journal=self.store.journal,
            options=apply.Options(
                restart=True, plain_directories=not self.volumes.is_emulated, lock_wait_s=120
            ),
            observer=watching(found.steps),
        )
        if result.failed:
            failed = result.failed[0]
            raise PgstowError(f"step {failed.step.kind} {failed.step.subject}: {failed.note}")
        pid = self.server.pid  # another one, where pg_wal was moved
        self.volumes.server_runs(processes.identify(pid) if pid else None, self._cgroup)
        return result.outcomes

    @property
    def _cgroup(self) -> Path | None:
        return self.limit.directory if self.limit else None

    def _start(self, settings: dict[str, str]) -> None:
        self.server.start(settings)
        self.volumes.server_runs(self.server.process, self._cgroup)


@contextmanager
def memory_limit(report: Report) -> "Iterator[MemoryLimit | None]":
    """A control group so small that the caches hold a fraction of the data; None: not possible."""
    import os

    from pgstow.host.memory_limit import MemoryLimit

    found = MemoryLimit.create(f"pgstow-demo-{os.getpid()}", MEMORY_LIMIT_MIB * 1024 * 1024)
    if isinstance(found, str):
        report(f"No memory limit ({found}): debug_io_direct keeps the page cache out instead")
        yield None
        return
    try:
        yield found
    finally:
        found.remove()
