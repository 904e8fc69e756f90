"""Targets without a server: what is refused, what is kept, and what a killed run leaves."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from experiment_samples import experiment
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import pgstow.cli
from pgstow.cli.main import app
from pgstow.experiment.run_context import RunContext, StoppedError
from pgstow.experiment.targets import DirectoryTarget, EmulatedTarget, ServerTarget
from pgstow.experiment.targets.base_data import BaseSpec, BaseStore
from pgstow.experiment.targets.directories import MountedDirectories
from pgstow.experiment.targets.known_data import expected_bytes, missing_tables, tables_among
from pgstow.experiment.targets.record import Record, clear_leftovers
from pgstow.experiment.targets.restored import later_segment, preallocate_wal
from pgstow.experiment.targets.tablespace_layout import (
    plain_name,
    spaces,
    temp_tablespaces,
    volume_of,
)
from pgstow.host import locks, processes
from pgstow.model import (
    DataChoice,
    Experiment,
    HostSpec,
    Layout,
    Placement,
    RelationId,
    ServerChoice,
    Tablespace,
    UserError,
    Volume,
)
from pgstow.units import GIB, MIB, Bytes

assert pgstow.cli.main is not None  # every command is registered

HOT = Tablespace(
    "hot", "fast", (RelationId("shop", "public", "orders"),), (("random_page_cost", "1"),)
)


def layout(
    *names: str, tablespaces: tuple[Tablespace, ...] = (), temp: tuple[str, ...] = ()
) -> Layout:
    names = names or ("data",)
    volumes = tuple(Volume(name, "gp3", Bytes(GIB), f"/mnt/{name}") for name in names)
    return Layout(HostSpec(), volumes, Placement(names[0], names[0], temp), tablespaces)


def made(**changes: object) -> Experiment:
    """An experiment whose treatments have layouts."""
    whole = experiment()
    treatments = (replace(one, **({"layout": layout()} | changes)) for one in whole.treatments)
    return replace(whole, treatments=tuple(treatments))


def directory_target(path: Path) -> DirectoryTarget:
    return DirectoryTarget(directories=(("data", path),))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="pgstow-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_targets_can_be_sent_to_another_machine(tmp_path: Path) -> None:
    targets = (
        directory_target(tmp_path),
        EmulatedTarget(make_volumes=MountedDirectories),
        ServerTarget(secrets=(("dbname=shop", "shop/monitor"),)),
    )
    assert pickle.loads(pickle.dumps(targets)) == targets


def test_a_treatment_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    target = directory_target(tmp_path)
    target.check(made())
    with pytest.raises(UserError, match="has no layout"):
        target.check(experiment())
    with pytest.raises(UserError, match="names a server"):
        target.check(made(dsn="dbname=shop"))
    with pytest.raises(UserError, match="PostgreSQL 9 is not installed"):
        target.check(made(server=ServerChoice(9)))
    with pytest.raises(UserError, match="volume wal of the layout has no directory"):
        target.check(made(layout=layout("data", "wal")))
    with pytest.raises(UserError, match="side by side"):
        target.check(replace(made(), side_by_side=True))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"layout": layout()}, "a layout"),
        ({"server": ServerChoice(memory_bytes=Bytes(GIB))}, "a limit of memory"),
    ],
)
def test_a_server_of_somebodys_is_not_made_to_fit(asked: dict[str, object], what: str) -> None:
    with pytest.raises(UserError) as refusal:
        ServerTarget().check(made(**({"layout": None, "dsn": "host=db1 password=x"} | asked)))
    assert f"asks for {what}, and host=db1 is a server that is not the experiment's" in str(
        refusal.value
    )
    with pytest.raises(UserError, match="names no server"):
        ServerTarget().check(experiment())


def test_directories_must_be_there_empty_and_apart(tmp_path: Path) -> None:
    volumes = MountedDirectories()
    one = replace(layout(), volumes=(replace(layout().volumes[0], mount=str(tmp_path)),))
    volumes.up(one)
    assert set(volumes.devices().values()) <= {"data"}
    (tmp_path / "lost+found").mkdir()
    volumes.up(one)
    (tmp_path / "PG_VERSION").write_text("18")
    with pytest.raises(UserError, match=r"is not empty \('PG_VERSION' is in it\)"):
        volumes.up(one)
    missing = replace(one.volumes[0], mount=str(tmp_path / "none"))
    with pytest.raises(UserError, match="No such file or directory"):
        volumes.up(replace(one, volumes=(missing,)))
    both = layout("data", "wal").volumes
    (tmp_path / "PG_VERSION").unlink()
    (tmp_path / "link").symlink_to(tmp_path)
    places = (replace(both[0], mount=str(tmp_path)), replace(both[1], mount=str(tmp_path / "link")))
    with pytest.raises(UserError, match="volumes data and wal have one directory"):
        volumes.up(replace(layout("data", "wal"), volumes=places))


def test_an_arrangement_is_the_same_on_whatever_volumes() -> None:
    one = layout("data", "fast", tablespaces=(HOT,))
    renamed = replace(HOT, relations=(RelationId("bench", "public", "orders"),), volume="data")
    assert spaces(one) == spaces(layout("data", "fast", tablespaces=(renamed,)))
    assert volume_of(one, "hot") == "fast"
    assert temp_tablespaces(one) is None


def test_temporary_files_have_a_tablespace_on_each_of_their_volumes() -> None:
    one = layout("data", "fast", "bulk", tablespaces=(HOT,), temp=("data", "fast", "bulk"))
    assert temp_tablespaces(one) == '"hot", "temp_bulk"'
    assert volume_of(one, "temp_bulk") == "bulk"


@given(st.text(min_size=1), st.text(min_size=1))
def test_tablespaces_of_other_names_have_other_directories(one: str, other: str) -> None:
    assert (plain_name(one) == plain_name(other)) == (one == other)
    assert plain_name(one).replace("-", "").replace("_", "").isalnum() or set(one) <= set("-_")


def test_wal_files_are_there_before_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "0000000100000000000000FE").write_bytes(b"needed")
    (tmp_path / "archive_status").mkdir()
    preallocate_wal(tmp_path, 40 * MIB)
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == [
        "0000000100000000000000FE",
        "0000000100000000000000FF",
        "000000010000000100000000",
    ]
    assert (tmp_path / names[0]).read_bytes() == b"needed"
    assert (tmp_path / names[2]).read_bytes() == bytes(16 * MIB)


@given(st.integers(0, 2**40 - 1001), st.integers(1, 1000))  # an LSN has 64 bits
def test_wal_segments_are_named_in_order(number: int, steps: int) -> None:
    name = later_segment("000000010000000000000000", number)
    assert later_segment("000000010000000000000000", number + steps) == later_segment(name, steps)
    assert name < later_segment(name, steps)


def _base_spec(scale: int, **changes: object) -> BaseSpec:
    return replace(BaseSpec(DataChoice("pgbench", scale), Path("/none"), "18.4"), **changes)


def _never(dsn: str, progress: object) -> None:
    raise AssertionError("nothing is to be loaded")


def test_equal_choices_are_one_base_and_others_are_not() -> None:
    base = _base_spec(1)
    assert base.digest == _base_spec(1, bindir=Path("/elsewhere")).digest
    others = [
        _base_spec(2),
        _base_spec(1, version="18.5"),
        _base_spec(1, data=DataChoice("pgbench", 1, (("unlogged", "on"),))),
        _base_spec(1, spaces=spaces(layout("data", "fast", tablespaces=(HOT,)))),
    ]
    assert len({one.digest for one in [base, *others]}) == 5


def test_data_that_do_not_fit_are_refused_before_they_are_loaded(open_directory: Path) -> None:
    store = BaseStore(open_directory)
    wanted = _base_spec(10**7)
    assert expected_bytes(wanted.data) > 10**14
    with (
        pytest.raises(UserError, match="too little disk for pgbench at scale 10000000"),
        store.held(wanted, _never, RunContext()),
    ):
        pass
    assert [path.name for path in open_directory.iterdir()] == [f"{wanted.digest}.lock"]


def test_the_tables_of_data_are_told_from_others() -> None:
    there = ("orders", "pgbench_accounts", "sbtest1", "sbtest2", "users")
    assert tables_among(there, DataChoice("pgbench", 1)) == ("pgbench_accounts",)
    assert tables_among(there, DataChoice("sysbench", 1)) == ("sbtest1", "sbtest2")
    assert missing_tables(there, DataChoice("sysbench", 1)) == ()
    assert "pgbench_history" in missing_tables(there, DataChoice("pgbench", 1))
    tpch = DataChoice("go-tpc", 1, (("benchmark", "tpch"),))
    assert "warehouse" not in missing_tables(there, tpch)
    assert "warehouse" in missing_tables(there, DataChoice("go-tpc", 1))


@given(st.sampled_from(["pgbench", "sysbench", "go-tpc"]), st.integers(1, 1000))
def test_larger_data_are_expected_to_be_larger(maker: str, scale: int) -> None:
    assert expected_bytes(DataChoice(maker, scale)) < expected_bytes(DataChoice(maker, scale + 1))


def test_a_base_that_nobody_uses_gives_way_to_one_that_needs_the_room(open_directory: Path) -> None:
    free, used, draft = "a" * 16, "b" * 16, "c" * 16 + ".draft"
    for name in (free, used, draft):
        (open_directory / name).mkdir()
        (open_directory / name / "pgstow-base").touch()
    (open_directory / ("e" * 16)).mkdir()  # killed before it was marked
    theirs = ("somebody's", "f" * 16, "f" * 16 + ".draft")
    for name in theirs:
        (open_directory / name).mkdir()
        (open_directory / name / "precious").touch()
    store = BaseStore(open_directory)
    with (
        locks.locked(open_directory / f"{used}.lock", waiting=lambda: None, shared=True),
        pytest.raises(UserError, match="too little disk") as refused,
        store.held(_base_spec(10**7), _never, RunContext()),
    ):
        pass
    left = {path.name for path in open_directory.iterdir() if path.is_dir()}
    assert left == {used, *theirs}
    assert all((open_directory / name / "precious").exists() for name in theirs)
    assert all(name in refused.value.message for name in theirs)


def test_a_draft_that_somebody_else_put_there_is_named_and_left(open_directory: Path) -> None:
    draft = open_directory / f"{_base_spec(1).digest}.draft"
    draft.mkdir()
    (draft / "precious").touch()
    with (
        pytest.raises(UserError, match=rf"{draft.name} exists, and pgstow did not make it"),
        BaseStore(open_directory).held(_base_spec(1), _never, RunContext()),
    ):
        pass
    assert (draft / "precious").exists()


def test_kept_data_are_cleared_but_for_what_is_used_and_what_is_no_base(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_directory / "pgstow"
    place.mkdir(mode=0o755)
    whole, used, draft = "a" * 16, "b" * 16, "c" * 16 + ".draft"
    for name in (whole, used, draft, "somebody's"):
        (place / name / "data").mkdir(parents=True)
        (place / name / "data" / "file").write_bytes(bytes(1000))
    for name in (used, draft):
        (place / name / "pgstow-base").touch()
    contents = {"data": {"maker": "pgbench", "scale": 7}}
    (place / whole / "base.json").write_text(json.dumps(contents))
    (place / ("d" * 16)).symlink_to(place / "somebody's")
    monkeypatch.setenv("XDG_CACHE_HOME", str(open_directory))

    def cleared(*options: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["bench", "clear", "--json", *options])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.output)
        return found

    with locks.locked(place / f"{used}.lock", waiting=lambda: None, shared=True):
        would = cleared("--dry-run")
        assert {path.name for path in place.iterdir() if path.is_dir()} >= {whole, used, draft}
        shown = CliRunner().invoke(app, ["bench", "clear", "--dry-run"]).output
        assert "would remove: pgbench at scale 7" in shown and "in use, stays" in shown
        did = cleared()
    assert would["unmanaged"] == [str(place / ("d" * 16)), str(place / "somebody's")]
    assert would["bases"] == did["bases"] and would["freed_bytes"] == did["freed_bytes"] > 2000
    assert [one["in_use"] for one in did["bases"]] == [False, True, False]
    left = {path.name for path in place.iterdir() if path.is_dir()}
    assert left == {used, "somebody's", "d" * 16}
    assert (place / "somebody's" / "data" / "file").exists()
    place.chmod(0o777)
    refused = CliRunner().invoke(app, ["bench", "clear"])
    assert isinstance(refused.exception, UserError)


@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("allowed", range(9))
def test_a_half_removed_base_is_still_known_as_one(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, is_marked: bool
) -> None:
    """Its removal ends before the first file goes, before the second, and so on."""
    store, wanted = BaseStore(open_directory), _base_spec(1)
    base = open_directory / wanted.digest
    for name in ("data/base", "tablespaces"):
        (base / name).mkdir(parents=True)
        (base / name / "file").touch()
    contents = {"spaces": [], "size_bytes": 9, "data": {"maker": "pgbench", "scale": 1}}
    (base / "base.json").write_text(json.dumps(contents))
    if is_marked:
        (base / "pgstow-base").touch()
    assert not store.missing(wanted)
    real = {name: getattr(os, name) for name in ("replace", "rmdir", "unlink")}
    done: list[str] = []

    def counted(name: str, *arguments: Any, **options: Any) -> None:
        if len(done) == allowed:
            raise KeyboardInterrupt
        real[name](*arguments, **options)
        done.append(name)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        for name in real:
            patch.setattr(os, name, partial(counted, name))
        store.clear()
    assert store.missing(wanted) == (len(done) > 0)
    assert store.unmanaged_directories() == ()
    store.clear()
    assert not base.exists()


def test_a_cache_directory_that_others_may_write_is_refused(open_directory: Path) -> None:
    open_directory.chmod(0o777)
    with (
        pytest.raises(UserError, match="may be written by others"),
        BaseStore(open_directory).held(_base_spec(1), _never, RunContext()),
    ):
        pass


def test_a_lock_is_of_one_program_and_waiting_can_be_given_up(tmp_path: Path) -> None:
    run_context = RunContext()
    run_context.stop()
    path = tmp_path / "lock"
    with locks.locked(path, waiting=lambda: None):
        with locks.tried(path) as is_held:
            assert not is_held
        give_up = partial(run_context.pause, "waiting")
        with pytest.raises(StoppedError), locks.locked(path, waiting=give_up):
            pass
    with locks.tried(path) as is_held:
        assert is_held


_LEAVES = """
import subprocess, sys
from pathlib import Path
from pgstow.experiment.targets.known_data import expected_bytes, missing_tables, tables_among
from pgstow.experiment.targets.record import Record
from pgstow.host import processes
state, place = Path(sys.argv[1]), Path(sys.argv[2])
record = Record(state / "trial-1.json")
record.note_directory(place)
(place / "log").mkdir(parents=True)
sleeper = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
record.note_server(processes.identify(sleeper.pid), place)
client = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
record.note_clients([client.pid])
print(sleeper.pid, client.pid)
"""


def test_what_a_killed_run_left_is_ended_and_removed(tmp_path: Path) -> None:
    place = tmp_path / "pgstow-bench-1"
    done = subprocess.run(
        [sys.executable, "-c", _LEAVES, str(tmp_path), str(place)],
        capture_output=True,
        text=True,
        check=True,
    )
    left = [processes.identify(int(pid)) for pid in done.stdout.split()]
    assert all(left)
    assert place.is_dir()
    volumes: list[str] = []
    clear_leftovers(tmp_path, lambda: volumes.append("down"))
    assert not any(processes.is_running(process) for process in left if process)
    assert not place.exists()
    assert volumes == ["down"]
    assert list(tmp_path.glob("trial-*")) == []


def test_a_run_that_goes_on_keeps_what_it_has(tmp_path: Path) -> None:
    record = Record(tmp_path / "trial-1.json")
    place = tmp_path / "pgstow-bench-1"
    place.mkdir()
    record.note_directory(place)
    clear_leftovers(tmp_path)
    assert place.exists()
    record.forget_if_gone()
    assert record.path.exists()
    place.rmdir()
    record.forget_if_gone()
    assert not record.path.exists()


def test_only_directories_of_ours_are_ever_removed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Record(tmp_path / "trial-1.json").note_directory(Path(os.sep) / "var")
