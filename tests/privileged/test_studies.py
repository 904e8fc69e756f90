"""The studies' experiments, shortened: from their files to volumes, and to table and page.

Two run whole, and the others in the nightly tests; of every one the volumes are brought up.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgstow import catalog, emulate
from pgstow.cli.bench_volumes import STATE_DIRECTORY
from pgstow.experiment_file import experiment_names, read_experiment
from pgstow.host import mounts

pytestmark = pytest.mark.xdist_group("studies")  # their volumes have one place on a machine
WHOLE = ("volume-types", "wal-split")
PGSTOW = [sys.executable, "-c", "from pgstow.cli import main; main()"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project file for all."""
    return tmp_path_factory.mktemp("studies") / "pgstow.db"


def pgstow(*arguments: object) -> str:
    command = [*PGSTOW, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _those_of_each_run() -> list[Any]:
    nightly = [name for name in experiment_names() if name not in WHOLE]
    return [*WHOLE, *(pytest.param(name, marks=pytest.mark.nightly) for name in nightly)]


@pytest.mark.parametrize("name", experiment_names())
def test_an_experiments_volumes_come_up(name: str, emulator: Any) -> None:
    output = json.loads(pgstow("bench", "run", name, "--profile", "ci", "--dry-run", "--json"))
    experiment = read_experiment(name, "ci")
    assert len(output["experiment"]["treatments"]) == len(experiment.treatments)
    rules = catalog.load()
    for layout in dict.fromkeys(one.layout for one in experiment.treatments):
        assert layout is not None
        emulator.cap = rules.host_cap(layout.host)
        emulator.volumes = {
            volume.name: (
                replace(volume, mount=str(emulator.mount(volume.name))),
                rules.device(volume, layout.host),
            )
            for volume in layout.volumes
        }
        assert len(emulator.up().volumes) == len(layout.volumes)
        assert all(emulator.mount(volume.name).is_mount() for volume in layout.volumes)
        emulate.down(emulator.state)


@pytest.mark.parametrize("name", _those_of_each_run())
def test_an_experiment_runs_from_its_file(name: str, workspace: Path) -> None:
    output: dict[str, Any] = json.loads(
        pgstow(
            "bench", "run", name, "--profile=ci", "--repeats=0", "--workspace", workspace, "--json"
        )
    )
    treatments = output["experiment"]["treatments"]
    assert [row["trials"] for row in output["summaries"]] == [1] * len(treatments)
    assert all(row["tps"]["mean"] > 0 for row in output["summaries"])
    assert {one["metric"] for one in output["comparisons"]} == {"tps", "mean_ms", "p99_ms"}
    left = [mount.path for mount in mounts.mounts() if mount.path.startswith(str(STATE_DIRECTORY))]
    assert left == []


def test_their_trials_have_what_was_read_beside_the_load(workspace: Path) -> None:
    rows = json.loads(
        pgstow("bench", "export", "wal-split", "--format=json", "--workspace", workspace)
    )
    for trial in rows["trials"]:
        read = trial["instruments"]
        assert all(read[name] is not None for name in ("wal", "io", "waits", "devices", "cpu"))
        volumes = {one["volume"] for one in read["devices"]}
        assert volumes == ({"data", "wal"} if dict(trial["levels"])["wal"] == "apart" else {"data"})
        assert read["wal"]["syncs"] > 0
        assert sum(trial["outcome"]["histogram"]["counts"]) > 0


@pytest.mark.parametrize("runs", ["these", pytest.param("nightly", marks=pytest.mark.nightly)])
def test_the_page_has_a_section_for_each(runs: str, workspace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    pgstow("report", "--workspace", workspace, "--out", page)
    text = page.read_text()
    ran = json.loads(pgstow("bench", "list", "--workspace", workspace, "--json"))["runs"]
    whole = [run["name"] in WHOLE for run in ran]
    assert whole and all(is_whole is (runs == "these") for is_whole in whole)
    assert text.count("<section") > len(ran)
