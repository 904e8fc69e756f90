"""What trials are measured with: figures of different builds are not compared."""

import threading
from collections.abc import Iterable

from pgstow import __version__
from pgstow.host import machine
from pgstow.model.errors import UserError
from pgstow.model.experiment import Build, Experiment, Treatment, Trial

_WORDS = {
    "pgstow": "pgstow",
    "kernel": "the kernel",
    "machine": "the machine",
    "postgres": "PostgreSQL",
    "workload": "the load generator",
}


def build(server_version: str, generator_version: str) -> Build:
    """The build of a trial that this program runs on this machine."""
    return Build(
        pgstow=__version__,
        postgres=server_version,
        workload=generator_version,
        kernel=machine.kernel(),
        machine=machine.describe(),
    )


class Builds:
    """The builds of an experiment's trials so far, which every other trial's must equal.

    Treatments that ask for different major versions of the server, or for different workloads, are
    apart in that: each asks for the same server and load generator all through.
    """

    def __init__(self, experiment: Experiment, trials: Iterable[Trial] = ()) -> None:
        self._known: dict[tuple[str, object], str] = {}
        self._lock = threading.Lock()
        treatments = {treatment.levels: treatment for treatment in experiment.treatments}
        for trial in trials:
            if trial.levels in treatments:
                self.hold(treatments[trial.levels], trial.build)

    def hold(self, treatment: Treatment, build: Build) -> None:
        """Refuse a trial whose build differs from those before; else note it."""
        parts: tuple[tuple[str, object, str], ...] = (
            ("pgstow", None, build.pgstow),
            ("kernel", None, build.kernel),
            ("machine", None, build.machine),
            ("postgres", treatment.server.version, build.postgres),
            ("workload", treatment.workload.name, build.workload),
        )
        with self._lock:
            for part, of, value in parts:
                before = self._known.get((part, of), value)
                if before != value:
                    raise UserError(
                        f"different builds in one comparison: {_WORDS[part]} was {before} in the "
                        f"trials before and is {value} now",
                        "begin a new run, or go on with what the first trials had",
                    )
            for part, of, value in parts:
                self._known[(part, of)] = value

    def __getstate__(self) -> dict[str, str | object]:
        return {"known": dict(self._known)}

    def __setstate__(self, state: dict[str, dict[tuple[str, object], str]]) -> None:
        self._known = state["known"]
        self._lock = threading.Lock()
