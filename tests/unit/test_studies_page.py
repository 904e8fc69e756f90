"""The page of the studies is what the recorded trials say, and the rerun is what it needs."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from experiment_samples import trial

from pgstow.experiment_file import experiment_names, read_experiment
from pgstow.workspace import Workspace

SCRIPTS = Path(__file__).parents[2] / "scripts"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script as a module, which finds its neighbours."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    for one in ("update_studies", "run_studies"):
        sys.modules.pop(one, None)
    return importlib.import_module(name)


def test_the_pages_are_those_of_the_recorded_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = [
        f"{path.name} is stale: run scripts/update_studies.py"
        for path, text in program("update_studies", monkeypatch).pages().items()
        if path.read_text() != text
    ]
    assert stale == []


def test_the_page_names_the_profile_that_ran_and_its_thirds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    update = program("update_studies", monkeypatch)
    monkeypatch.setattr(update, "DATA", tmp_path)
    designed = read_experiment("placement", "idle")
    speeds = {"gp3": 100.0, "nvme": 2000.0, "placed": 1500.0}
    with Workspace.open(tmp_path / "pgstow.db") as store:
        run = store.runs.begin(designed)
        for block in range(3):
            for place, (layout, tps) in enumerate(speeds.items()):
                made = trial(block, place, tps + block, layout=layout)
                samples = (2 * tps,) * 10 + (tps / 2,) * 20 if layout == "gp3" else (tps,) * 30
                outcome = replace(made.outcome, tps_samples=samples)
                store.runs.add(run, replace(made, outcome=outcome))
    update.export(tmp_path / "pgstow.db")
    assert [path.name for path in tmp_path.glob("*.json")] == ["placement-idle.json"]
    (found,) = update._recorded("placement")
    text = "\n".join(update._tables(found))
    assert text.startswith("Profile `idle`: 9 trials in 3 blocks, 2 + 9 s of warm-up")
    assert "| gp3 | 3 | 101 | ±5.7% | 200 / 50.0 / 50.0 |" in text
    (claim,) = [line for line in text.splitlines() if "15 times the TPS" in line]
    assert "| 7.50 / 30.0 / 30.0 | holds | yes |" in claim


def test_the_rerun_is_of_all_studies_and_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rerun = program("run_studies", monkeypatch)
    assert {name for name, _ in rerun.RUNS} | {"striping"} == set(experiment_names())
    monkeypatch.setattr(sys, "argv", ["run_studies.py", "studies.db", "--dry-run"])
    assert rerun.main() == 0
    output = capsys.readouterr().out
    assert all(f"{name} {profile}: about " in output for name, profile in rerun.RUNS)
    lengths = [rerun.length_s(read_experiment(*run)) for run in rerun.RUNS]
    assert f"in all about {round(sum(lengths)) // 60} min" in output


def test_a_study_that_fails_does_not_keep_the_others_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rerun = program("run_studies", monkeypatch)
    ran: list[str] = []

    def run(name: str, profile: str, workspace: Path) -> bool:
        ran.append(f"{name} {profile} {workspace}")
        return name != "io2"

    monkeypatch.setattr(rerun, "_run", run)
    monkeypatch.setattr(sys, "argv", ["run_studies.py", "s.db", "--profile", "ci"])
    assert rerun.main() == 1
    assert len(ran) == len(experiment_names()) and capsys.readouterr().err == "io2 ci failed\n"
