"""``pgstow bench`` without running anything: plans, runs in the workspace, refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_samples import experiment, trial
from typer.testing import CliRunner, Result

from pgstow import catalog
from pgstow.cli import bench
from pgstow.cli.bench_validity import warnings_of
from pgstow.cli.main import app
from pgstow.experiment.targets import DirectoryTarget
from pgstow.experiment_file import experiment_names, find_experiment
from pgstow.model import PgstowError, Trial, Warning
from pgstow.workspace import Workspace

Bench = Callable[..., Result]
LEVELS = ("shared", "apart")
NOISE = (1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.015, 0.985)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pgstow.db"


@pytest.fixture
def pgstow_bench(path: Path) -> Bench:
    """``pgstow_bench("show")``: the command with its own workspace; errors are raised."""

    def run(*arguments: str) -> Result:
        found = CliRunner().invoke(app, ["bench", *arguments, "--workspace", str(path)])
        if isinstance(found.exception, PgstowError):
            raise found.exception
        return found

    return run


def filled(path: Path, blocks: int = 8, ratio: float = 1.4, study: str | None = None) -> int:
    """A workspace with a run; the number of the run."""
    with Workspace.open(path) as store:
        run = store.runs.begin(replace(experiment(blocks=blocks), study=study))
        for block, noise in enumerate(NOISE[:blocks]):
            store.runs.add(run, trial(block, 0, 1000.0, wal="shared"))
            store.runs.add(run, trial(block, 1, 1000.0 * ratio * noise, wal="apart"))
    return run


def test_a_plan_shows_every_trial_and_changes_nothing(pgstow_bench: Bench, path: Path) -> None:
    output = pgstow_bench("run", "wal-split", "--dry-run").stdout
    assert output.count("apart") == output.count("shared") == 4
    assert "about 3 min" in output
    assert not path.exists()


def test_a_name_that_is_no_command_is_an_experiment(pgstow_bench: Bench) -> None:
    assert pgstow_bench("wal-split", "--dry-run").stdout.count("apart") == 4


def test_some_levels_alone(pgstow_bench: Bench) -> None:
    arguments = ("run", "striping", "--only", "stripes=1,4", "--dry-run", "--json")
    planned = json.loads(pgstow_bench(*arguments).stdout)
    levels = {dict(one["treatment"]["levels"])["stripes"] for one in planned["trials"]}
    assert levels == {"1", "4"}


def test_a_run_is_shown_with_its_verdict(pgstow_bench: Bench, path: Path) -> None:
    filled(path)
    output = pgstow_bench("show").stdout
    assert "16 trials" in output
    assert "wal apart against shared: TPS × 1.4 (99%: 1.3" in output
    assert output.rstrip().splitlines()[-1].endswith("lower")  # p99
    heads = next(line for line in output.splitlines() if "TPS" in line and "trials" in line)
    assert "± at 99%" in heads and "by thirds" in heads
    assert "± at 95%" in pgstow_bench("show", "--confidence", "0.95").stdout


def test_a_study_is_held_to_what_it_claims(pgstow_bench: Bench, path: Path) -> None:
    filled(path, study="wal-split")
    output = pgstow_bench("show").stdout
    assert "published: WAL apart: 36 % more TPS (× 1.36); measured: × 1.4 (99%: " in output
    assert "thirds of a trial 1.40 / 1.40 / 1.40: holds, published outside the interval" in output


def test_a_dry_run_refuses_a_workload_that_is_not_known(
    pgstow_bench: Bench, tmp_path: Path
) -> None:
    text = find_experiment("wal-split").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('name = "key-read@1,small-commit@2"', 'name = "tpcx"'))
    with pytest.raises(PgstowError, match=r"wal (shared|apart): there is no workload tpcx"):
        pgstow_bench("run", str(file), "--dry-run")


def test_each_trial_is_a_line_at_once_where_no_terminal_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    designed = experiment(blocks=2)
    made = [
        trial(block, n, 1000.0, wal=level) for block in (0, 1) for n, level in enumerate(LEVELS)
    ]
    made[1] = replace(made[1], warnings=(Warning("limited-by-emulator", "late"),))
    messages: list[str] = []

    def run(*_: object, on_trial: Callable[[Trial], None], **__: object) -> None:
        for one in made:
            on_trial(one)
            messages.append(capsys.readouterr().err)

    monkeypatch.setattr("pgstow.experiment.run.run", run)
    target = DirectoryTarget(directories=())
    tools = bench.tools_of("wal-split")
    bench.run_to_end(bench.RunGoal(designed, target, tools, None, False, path, json=False))
    assert messages[0] == "trial 1 of 4: block 1, wal shared: 1,000 TPS, p99 30 ms\n"
    assert messages[1].startswith("trial 2 of 4") and messages[1].endswith(
        "; limited-by-emulator\n"
    )
    assert messages[3].startswith("trial 4 of 4: block 2, wal apart")


def test_a_run_as_json_has_all_that_is_shown(pgstow_bench: Bench, path: Path) -> None:
    number = filled(path, ratio=1.0)
    output = json.loads(pgstow_bench("show", "wal-split", "--json").stdout)
    assert output["run"] == number
    assert [row["trials"] for row in output["summaries"]] == [8, 8]
    assert {one["verdict"] for one in output["comparisons"]} == {"no difference demonstrated"}


def test_the_list_has_the_studies_and_the_runs(pgstow_bench: Bench, path: Path) -> None:
    filled(path, blocks=2)
    with Workspace.open(path) as store:
        store.runs.widen(1, 5)
    output = pgstow_bench("list").stdout
    assert all(name in output for name in experiment_names())
    assert "4 of 10" in output


def test_an_export_goes_where_it_is_told(pgstow_bench: Bench, path: Path) -> None:
    filled(path, blocks=2)
    assert pgstow_bench("export").stdout.count("\n") == 5
    out = path.with_name("trials.sql")
    pgstow_bench("export", "wal-split", "--out", str(out))
    assert "CREATE TABLE" in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run", "wal-splt"), "no experiment 'wal-splt'; did you mean wal-split"),
        (("run", "wal-split", "--profile", "quik"), "quik"),
        (("run", "wal-split", "--only", "wal"), "--only 'wal' is not FACTOR=LEVEL"),
        (("run", "wal-split", "--only", "vol=1"), "no factor vol"),
        (("run", "wal-split", "--only", "wal=apart"), "baseline; select it too"),
        (("run", "wal-split", "--until", "2%"), "is not ci=PERCENT; write --until ci=2%"),
        (("run", "wal-split", "--until", "ci=0%"), "is not ci=PERCENT"),
        (("run", "wal-split", "--directory", "data"), "is not VOLUME=PATH"),
        (("run", "wal-split", "--secret", "a@service=b"), "which have no passwords; leave it out"),
        (("load-and-run", "wal-split"), "makes its own servers, with their data; run it"),
        (("show",), "there is no workspace"),
        (("show", "7"), "there is no workspace"),
        (("export", "--format", "xls"), "--format 'xls' is not known; use csv, json, sql"),
    ],
)
def test_what_cannot_be_is_one_line(
    pgstow_bench: Bench, arguments: tuple[str, ...], line: str
) -> None:
    with pytest.raises(PgstowError) as refused:
        pgstow_bench(*arguments)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("done", "blocks", "fresh", "is_same"),
    [
        (3, 4, False, True),  # unfinished: it goes on
        (4, 4, False, False),  # finished: again
        (4, 6, False, True),  # finished, and more is wanted
        (3, 4, True, False),
    ],
)
def test_which_run_goes_on(path: Path, done: int, blocks: int, fresh: bool, is_same: bool) -> None:
    with Workspace.open(path) as store:
        run = store.runs.begin(experiment(blocks=4))
        for block in range(done):
            store.runs.add(run, trial(block, 0, 100.0, wal="shared"))
            store.runs.add(run, trial(block, 1, 100.0, wal="apart"))
        goal = bench.RunGoal(
            experiment(blocks=blocks),
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            None,
            fresh,
            path,
            False,
        )
        assert (bench.open_run(store, goal) == run) is is_same


def test_blocks_are_added_until_the_interval_is_narrow() -> None:
    wide = experiment(blocks=6)
    trials = [
        one
        for block, noise in enumerate((1.0, 1.3, 0.8, 1.1, 0.9, 1.0))
        for one in (
            trial(block, 0, 1000.0, wal="shared"),
            trial(block, 1, 1000.0 * noise, wal="apart"),
        )
    ]
    assert bench.blocks_needed(wide, tuple(trials), None) == 6
    assert 6 < bench.blocks_needed(wide, tuple(trials), 0.15) < 100
    assert bench.blocks_needed(wide, tuple(trials), 0.9) == 6
    assert bench.blocks_needed(wide, tuple(trials), 0.001) == 6  # out of reach, and said


def test_warnings_that_differ_in_figures_alone_are_one_line() -> None:
    made = [
        replace(
            trial(block, 0, 1000.0, wal=LEVELS[0]),
            warnings=(Warning("late", f"volume data answered {block}.50 ms late"),),
        )
        for block in (0, 1)
    ]
    found = warnings_of(experiment(blocks=2), made, catalog.load())
    messages = [one.message for one in found if one.code == "late"]
    assert messages == ["volume data answered 0.50 ms late (in 2 trials)"]
