"""The nine studies' experiments, shortened: every one runs from its file to its table and page."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgstow.cli.bench_volumes import STATE_DIRECTORY
from pgstow.experiment_file import experiment_names
from pgstow.host import mounts

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


@pytest.mark.parametrize("name", experiment_names())
def test_an_experiment_runs_from_its_file(name: str, workspace: Path) -> None:
    said: dict[str, Any] = json.loads(
        pgstow("bench", "run", name, "--profile", "ci", "--workspace", workspace, "--json")
    )
    treatments = said["experiment"]["treatments"]
    assert [row["trials"] for row in said["summaries"]] == [1] * len(treatments)
    assert all(row["tps"]["mean"] > 0 for row in said["summaries"])
    assert {one["metric"] for one in said["comparisons"]} == {"tps", "mean_ms", "p99_ms"}
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


def test_the_page_has_a_section_for_each(workspace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    pgstow("report", "--workspace", workspace, "--out", page)
    text = page.read_text()
    for run in json.loads(pgstow("bench", "list", "--workspace", workspace, "--json"))["runs"]:
        assert run["name"] in experiment_names()
    assert text.count("<section") > len(experiment_names())
