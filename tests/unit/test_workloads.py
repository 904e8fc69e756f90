"""Workloads by name: what is known, what fits its data, and what pgbench is told."""

from pathlib import Path

import pytest

from pgstow.experiment.workloads import NAMES, Script, WorkloadSpec, generator, pgbench_run
from pgstow.experiment.workloads.pgbench import Pgbench
from pgstow.experiment.workloads.pgbench_data import PgbenchData
from pgstow.host import open_files
from pgstow.host.background import Ended
from pgstow.model import DataChoice, WorkloadChoice
from pgstow.model.errors import HostError, UserError

PGBENCH = DataChoice("pgbench", 3)
PLATFORM = DataChoice("content-platform", 2000)


def spec(
    name: str,
    data: DataChoice = PGBENCH,
    directory: Path | None = None,
    variables: tuple[tuple[str, int], ...] = (),
) -> WorkloadSpec:
    choice = WorkloadChoice(name, clients=4, variables=variables)
    found = generator(choice, data, scripts_directory=directory)
    assert isinstance(found, Pgbench)
    return found.spec


def parts(found: WorkloadSpec) -> list[tuple[str, int]]:
    return [(script.name, script.weight) for script in found.scripts]


def command(found: WorkloadSpec) -> list[str]:
    run = pgbench_run._Run(found, "dbname=shop", 7, "pgbench", Path("/logs/t"), {}, 1.0)
    return run.command(30)


@pytest.mark.parametrize("name", NAMES)
def test_every_ready_workload_has_its_scripts(name: str) -> None:
    platform = name == "content-platform" or not any(
        (Path(script.path).parent.name if script.path else "workloads") == "workloads"
        for script in _either(name).scripts
    )
    for script in _either(name).scripts:
        assert script.path is None or script.path.is_file()
    wrong = PGBENCH if platform else PLATFORM
    with pytest.raises(UserError, match="needs data of"):
        spec(name, wrong)


def _either(name: str) -> WorkloadSpec:
    try:
        return spec(name)
    except UserError:
        return spec(name, PLATFORM)


def test_a_name_may_have_weights_and_companions() -> None:
    assert parts(spec("select-update")) == [("select-only", 1), ("simple-update", 1)]
    assert parts(spec("key-read@9, small-commit")) == [("select-only", 9), ("small-commit", 1)]
    assert parts(spec("mixed-commit@2,key-read")) == [("select-only", 7), ("small-commit", 2)]
    assert parts(spec("record-events@3,read-articles", PLATFORM)) == [
        ("record_events", 3),
        ("read_articles", 1),
    ]


def test_scripts_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;")
    (tmp_path / "two").write_text("SELECT 2;")
    found = spec("script:one.sql@3,two", directory=tmp_path, variables=(("limit", 5),))
    assert parts(found) == [("one", 3), ("two", 1)]
    assert f"--file={tmp_path}/one.sql@3" in command(found)
    assert {"--define=scale=3", "--define=limit=5"} <= set(command(found))
    assert parts(spec(f"script:{tmp_path}/one.sql")) == [(f"{tmp_path}/one", 1)]


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        ("no-such", (), "there is no workload no-such; use tpcb-like"),
        ("key-read,", (), "empty part"),
        ("key-read@0", (), "weight must be at least 1"),
        ("script:missing.sql", (), "there is no script"),
        ("script:", (), "empty part"),
        ("key-read,read-articles", (), "needs other data"),
        ("key-read", (("rows", 5),), "has no variable rows; leave it out"),
        ("batch-read", (("row", 5),), "has no variable row; use rows"),
        ("batch-read", (("rows", 0),), "rows is 0; use 1 to 300000 rows"),
        ("sysbench:nothing", (), "needs data of sysbench, not pgbench"),
        ("go-tpc:tpcc", (), "needs data of go-tpc, not pgbench"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    name: str, variables: tuple[tuple[str, int], ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        spec(name, directory=tmp_path, variables=variables)
    assert "\n" not in str(caught.value)


def test_a_variable_of_a_script_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;")
    with pytest.raises(UserError, match="cannot be a variable"):
        spec("script:one.sql", directory=tmp_path, variables=(("a=1 b", 5),))


def test_impossible_workloads_are_refused() -> None:
    with pytest.raises(UserError, match="no scripts"):
        WorkloadSpec("empty", ())
    with pytest.raises(UserError, match="twice"):
        WorkloadSpec("double", (Script("a", None), Script("a", None)))
    with pytest.raises(UserError, match="latency limit must be over 0"):
        WorkloadChoice("key-read", 1, latency_limit_ms=0)
    with pytest.raises(UserError, match="latency limit but no rate"):
        generator(WorkloadChoice("key-read", 1, latency_limit_ms=5), PGBENCH)


def test_pgbench_is_told_all() -> None:
    choice = WorkloadChoice("select-update", 950, 64, rate_per_s=10, latency_limit_ms=250)
    found = generator(choice, PGBENCH)
    assert isinstance(found, Pgbench)
    arguments = command(found.spec)
    assert {
        "--client=950",
        "--jobs=64",
        "--rate=10",
        "--latency-limit=250",
        "--random-seed=7",
        "--builtin=select-only@1",
        "--builtin=simple-update@1",
        "--time=30",
    } <= set(arguments)
    assert "--rate" not in " ".join(command(spec("key-read")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((("fillfactor", "101"),), "fillfactor is '101'; use a number from 10 to 100"),
        ((("fillfactor", "²"),), "use a number"),
        ((("extra_indexes", "-1"),), "use a number from 0"),
        ((("unlogged", "maybe"),), "use true or false"),
        ((("un_logged", "true"),), "has no option un_logged; use fillfactor, unlogged"),
    ],
)
def test_data_that_pgbench_cannot_make_is_refused(
    options: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        generator(WorkloadChoice("key-read", 1), DataChoice("pgbench", 1, options))


def test_other_makers_have_their_own_options() -> None:
    with pytest.raises(UserError, match="data of content-platform has no option unlogged"):
        spec("content-platform", DataChoice("content-platform", 16, (("unlogged", "true"),)))
    with pytest.raises(UserError, match="cannot be made 6000 times smaller"):
        spec("content-platform", DataChoice("content-platform", 6000))
    with pytest.raises(UserError, match="cannot run on data of oracle"):
        spec("key-read", DataChoice("oracle", 1))


def test_data_says_how_it_is_made() -> None:
    options = (
        ("fillfactor", "80"),
        ("unlogged", "true"),
        ("extra_indexes", "9"),
        ("foreign_keys", "on"),
        ("partitions", "4"),
    )
    data = PgbenchData.of(DataChoice("pgbench", 2, options))
    made = data.command("pgbench", "host=db1 password=s3cret")
    assert {"--fillfactor=80", "--unlogged-tables", "--init-steps=tgpf", "--partitions=4"} <= set(
        made
    )
    assert "s3cret" not in " ".join(made)
    statements = data.index_statements()
    assert len(set(statements)) == 9
    assert sum("(aid)" in statement for statement in statements) == 8
    assert statements[-1].endswith("(abalance)")
    assert PgbenchData.of(PGBENCH).index_statements() == ()


def test_more_files_than_may_be_open_are_refused() -> None:
    open_files.allow(10)
    with pytest.raises(HostError, match=r"open files are needed.*ulimit -n"):
        open_files.allow(2**62)


def test_a_missing_pgbench_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="has no pgbench; install it"):
        generator(WorkloadChoice("key-read", 1), PGBENCH, bindir=tmp_path).check()


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("pgbench: error: \npgbench: error: could not create connection for client 9\n", "could"),
        ("progress: 1.0 s\npgbench: error: no such table\nRun was aborted; error: x\n", "no such"),
        ("", "pgbench ended with status 1"),
    ],
)
def test_a_failure_is_told_by_the_first_line_that_says_something(errors: str, message: str) -> None:
    assert pgbench_run._complaint(Ended(1, "", errors)).startswith(message)
