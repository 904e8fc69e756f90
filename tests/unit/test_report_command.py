"""``pgstow report`` on workspaces that hold much, little and nothing."""

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import experiment_page_samples
import pytest
import report_samples as samples
from typer.testing import CliRunner

from pgstow import catalog
from pgstow.cli.bench_report import section_of
from pgstow.cli.loop import remember_layout
from pgstow.cli.main import app
from pgstow.cli.report import write_page, write_pictures
from pgstow.cli.report_document import document_of
from pgstow.layout_file import layout_digest
from pgstow.model import UserError
from pgstow.report import render
from pgstow.workspace import Workspace

pytestmark = pytest.mark.usefixtures("drawn_once")


def store(path: Path, *documents: tuple[str, object]) -> Path:
    with Workspace.open(path) as workspace:
        for kind, value in documents:
            workspace.add(kind, value)  # type: ignore[arg-type]
    return path


def loop(path: Path) -> Path:
    """What observe, plan, apply and verify leave behind."""
    store(path, ("profile", samples.profile()), ("plan", samples.plan()))
    with Workspace.open(path) as workspace:
        remember_layout(workspace, samples.layout_after())
        run = workspace.journal.begin("1", layout_digest(samples.layout_after()))
        numbers = workspace.journal.plan(run, [one.step for one in samples.steps()])
        for number in numbers[:2]:
            workspace.journal.started(number)
            workspace.journal.finished(number, "done", seconds=3.0)
    now = datetime.now(UTC) + timedelta(seconds=2)
    later = replace(samples.profile(2, 1.8), started_at=now.isoformat(timespec="seconds"))
    return store(path, ("profile", later), ("measurement", samples.measured_after()))


def test_a_profile_alone_makes_a_page(tmp_path: Path) -> None:
    path = store(tmp_path / "w.db", ("profile", samples.profile(names=samples.HOSTILE)))
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "--workspace", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "1,312 transactions per second, mean latency 23.6 ms, $12.00 per month." in text
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
    assert document.predicted == samples.prediction()
    assert [one.status for one in document.steps] == ["done", "done", "planned", "planned"]
    assert {one.metric for one in document.comparisons} >= {"tps", "commit_ms.p99"}
    assert document.effect is not None and document.effect.verdict == "higher"
    assert [one.price.usd_month for one in document.prices_after] == [29.6, 0.8, 2.56]
    assert any("--commit-p99 5ms" in command for command in document.commands)
    assert [name for name, _ in document.layout_files] == ["present.toml", "target.toml"]


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


def test_an_observation_alone_is_compared_with_nothing(tmp_path: Path) -> None:
    """What explain predicted of other layouts is no plan, and no headline."""
    slow = replace(samples.prediction().performance, tps=485.0)
    of_present = replace(samples.plan().present, performance=slow)
    path = store(
        tmp_path / "w.db",
        ("profile", samples.profile()),
        ("prediction", samples.prediction()),
        ("prediction", of_present),
    )
    with Workspace.open(path) as workspace:
        document = document_of(workspace, catalog.load())
    assert document.layout_after is None and document.predicted == of_present
    text = render(document)
    assert "1,312 transactions per second, mean latency" in text
    assert "0.37" not in text and "After" not in text and "Planned" not in text
    assert "missed: predicted 485" in text


def test_what_was_applied_and_not_measured_is_shown_with_what_it_promised(tmp_path: Path) -> None:
    path = store(tmp_path / "w.db", ("profile", samples.profile()), ("plan", samples.plan()))
    with Workspace.open(path) as workspace:
        remember_layout(workspace, samples.layout_after())
        run = workspace.journal.begin("1", layout_digest(samples.layout_after()))
        (number,) = workspace.journal.plan(run, [samples.steps()[0].step])
        workspace.journal.started(number)
        workspace.journal.finished(number, "done", seconds=3.0)
        document = document_of(workspace, catalog.load())
    assert document.after is None and document.layout_after == samples.layout_after()
    assert "Applied, not measured yet" in render(document)


def test_apply_runs_alone_make_a_page(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with Workspace.open(path) as workspace:
        run = workspace.journal.begin("1", "digest")
        (number,) = workspace.journal.plan(run, [samples.steps()[0].step])
        workspace.journal.started(number)
        workspace.journal.finished(number, "done", seconds=3.0)
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "--workspace", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "CREATE TABLESPACE hot" in text and "no profile was over" in text


def test_the_title_names_the_busiest_database(tmp_path: Path) -> None:
    profile = samples.profile()
    server = replace(profile.server, databases=("archive", "content", "postgres"))
    path = store(tmp_path / "w.db", ("profile", replace(profile, server=server)))
    with Workspace.open(path) as workspace:
        document = document_of(workspace, catalog.load())
    assert document.title == "Storage of content, the busiest of 2 databases"


def test_an_instance_with_other_cores_than_the_machine_is_told(tmp_path: Path) -> None:
    profile = samples.profile()
    assert profile.host is not None
    small = replace(profile, host=replace(profile.host, cores=2))
    path = store(tmp_path / "w.db", ("profile", small))
    with Workspace.open(path) as workspace:
        machine = document_of(workspace, catalog.load()).machine
    assert machine is not None
    assert "r6i.2xlarge us-east-1 (8 cores) in the layout, observed on a machine of 2" in machine


def test_the_profiles_before_and_after_can_be_chosen(tmp_path: Path) -> None:
    path = loop(tmp_path / "w.db")
    with Workspace.open(path) as workspace:
        early = replace(samples.profile(5), started_at="2026-11-20T08:00:00+00:00")
        workspace.add("profile", early, "early")
        document = document_of(workspace, catalog.load(), before="early", after="1")
    assert document.profile == early and document.profile_after == samples.profile()
