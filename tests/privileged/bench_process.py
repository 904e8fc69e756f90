"""A run of an experiment in a process of its own, to be killed or interrupted.

``python bench_process.py DIRECTORY BLOCKS`` prints what is being done, and each trial.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgstow import catalog, emulate
from pgstow.experiment.instruments import Recorder
from pgstow.experiment.run import run
from pgstow.experiment.targets import EmulatedTarget
from pgstow.experiment.targets.target import EndWatch
from pgstow.experiment.trial import Tools
from pgstow.experiment.workloads import generator
from pgstow.host.server import unprivileged_user
from pgstow.model import (
    DataChoice,
    Experiment,
    HostSpec,
    Layout,
    Placement,
    Schedule,
    ServerChoice,
    Treatment,
    Trial,
    Volume,
    WorkloadChoice,
)
from pgstow.units import GIB, MIB, Bytes

TOOLS = Tools(generator, Recorder)


@dataclass
class EmulatedVolumes:
    """Emulated volumes in a directory of the test's own."""

    state: Path

    def up(self, layout: Layout) -> None:
        rules = catalog.load()
        devices = [rules.device(volume, layout.host) for volume in layout.volumes]
        emulate.up(
            layout,
            devices,
            rules.host_cap(layout.host),
            state_directory=self.state,
            owner=unprivileged_user(),
        )

    def down(self) -> None:
        emulate.down(self.state, force=True)

    def limits(self, enabled: bool) -> None:
        emulate.set_limits(self.state, enabled)

    def watch(self) -> EndWatch:
        return lambda: ()

    def devices(self) -> Mapping[str, str]:
        volumes = emulate.read_status(self.state).volumes
        return {Path(one.loop_device).name: one.name for one in volumes if one.loop_device}


def target(directory: Path) -> EmulatedTarget:
    """Everything of it below a directory."""
    return EmulatedTarget(
        make_volumes=partial(EmulatedVolumes, directory / "emulator"),
        cache_directory=directory / "cache",
        state_directory=directory / "state",
    )


def experiment(blocks: int = 1) -> Experiment:
    """WAL with the data, and on a volume of its own."""
    return Experiment(
        name="wal",
        title="WAL apart",
        target="emulated",
        treatments=(_treatment("together", "data"), _treatment("apart", "wal")),
        compare="wal",
        baseline="together",
        blocks=blocks,
        seed=3,
    )


def _treatment(level: str, wal: str) -> Treatment:
    names = ("data",) if wal == "data" else ("data", "wal")
    volumes = tuple(Volume(name, "gp3", Bytes(20 * GIB), f"/mnt/{name}") for name in names)
    return Treatment(
        (("wal", level),),
        WorkloadChoice("tpcb-like", clients=4),
        DataChoice("pgbench", 2),
        Schedule(duration_s=3, warm_up_s=1),
        ServerChoice(18, (("shared_buffers", "32MB"),), Bytes(256 * MIB)),
        Layout(HostSpec("ec2", "us-east-1"), volumes, Placement("data", wal)),
    )


def main() -> None:
    """Run all blocks."""
    directory, blocks = Path(sys.argv[1]), int(sys.argv[2])
    last = [""]

    def progress(done_s: float, total_s: float, what: str) -> None:
        if what != last[0]:
            last[0] = what
            print(f"{done_s:.1f}/{total_s:.1f} {what}", flush=True)

    def on_trial(trial: Trial) -> None:
        print("trial", json.dumps([trial.block, trial.levels[0][1]]), flush=True)

    run(experiment(blocks), target(directory), TOOLS, on_trial=on_trial, progress=progress)


if __name__ == "__main__":
    main()
