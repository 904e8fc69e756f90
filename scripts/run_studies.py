"""Run the published studies' experiments again, one after the other, unattended.

    sudo .venv/bin/python scripts/run_studies.py WORKSPACE [--striping rows]

First it says how long that takes, by the trials that are recorded in docs/studies. A study that
fails is told at the end and does not keep the others from running; started again, it goes on where
it was. ``scripts/update_studies.py WORKSPACE`` then writes the page. ``--striping rows`` runs the
rows of striping's table beside its sixteen stripes too, ``--striping all`` all of it, which takes
nearly as long as the others together; ``--profile ci`` is a rehearsal of seconds a study.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from update_studies import path, read, set_up_s

from pgstow.experiment.design import SET_UP_S
from pgstow.experiment.timetable import scheduled_s
from pgstow.experiment_file import experiment_names, read_experiment
from pgstow.model import Experiment
from pgstow.units import format_duration

RUNS = (
    ("wal-split", "full"),
    ("filesystem", "full"),
    ("placement", "full"),
    ("placement", "idle"),
    ("gp3-iops", "full"),
    ("io2", "full"),
    ("indexes-on-fast", "full"),
    ("dedicated-log-volume", "full"),
    ("dedicated-log-volume", "rows"),
    ("volume-types", "full"),
)
STRIPING = {"rows": (("striping", "rows"),), "all": (("striping", "full"), ("striping", "rows"))}
_REPEATS = 4  # of a trial from which a hypervisor took processors
FIXED_TRANSACTIONS_S = 15.0  # what a trial of dedicated-log-volume's rows took, about


def main() -> int:
    """Run what is wanted; the exit status says whether all of it ended well."""
    parser = argparse.ArgumentParser(description="Run the published studies' experiments again.")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--profile", help="this profile of each, in place of the recorded ones")
    parser.add_argument("--striping", choices=tuple(STRIPING), help="striping too, or its rows")
    parser.add_argument("--dry-run", action="store_true", help="only say how long it takes")
    given = parser.parse_args()
    runs: Sequence[tuple[str, str]] = (*RUNS, *STRIPING.get(given.striping, ()))
    if given.profile:
        runs = [(name, given.profile) for name in experiment_names()]
    expected = {run: length_s(read_experiment(*run)) for run in runs}
    for (name, profile), seconds in expected.items():
        print(f"{name} {profile}: about {format_duration(seconds)}")
    print(f"in all about {format_duration(sum(expected.values()))}, and a few minutes more where "
          "the data are not loaded yet", flush=True)  # fmt: skip
    if given.dry_run:
        return 0
    failed = [run for run in runs if not _run(*run, given.workspace)]
    for name, profile in failed:
        print(f"{name} {profile} failed", file=sys.stderr)
    return 1 if failed else 0


def length_s(experiment: Experiment) -> float:
    """How long a run takes, with the set-up that its recorded trials took."""
    file = path(experiment.name, "full")
    before_s = (set_up_s(*read(file)) if file.exists() else None) or SET_UP_S
    return experiment.blocks * sum(
        before_s
        + (FIXED_TRANSACTIONS_S if one.workload.transactions is not None else scheduled_s(one))
        for one in experiment.treatments
    )


def _run(name: str, profile: str, workspace: Path) -> bool:
    """One study, to its end; whether that was good."""
    began_s = time.monotonic()
    command = [sys.executable, "-c", "from pgstow.cli import main; main()", "bench", "run", name]
    command += ["--profile", profile, "--workspace", str(workspace), "--repeats", str(_REPEATS)]
    status = subprocess.run(command, check=False).returncode
    took = format_duration(time.monotonic() - began_s)
    print(f"{name} {profile}: status {status} after {took}", flush=True)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
