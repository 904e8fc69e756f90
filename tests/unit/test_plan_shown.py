"""What ``pgstow plan --frontier`` and ``--compare`` print, as text and as JSON."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import content_platform
import pytest
from once import once
from typer.testing import CliRunner, Result

from pgstow import planning
from pgstow.cli.main import app
from pgstow.workspace import Workspace


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "pgstow.db"
    with Workspace.open(path) as store:
        store.add("profile", content_platform.profile())
    return path


@pytest.fixture(scope="module")
def frontier_once() -> Iterator[None]:
    """Text and JSON of one frontier: it is searched for once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "frontier", once(planning.frontier))
        yield


def run(database: Path, *options: str) -> Result:
    out = database.parent / "planned.toml"
    arguments = ["plan", "--workspace", str(database), "--out", str(out), *options]
    return CliRunner().invoke(app, arguments)


@pytest.mark.usefixtures("frontier_once")
def test_the_frontier_is_shown_and_plans_nothing(database: Path) -> None:
    (database.parent / "planned.toml").write_text("mine")
    found = run(database, "--frontier", "--max-stripes", "1", "--allow", "gp3")
    assert found.exit_code == 0
    assert re.search(r"█ +knee ", found.stdout)
    assert "% above the least possible" in found.stdout
    assert "Every row was simulated" in found.stdout
    assert "Knee: " in found.stdout
    assert (database.parent / "planned.toml").read_text() == "mine"
    with Workspace.open(database) as store:
        assert list(store.list("plan")) == []


@pytest.mark.usefixtures("frontier_once")
def test_the_frontier_as_json_has_its_points_and_knee(database: Path) -> None:
    document = json.loads(
        run(database, "--frontier", "--max-stripes", "1", "--allow", "gp3", "--json").stdout
    )
    points = document["points"]
    assert len(points) == 30
    assert 0 <= document["knee"] < 30
    assert points[0]["usd_month"] <= points[-1]["usd_month"]
    assert points[0]["volumes"]


@pytest.mark.parametrize("option", [("--tps", "2x"), ("--budget", "5"), ("--any-instance",)])
def test_the_frontier_takes_no_speed_and_no_price(database: Path, option: tuple[str, ...]) -> None:
    found = run(database, "--frontier", *option)
    assert found.exit_code != 0
    assert "drop --tps, --budget" in str(found.exception)


def test_a_comparison_has_every_rule_and_writes_the_plan(database: Path) -> None:
    found = run(database, "--compare", "--tps", "2x", "--max-stripes", "1", "--json")
    assert found.exit_code == 0
    rows = json.loads(found.stdout)
    assert [row["name"] for row in rows] == ["pgstow", *planning.RULES]
    assert rows[0]["missed"] == []
    assert all(row["prediction"]["performance"]["usd_month"] > 0 for row in rows)
    assert (database.parent / "planned.toml").exists()


def test_a_comparison_as_text_names_what_is_missed(database: Path) -> None:
    found = run(database, "--compare", "--tps", "2x", "--commit-p99", "5ms", "--max-stripes", "1")
    assert found.exit_code == 0
    for name in planning.RULES:
        assert name.split()[0] in found.stdout
    assert "commit p99" in found.stdout
