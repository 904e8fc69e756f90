"""``pgstow report`` on workspaces that hold much, little and nothing."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import experiment_page_samples
import pytest
import report_samples as samples
from typer.testing import CliRunner

from pgstow import catalog
from pgstow.cli.bench_report import section_of
from pgstow.cli.main import app
from pgstow.cli.report import document_of, write_page, write_pictures
from pgstow.model import UserError
from pgstow.workspace import Workspace


def store(path: Path, *documents: tuple[str, object]) -> Path:
    with Workspace.open(path) as workspace:
        for kind, value in documents:
            workspace.add(kind, value)  # type: ignore[arg-type]
    return path


def loop(path: Path) -> Path:
    """What observe, plan, apply and verify leave behind."""
    later = replace(samples.profile(2, 1.8), layout=samples.layout_after())
    store(
        path,
        ("profile", samples.profile()),
        ("plan", samples.plan()),
        ("profile", later),
        ("measurement", samples.measured_after()),
    )
    with Workspace.open(path) as workspace:
        run = workspace.journal.begin("1", "digest")
        numbers = workspace.journal.plan(run, [one.step for one in samples.steps()])
        for number in numbers[:2]:
            workspace.journal.started(number)
            workspace.journal.finished(number, "done", seconds=3.0)
    return path


def test_a_profile_alone_makes_a_page(tmp_path: Path) -> None:
    path = store(tmp_path / "w.db", ("profile", samples.profile(names=samples.HOSTILE)))
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "--workspace", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "1,312 transactions per second at $12.00 per month." in text
    assert "Present layout" in text and 'id="why"' not in text
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".html"] == ["page.html"]


def test_the_whole_loop_is_on_the_page(tmp_path: Path) -> None:
    path = loop(tmp_path / "w.db")
    with Workspace.open(path) as workspace:
        document = document_of(workspace, catalog.load())
    assert document.before is not None and document.after == samples.measured_after()
    assert document.before.layout == samples.layout_before()
    assert document.profile == samples.profile()
    assert document.profile_after is not None
    assert document.profile_after.layout == samples.layout_after()
    assert document.predicted == samples.prediction()
    assert [one.status for one in document.steps] == ["done", "done", "planned", "planned"]
    assert {one.metric for one in document.comparisons} >= {"tps", "commit_ms.p99"}
    assert document.effect is not None and document.effect.verdict == "higher"
    assert [one.price.usd_month for one in document.prices_after] == [29.6, 0.8, 2.56]
    assert any("--commit-p99 5ms" in command for command in document.commands)


def test_a_measurement_from_before_the_plan_is_before(tmp_path: Path) -> None:
    path = store(
        tmp_path / "w.db",
        ("profile", samples.profile()),
        ("measurement", samples.measured_before()),
        ("plan", samples.plan()),
    )
    with Workspace.open(path) as workspace:
        document = document_of(workspace, catalog.load())
    assert document.before == samples.measured_before()
    assert document.after is None and document.comparisons == ()
    assert document.layout_after == samples.layout_after()


def test_without_a_plan_the_last_measurement_is_after(tmp_path: Path) -> None:
    path = store(
        tmp_path / "w.db",
        ("profile", samples.profile()),
        ("profile", samples.profile(2)),
        ("measurement", samples.measured_after()),
    )
    with Workspace.open(path) as workspace:
        document = document_of(workspace, catalog.load())
    assert document.profile == samples.profile() and document.after == samples.measured_after()


def test_json_has_the_same_content(tmp_path: Path) -> None:
    path = loop(tmp_path / "w.db")
    result = CliRunner().invoke(app, ["report", "--workspace", str(path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["after"]["performance"]["tps"] == 5641.0
    assert not (tmp_path / "report.html").exists()


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    path = store(tmp_path / "w.db")
    with Workspace.open(path) as workspace, pytest.raises(UserError, match="nothing to report"):
        document_of(workspace, catalog.load())


def test_a_page_is_whole_or_not_there(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page(out, "one")
    write_page(out, "two \ud800")
    assert out.read_text() == "two ?"
    assert stat.S_IMODE(out.stat().st_mode) & 0o400
    with pytest.raises(UserError, match="cannot be written"):
        write_page(tmp_path / "missing" / "page.html", "x")
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        write_page(tmp_path / "taken", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "taken"]


def test_experiments_alone_make_a_page_and_pictures(tmp_path: Path) -> None:
    made = experiment_page_samples.wal_split(2)
    path = tmp_path / "w.db"
    with Workspace.open(path) as workspace:
        run = workspace.runs.begin(made.experiment)
        for trial in made.trials:
            workspace.runs.add(run, trial)
        workspace.runs.begin(experiment_page_samples.filesystem().experiment)  # with no trial
    out, png = tmp_path / "page.html", tmp_path / "charts"
    arguments = ["report", "--workspace", str(path), "--out", str(out), "--png", str(png)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "<title>WAL on its own volume</title>" in text
    assert 'id="experiment-1"' in text and 'id="experiment-2"' not in text
    assert len(list(png.iterdir())) == 6
    result = CliRunner().invoke(app, ["report", "--workspace", str(path), "--json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["experiments"]
    assert len(found["trials"]) == 4 and found["comparisons"][0]["metric"] == "tps"


def test_trials_of_other_builds_are_shown_but_not_compared() -> None:
    made = experiment_page_samples.wal_split(2)
    first, *rest = made.trials
    trials = (replace(first, build=replace(first.build, postgres="17.1")), *rest)
    section = section_of(made.experiment, trials, catalog.load())
    assert section.comparisons == () and section.trials == trials
    assert section.warnings[0].code == "not-compared"


def test_pictures_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_pictures(tmp_path / "taken", {"a": b""})
