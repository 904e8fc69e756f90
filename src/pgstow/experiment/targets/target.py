"""What a trial needs of its target: a server in the state all trials begin from."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgstow.experiment.generator import Generator
from pgstow.experiment.run_context import RunContext
from pgstow.model.experiment import DataChoice, Experiment, Treatment, WorkloadChoice
from pgstow.model.provenance import Warning
from pgstow.model.storage import Layout

EndWatch = Callable[[], tuple[Warning, ...]]
MakeGenerator = Callable[[WorkloadChoice, DataChoice], Generator]


class Volumes(Protocol):
    """A layout's volumes. A new instance also finds what an earlier, killed one left."""

    def up(self, layout: Layout) -> None:
        """Make the volumes, mounted where the layout says."""
        ...

    def down(self) -> None:
        """Remove them and everything on them; nothing to remove is no error."""
        ...

    def limits(self, enabled: bool) -> None:
        """Switch what slows them down, as for loading quickly."""
        ...

    def devices(self) -> Mapping[str, str]:
        """Block devices, as /proc/diskstats names them, and the layout's volume on each."""
        ...

    def watch(self) -> EndWatch:
        """Begin to check that the volumes perform as specified; the result comes at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A server at rest, with the data as they were loaded."""

    dsn: str = field(repr=False)  # it may hold a password
    server_version: str
    log_directory: Path  # for the load generator's files; removed with the rest
    volumes: Mapping[str, str]  # block device to the layout's volume
    is_local: bool
    begin: Callable[[], None]  # make a checkpoint and put the volumes' limits in force
    note_clients: Callable[[Sequence[int]], None]  # so that they can be ended if we are killed
    watch: Callable[[], EndWatch] = lambda: lambda: ()  # of the volumes, in the measured time
    usd_month: float | None = None
    warnings: tuple[Warning, ...] = ()


class Target(Protocol):
    """Where trials run. It can be pickled: each machine makes its own servers."""

    def check(self, experiment: Experiment) -> None:
        """Refuse an experiment that cannot be made here, before anything is made."""
        ...

    def prepare(
        self, treatments: Sequence[Treatment], generator: MakeGenerator, run_context: RunContext
    ) -> None:
        """Load the data that the trials of these treatments need, once for all."""
        ...

    def ready(
        self, treatment: Treatment, generator: MakeGenerator, run_context: RunContext
    ) -> AbstractContextManager[Ready]:
        """A server for one trial; whatever was made for it is gone afterwards."""
        ...
