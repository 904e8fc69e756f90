"""Observe a live server: sample it and its host for a period, then make the profile."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

from pgstow.host import cpu, devices
from pgstow.host.devices import Filesystem
from pgstow.model.errors import PgstowError, UserError
from pgstow.model.profile import Profile, ServerState
from pgstow.model.provenance import Warning
from pgstow.model.storage import Layout, Volume
from pgstow.observe.aggregate import Machine, Observation, aggregate
from pgstow.observe.intervals import Sample
from pgstow.observe.layout import PresentLayout, present_layout
from pgstow.postgres.probe import CommitProbe
from pgstow.postgres.sampling import Sampler
from pgstow.postgres.state import Inspection, inspect

_SLICE_S = 0.2  # how long a request to stop may go unseen
_GIVE_UP_S = 60.0  # without an answer from the server
_SHORTEST_INTERVAL_S = 1.0  # the server publishes its counters about once a second


def observe(
    dsn: str = "",
    *,
    duration_s: float,
    interval_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    layout: Layout | None = None,
    emulated: tuple[Volume, ...] = (),
    commit_probe_per_s: float | None = None,
    progress: Callable[[float, float], None] = lambda _done, _total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Profile:
    """Sample a server every ``interval_s`` for ``duration_s`` seconds, or until ``stop()``.

    ``clock`` is monotonic; ``progress(done_s, total_s)`` is called as time passes. What the
    volumes are is given by ``layout``; what it does not give, by the ``emulated`` volumes with the
    same mount. ``commit_probe_per_s`` is the rate of tiny commits to time; they write WAL, so the
    default is none.
    """
    if not _SHORTEST_INTERVAL_S <= interval_s <= duration_s:
        raise UserError(
            f"an interval of {interval_s:g} s does not fit a duration of {duration_s:g} s",
            "use an interval of at least 1 s, and a duration of at least one interval",
        )
    inspection = inspect(dsn)
    if commit_probe_per_s and inspection.state.is_in_recovery:
        raise UserError("a standby cannot be probed with commits", "leave out --commit-probe")
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    state = inspection.state
    with (
        Sampler(dsn, state.databases, clock) as sampler,
        CommitProbe(dsn, commit_probe_per_s, clock) as probe,
    ):
        loop = _Loop(sampler, probe, state.is_local, clock, sleep, progress, stop)
        loop.run(duration_s, interval_s)
    inspection, later = _inspect_again(dsn, inspection)
    state = inspection.state
    present = present_layout(state, filesystems_of(state), layout, emulated, devices.is_mount)
    return aggregate(
        Observation(
            started_at=started_at,
            inspection=inspection,
            layout=present.layout,
            samples=tuple(loop.samples),
            machine=_machine(present) if state.is_local else None,
            warnings=(*present.warnings, *loop.warnings, *later, *probe.warnings),
            commit_ms=tuple(probe.commit_ms),
        )
    )


@dataclass
class _Loop:
    """The sampling loop; a server that does not answer is asked again at the next interval."""

    sampler: Sampler
    probe: CommitProbe
    is_local: bool
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    progress: Callable[[float, float], None]
    stop: Callable[[], bool]
    samples: list[Sample] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)

    def run(self, duration_s: float, interval_s: float) -> None:
        """Take samples until the time is over, the user stops, or the server stays away."""
        began_s = self.clock()
        count = max(1, round(duration_s / interval_s))
        lost_at_s: float | None = None
        for number in range(count + 1):
            self._wait_until(began_s + number * interval_s, began_s, duration_s)
            if self.stop() and not self._is_worth_a_sample():
                break
            try:
                self._sample()
                lost_at_s = None
            except PgstowError as error:
                self.sampler.close()
                if not self.samples:
                    raise
                lost_at_s = self._lost(error, lost_at_s)
                if self.clock() - lost_at_s > _GIVE_UP_S:
                    break
            if self.stop():
                break
        if len(self.samples) < 2:
            raise UserError("too little was seen: fewer than two samples", "let it run for longer")

    def _sample(self) -> None:
        server = self.sampler.sample()
        written = self.probe.commits
        server = replace(
            server,
            own_transactions=server.own_transactions + written,
            own_write_transactions=written,
            own_busy_ms=server.own_busy_ms + self.probe.busy_ms,
        )
        self.samples.append(Sample(server, devices.sample(server.at_s) if self.is_local else None))

    def _lost(self, error: PgstowError, since_s: float | None) -> float:
        if since_s is not None:
            return since_s
        self.warnings.append(
            Warning("connection-lost", f"the server did not answer for a while: {error.message}")
        )
        return self.clock()

    def _is_worth_a_sample(self) -> bool:
        """Whether enough time has passed since the last sample for a last one."""
        if not self.samples:
            return False
        return self.clock() - self.samples[-1].server.at_s >= _SHORTEST_INTERVAL_S

    def _wait_until(self, at_s: float, began_s: float, duration_s: float) -> None:
        while not self.stop():
            now_s = self.clock()
            self.progress(min(now_s - began_s, duration_s), duration_s)
            if now_s >= at_s:
                return
            self.sleep(min(_SLICE_S, at_s - now_s))


def _inspect_again(dsn: str, first: Inspection) -> tuple[Inspection, tuple[Warning, ...]]:
    """The state at the end, when sizes and relations are those the samples speak of."""
    try:
        return inspect(dsn), ()
    except PgstowError as error:
        reason = f"the server's state is that of the beginning: {error.message}"
        return first, (Warning("state-stale", reason),)


def filesystems_of(state: ServerState) -> dict[str, Filesystem | None]:
    """The filesystem of each directory the server uses; empty where the host cannot be seen."""
    if not state.is_local:
        return {}
    paths = [state.data_directory, *(space.location for space in state.tablespaces)]
    if state.wal_directory is not None:
        paths.append(state.wal_directory)
    # A tablespace made inside the data directory has a location relative to it.
    absolute = {path: str(PurePosixPath(state.data_directory) / path) for path in paths}
    return {path: devices.filesystem_of(real) for path, real in absolute.items()}


def _machine(present: PresentLayout) -> Machine:
    return Machine(cpu.cores(), cpu.memory_bytes(), present.volume_of_device)
