"""The plan command: what it prints and writes, and one line for each thing it cannot do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import content_platform
import pytest
from click.testing import Result
from once import once
from typer.testing import CliRunner

from pgstow import catalog, planning
from pgstow.catalog.loading import user_directory
from pgstow.cli.main import app
from pgstow.layout_file import read_layout
from pgstow.model import HostSpec, PgstowError, Profile, Rate, Volume
from pgstow.units import GIB, Bytes
from pgstow.workspace import Workspace

SHOWN = (
    ("max_wal_size", "1GB"),
    ("wal_keep_size", "0"),
    ("random_page_cost", "4"),
    ("shared_buffers", "128MB"),
)


NOW = datetime.now(UTC).isoformat()


@pytest.fixture(scope="module", autouse=True)
def plans_once() -> Iterator[None]:
    """What several tests plan is planned once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "plan", once(planning.plan))
        yield


def profile(**server: object) -> Profile:
    """The content platform seen a moment ago, with some settings."""
    seen = content_platform.profile()
    state = replace(seen.server, settings=SHOWN, **server)  # type: ignore[arg-type]
    return replace(seen, started_at=NOW, seconds=600.0, server=state)


def plan(tmp_path: Path, *options: str, seen: Profile | None = None) -> Result:
    path = tmp_path / "w.db"
    if not path.exists():
        with Workspace.open(path) as store:
            store.add("profile", seen or profile())
    out = ["--max-stripes", "1", "--workspace", str(path), "--out", str(tmp_path / "planned.toml")]
    return CliRunner().invoke(app, ["plan", *options, *out])


def refused(tmp_path: Path, *options: str, seen: Profile | None = None) -> str:
    error = plan(tmp_path, *options, seen=seen).exception
    assert isinstance(error, PgstowError), error
    assert error.exit_code == 2
    text = str(error)
    assert "\n" not in text and "; " in text
    assert not (tmp_path / "planned.toml").exists()
    return text


def test_a_plan_says_what_changes_what_moves_and_what_to_set(tmp_path: Path) -> None:
    result = plan(tmp_path, "--tps", "4x", "--commit-p99", "8ms")
    assert result.exit_code == 0, result.output
    assert "  present       planned" in result.output
    changes = result.output.split("Changes:\n")[1].split("\n\n")[0]
    assert "fast is new" in changes
    assert "relations from data to fast" in changes
    assert "Settings:\n  random_page_cost = 1.6, now 4\n" in result.output
    assert "shared_buffers" in result.output
    layout = read_layout(tmp_path / "planned.toml")
    assert dict(layout.postgres.settings)["random_page_cost"] == "1.6"


def test_without_settings_the_servers_are_left_alone(tmp_path: Path) -> None:
    result = plan(tmp_path, "--tps", "0.5x", "--no-settings")
    assert "Changes: none" in result.output
    assert "Settings:" not in result.output
    assert read_layout(tmp_path / "planned.toml").postgres.settings == ()


def test_a_file_that_somebody_changed_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "planned.toml"
    assert plan(tmp_path, "--tps", "0.5x").exit_code == 0
    assert plan(tmp_path, "--tps", "0.4x").exit_code == 0  # nobody has changed it
    mine = out.read_text() + "# as agreed on Monday\n"
    out.write_text(mine)
    refused = plan(tmp_path, "--tps", "4x")
    assert refused.exit_code != 0
    assert str(refused.exception) == (
        f"{out} is there and is not a plan of this workspace as pgstow wrote it;"
        " name another file with --out, or overwrite it with --force"
    )
    assert getattr(refused.exception, "exit_code", None) == 2
    assert out.read_text() == mine
    assert plan(tmp_path, "--tps", "0.5x", "--force").exit_code == 0
    assert out.read_text() != mine


def test_a_layout_of_ones_own_is_not_overwritten_by_a_first_plan(tmp_path: Path) -> None:
    (tmp_path / "planned.toml").write_text("mine")
    result = plan(tmp_path, "--tps", "0.5x")
    assert "--force" in str(result.exception)
    assert (tmp_path / "planned.toml").read_text() == "mine"


def test_the_bound_is_said_as_it_is_in_json(tmp_path: Path) -> None:
    text = plan(tmp_path, "--tps", "2x").stdout
    document = json.loads(plan(tmp_path, "--tps", "2x", "--json").stdout)
    assert document["proof"] in text
    assert document["bound"]["of"] == "price" and document["bound"]["is_proven"] is True
    assert document["bound"]["acceptance"]["tps"] == 2 * content_platform.TPS
    assert document["gap_pct"] >= 0
    assert "At the goal's 1,400 TPS" in text
    budget = json.loads(plan(tmp_path, "--budget", "3", "--allow", "gp3", "--json").stdout)
    assert budget["bound"]["of"] == "tps" and budget["gap_pct"] is None


def test_json_has_the_same_and_the_catalog_files(tmp_path: Path) -> None:
    result = plan(tmp_path, "--tps", "1.5x", "--max-volumes", "1", "--json")
    document = json.loads(result.stdout)
    ((name, text),) = document["changes"]["in_place"]
    assert name == "data" and "IOPS 3,000 to" in text
    assert document["changes"]["moves"] == []
    assert document["user_files"] == []
    assert {one["name"] for one in document["settings"]} >= {"random_page_cost"}
    assert document["goal"]["max_volumes"] == 1


@pytest.fixture
def own_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A catalog file of the user's with another price of gp3."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = user_directory() / "prices.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        '[prices.us-east-1.gp3]\nusd_per_gib = 0.07\nsource = "our contract"\ndate = "2026-11-01"\n'
        "iops_tiers = [{ over = 3000, usd = 0.004 }]\nusd_per_mibps = 0.03\n"
    )
    catalog.load.cache_clear()
    yield own
    catalog.load.cache_clear()


def test_the_users_own_catalog_files_are_named(tmp_path: Path, own_prices: Path) -> None:
    result = plan(tmp_path, "--tps", "0.5x")
    assert "$1.40" in result.output
    assert str(own_prices) in result.output
    path = str(tmp_path / "w.db")
    explained = CliRunner().invoke(app, ["explain", "--workspace", path])
    assert str(own_prices) in explained.output
    document = json.loads(
        CliRunner().invoke(app, ["explain", "--workspace", path, "--json"]).stdout
    )
    assert document["user_files"] == [str(own_prices)]


def test_old_prices_are_a_warning_with_the_command(tmp_path: Path, own_prices: Path) -> None:
    own_prices.write_text(own_prices.read_text().replace("2026-11-01", "2024-11-01"))
    result = plan(tmp_path, "--tps", "0.5x")
    assert "pgstow catalog update" in result.stderr
    assert "2024" in result.stderr


def test_profiles_of_the_workspace_say_how_relations_grow(tmp_path: Path) -> None:
    before = profile()
    small = tuple(replace(r, size_bytes=Bytes(r.size_bytes // 2)) for r in before.server.relations)
    started = datetime.now(UTC).replace(year=datetime.now(UTC).year - 1).isoformat()
    old = replace(before, started_at=started, server=replace(before.server, relations=small))
    with Workspace.open(tmp_path / "w.db") as store:
        store.add("profile", old)
        store.add("profile", before)
    result = plan(tmp_path, "--horizon", "24mo", "--tps", "0.5x")
    assert result.exit_code == 0, result.exception
    stored = sum(r.size_bytes for r in before.server.relations)
    room = sum(v.total_bytes for v in read_layout(tmp_path / "planned.toml").volumes)
    assert room * 0.7 > stored * 1.9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pin", "orders"), "does not say what is placed where; write it like orders=fast"),
        (("--pin", "artcles=fast"), "did you mean content.public.articles"),
        (
            ("--pin", "articles=fast", "--pin", "articles=gp2"),
            "to fast and to gp2; drop one",
        ),
        (("--horizon", "0d"), "0d is no time to plan for; write it like 12mo"),
        (("--horizon", "1y"), "says nothing of growth; observe again"),
        (("--backup", "0B"), "--backup: a volume for backups of no size"),
        (("--max-move", "12"), "'12' is not a size; write it like"),
        (("--instance", "r6i.larg"), "no instance type 'r6i.larg'; did you mean r6i.large"),
        (("--any-instance", "--instance", "r6i.large"), "contradict each other; drop one"),
        (("--allow", "gp33"), "no volume type 'gp33'; did you mean gp3"),
        (("--allow", "st1", "--forbid", "st1"), "st1 is both allowed and forbidden; drop one"),
        (("--pin", "temp=instance-store"), "or name an instance that has it"),
        (("--max-failure-rate", "lots"), "'lots' is no share; write it like 0.5%"),
        (("--data-on-instance-store",), "saw no standby that holds what is lost"),
        (("--budget", "1"), "half of the observed load can be had for $1.60 per month"),
        (("--tps", "9x", "--budget", "2"), "the fastest within it: "),
        (
            ("--commit-p99", "1us"),
            "of the allowed types; the nearest that can be met: ",
        ),
        (
            ("--tps", "50x"),
            "on any disk; lower --tps; the nearest that can be met: ",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line_with_a_remedy(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in refused(tmp_path, *options)


def on(host: HostSpec, volume: Volume | None = None) -> Profile:
    seen = profile()
    volumes = seen.layout.volumes if volume is None else (volume,)
    return replace(seen, layout=replace(seen.layout, host=host, volumes=volumes))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (on(HostSpec("ec2", "us-east-9", "r6i.large")), "catalog update --region us-east-9"),
        (on(HostSpec("ec2", "us-east-1", "r6i.lrge")), "did you mean r6i.large"),
        (
            on(HostSpec("local"), Volume("data", "local-ssd", Bytes(GIB), "/mnt/data")),
            "have no prices; observe with --layout",
        ),
        (
            replace(profile(), activity=replace(profile().activity, transactions=Rate(0.0))),
            "saw no transactions; observe the server again while its load runs",
        ),
    ],
)
def test_profiles_that_no_plan_can_be_made_from(tmp_path: Path, seen: Profile, said: str) -> None:
    assert said in refused(tmp_path, seen=seen)


def test_an_idle_profile_is_planned_for_with_a_warning(tmp_path: Path) -> None:
    seen = content_platform.profile(tps=0.05, clients=4)
    seen = replace(
        seen,
        seconds=3600.0,
        started_at="2026-01-01T00:00:00Z",
        activity=replace(seen.activity, active_sessions=Rate(0.001)),
        host=None,
    )
    result = plan(tmp_path, seen=seen)
    assert result.exit_code == 0, result.exception
    assert "warning: the server was nearly idle: 180 transactions" in result.stderr
    assert "days old; observe again with pgstow observe" in result.stderr
