"""Trials on real servers: made for each on directories, or there already and only used."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from local_server import PASSWORD, LocalServer, find_bindir

from pgstow.experiment.instruments import Recorder
from pgstow.experiment.run import run
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets import DirectoryTarget, ServerTarget
from pgstow.experiment.targets.base_data import BaseSpec, BaseStore
from pgstow.experiment.trial import Tools
from pgstow.experiment.workloads import generator
from pgstow.host import installations, postmaster, programs
from pgstow.model import (
    DataChoice,
    Experiment,
    HostSpec,
    Layout,
    Placement,
    RelationId,
    Schedule,
    ServerChoice,
    Tablespace,
    Treatment,
    Trial,
    UserError,
    Volume,
    WorkloadChoice,
)
from pgstow.postgres import connect
from pgstow.units import GIB, MIB, Bytes

SEEN: list[dict[str, Any]] = []  # what the spy saw of each trial's server
QUESTIONS = {
    "wal": "SELECT setting FROM pg_settings WHERE name = 'data_directory'",
    "spaces": "SELECT jsonb_object_agg(spcname, pg_tablespace_location(oid)) FROM pg_tablespace",
    "options": "SELECT array_agg(spcoptions::text) FROM pg_tablespace WHERE spcoptions IS NOT NULL",
    "moved": "SELECT spcname FROM pg_class c JOIN pg_tablespace t ON t.oid = reltablespace"
    " WHERE relname = 'pgbench_accounts_pkey'",
    "settings": "SELECT jsonb_object_agg(name, setting) FROM pg_settings"
    " WHERE name IN ('work_mem', 'temp_tablespaces', 'shared_buffers', 'random_page_cost')",
    "rows": "SELECT count(*) FROM pgbench_accounts",
    "checkpoints": "SELECT checkpoint_time > now() - interval '30 s' FROM pg_control_checkpoint()",
}


class Spy(Recorder):
    """Instruments that look at the server once more, and into its directory."""

    def __init__(
        self,
        dsn: str,
        *,
        volumes: Mapping[str, str],
        client_pids: Callable[[], Sequence[int]],
        is_local: bool,
        commit_probe_per_s: float,
    ) -> None:
        super().__init__(
            dsn,
            volumes=volumes,
            client_pids=client_pids,
            is_local=is_local,
            commit_probe_per_s=commit_probe_per_s,
        )
        self.asked = dsn

    def __enter__(self) -> Self:
        seen: dict[str, Any] = {"dsn": self.asked, "at": time.monotonic()}
        with connect(self.asked, purpose="experiment") as connection:
            for name, question in QUESTIONS.items():
                (seen[name],) = connection.execute(question.encode()).fetchone() or (None,)
        data = Path(seen["wal"])
        seen["wal"] = os.path.realpath(data / "pg_wal")
        seen["segments"] = sum(len(path.name) == 24 for path in (data / "pg_wal").iterdir())
        seen["data"] = str(data)
        SEEN.append(seen)
        return super().__enter__()


TOOLS = Tools(generator, Spy)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """Base data for all tests of this module."""
    with tempfile.TemporaryDirectory(prefix="pgstow-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def place() -> Iterator[Path]:
    """Directories for volumes, and for what is written down of trials."""
    path = Path(tempfile.mkdtemp(prefix="pgstow-test-", dir="/var/tmp"))
    path.chmod(0o755)
    for name in ("data", "wal", "state"):
        (path / name).mkdir()
    yield path
    shutil.rmtree(path)


def target(cache: Path, place: Path) -> DirectoryTarget:
    return DirectoryTarget(
        cache_directory=cache,
        state_directory=place / "state",
        directories=(("data", place / "data"), ("wal", place / "wal")),
    )


def layout(*, wal: str = "data", relation: str | None = None) -> Layout:
    volumes = tuple(
        Volume(name, "gp3", Bytes(10 * GIB), f"/mnt/{name}") for name in ("data", "wal")
    )
    spaces: tuple[Tablespace, ...] = ()
    if relation is not None:
        moved = (RelationId("bench", "public", relation),)
        spaces = (Tablespace("fast", "wal", moved, (("random_page_cost", "1.5"),)),)
    temp = ("wal",) if relation is not None else ()
    return Layout(HostSpec("ec2", "us-east-1"), volumes, Placement("data", wal, temp), spaces)


def treatment(level: str, **changes: Any) -> Treatment:
    base = Treatment(
        (("place", level),),
        WorkloadChoice("tpcb-like", clients=2),
        DataChoice("pgbench", 1),
        Schedule(duration_s=2, warm_up_s=1),
    )
    return replace(base, **changes)


def experiment(*treatments: Treatment, **changes: Any) -> Experiment:
    first = treatments[0].levels[0][1]
    made = Experiment("places", "Places", "directories", treatments, "place", first, 1, 5)
    return replace(made, **changes)


def trials(wanted: Experiment, on: Any, tools: Tools = TOOLS) -> dict[str, Trial]:
    found: list[Trial] = []
    run(wanted, on, tools, on_trial=found.append)
    return {trial.levels[0][1]: trial for trial in found}


def leftovers(place: Path) -> list[str]:
    """Whatever a trial should not have left behind: on its volumes, or by its record elsewhere."""
    return [str(path) for path in place.glob("*/*") if path.name != "lock"]


@pytest.mark.parametrize("version", [pytest.param(15, marks=pytest.mark.nightly), 18])
def test_a_layout_is_made_for_each_trial_and_gone_after_it(
    version: int, cache: Path, place: Path
) -> None:
    if find_bindir(version) is None:
        pytest.skip(f"needs PostgreSQL {version}")
    server = ServerChoice(version, (("work_mem", "5MB"),))
    wanted = experiment(
        treatment("together", layout=layout(), server=server),
        treatment("apart", layout=layout(wal="wal"), server=server),
        treatment("spread", layout=layout(relation="pgbench_accounts_pkey"), server=server),
    )
    found = trials(wanted, target(cache, place))
    seen = {one["settings"]["work_mem"] + one["wal"]: one for one in SEEN}
    assert len(found) == 3
    for trial in found.values():
        assert trial.outcome.tps > 0
        assert trial.outcome.seconds == pytest.approx(2, abs=0.5)
        assert trial.build.postgres.startswith(f"{version}.")
        assert trial.usd_month is not None
        assert trial.instruments.wal is not None
    assert {one["rows"] for one in seen.values()} == {100_000}
    assert all(one["checkpoints"] for one in SEEN)
    by_wal = {one["wal"] for one in SEEN}
    assert by_wal == {str(place / "wal/pgstow/pg_wal"), str(place / "data/pgstow/data/pg_wal")}
    (spread,) = [one for one in SEEN if one["moved"]]
    assert spread["spaces"]["fast"] == str(place / "wal/pgstow/fast")
    assert spread["options"] == ["{random_page_cost=1.5}"]
    assert spread["settings"]["temp_tablespaces"] == '"fast"'
    assert all(one["settings"]["work_mem"] == str(5 * 1024) for one in SEEN)
    assert all(one["segments"] >= 3 * 32 // 16 for one in SEEN)  # as many as 3 s may fill
    assert leftovers(place) == []


def test_a_memory_limit_holds_or_is_said_not_to(cache: Path, place: Path) -> None:
    server = ServerChoice(18, (("shared_buffers", "32MB"),), Bytes(256 * MIB))
    found = trials(
        experiment(treatment("small", layout=layout(), server=server)), target(cache, place)
    )
    codes = [warning.code for warning in found["small"].warnings]
    assert ("memory-not-limited" in codes) == (os.geteuid() != 0)
    assert leftovers(place) == []


def test_a_relation_that_the_data_do_not_have_is_refused(cache: Path, place: Path) -> None:
    wanted = experiment(treatment("spread", layout=layout(relation="pgbench_acounts")))
    with pytest.raises(
        UserError, match=r"relation public\.pgbench_acounts, which the experiment's data"
    ):
        trials(wanted, target(cache, place))
    assert list(cache.glob("*.draft")) == []


def test_a_trial_that_fails_leaves_nothing(cache: Path, place: Path) -> None:
    server = ServerChoice(18, (("no_such_setting", "on"),))
    wanted = experiment(treatment("broken", layout=layout(wal="wal"), server=server))
    with pytest.raises(Exception, match="no_such_setting"):
        trials(wanted, target(cache, place))
    assert leftovers(place) == []


_LOADS = """
import sys
from pathlib import Path
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.targets.base_data import BaseStore, BaseSpec
from pgstow.experiment.workloads import generator
from pgstow.host import installations
from pgstow.model import DataChoice, WorkloadChoice
data = DataChoice("pgbench", 40)
bindir = installations.require_bindir(18)
made = generator(WorkloadChoice("tpcb-like", 1), data, bindir=bindir)
run_context = RunContext(lambda what: print(what, flush=True))
with BaseStore(Path(sys.argv[1])).held(BaseSpec(data, bindir, "18"), made.load, run_context):
    print("held", flush=True)
"""


def test_a_killed_load_passes_for_nothing_and_the_next_clears_it_up(place: Path) -> None:
    command = [sys.executable, "-c", _LOADS, str(place)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    for line in first.stdout:
        if "%" in line:
            break
    first.send_signal(signal.SIGKILL)
    first.wait()
    (draft,) = place.glob("*.draft")
    server = postmaster.running_pid(str(draft / "data"))
    assert server is not None
    runtime = (draft / "data/postmaster.pid").read_text().splitlines()[4]
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert second.stdout.splitlines()[-1] == "held"
    assert not Path(f"/proc/{server}/cwd").exists() or postmaster.running_pid(str(draft)) is None
    assert not Path(runtime).exists()
    (base,) = [path for path in place.iterdir() if (path / "base.json").exists()]
    known = json.loads((base / "base.json").read_text())
    assert known["data"]["scale"] == 40
    assert known["size_bytes"] > 500 * MIB
    assert list(place.glob("*.draft")) == []


def test_two_at_once_load_the_same_data_once(place: Path) -> None:
    command = [sys.executable, "-c", _LOADS, str(place)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum("vacuuming" in text for text in told) == 1
    assert sum("waiting for another run" in text for text in told) == 1


def test_a_base_is_made_by_the_version_that_is_to_serve_it(place: Path) -> None:
    data = DataChoice("pgbench", 1)
    store = BaseStore(place)
    for version in (15, 18):
        if find_bindir(version) is None:
            pytest.skip(f"needs PostgreSQL {version}")
        bindir = installations.require_bindir(version)
        told = programs.run([str(bindir / "postgres"), "--version"], timeout_s=10)
        made = generator(WorkloadChoice("tpcb-like", 1), data, bindir=bindir)
        with store.held(BaseSpec(data, bindir, told), made.load, RunContext()) as base:
            assert (base.data / "PG_VERSION").read_text().strip() == str(version)
            assert len([p for p in (base.data / "pg_wal").iterdir() if p.is_file()]) == 1


# Servers that are there already.


@pytest.fixture
def used(make_server: Callable[..., LocalServer]) -> LocalServer:
    return make_server(18)


def serve(state: Path, **options: Any) -> ServerTarget:
    return ServerTarget(state_directory=state, **options)


def on(there: LocalServer, **changes: Any) -> Treatment:
    return treatment(changes.pop("level", "there"), dsn=there.dsn, **changes)


def test_a_server_of_somebodys_is_loaded_run_and_left_running(
    used: LocalServer, tmp_path: Path
) -> None:
    wanted = experiment(on(used, server=ServerChoice(settings=(("work_mem", "7 MB"),))))
    whole = serve(tmp_path)
    with pytest.raises(UserError, match=r"table pgbench_accounts is not in .*; load the data"):
        trials(wanted, whole)
    whole.load(wanted, TOOLS.generator)
    with pytest.raises(UserError, match=r"table pgbench_accounts is in .* already"):
        whole.load(wanted, TOOLS.generator)
    found = trials(wanted, whole)["there"]
    assert found.outcome.tps > 0
    assert {"state-carried-over", "caches-as-found"} <= {one.code for one in found.warnings}
    assert SEEN[0]["settings"]["work_mem"] == str(7 * 1024)
    with connect(used.dsn, purpose="experiment") as connection:
        (rows,) = connection.execute("SELECT count(*) FROM pgbench_history").fetchone() or (0,)
        assert rows > 0
    whole.load(wanted, TOOLS.generator, replace=True)
    with connect(used.dsn, purpose="experiment") as connection:
        (rows,) = connection.execute("SELECT count(*) FROM pgbench_history").fetchone() or (1,)
        assert rows == 0
        (value,) = connection.execute("SHOW work_mem").fetchone() or ("",)
        assert value == "4MB"
    assert list((tmp_path / "servers").iterdir()) == []


@pytest.mark.parametrize(
    ("server", "what"),
    [
        (ServerChoice(settings=(("shared_buffers", "1GB"),)), "shared_buffers = 1GB"),
        (ServerChoice(settings=(("no_such_setting", "1"),)), "no_such_setting = 1"),
    ],
)
def test_settings_that_need_a_restart_are_refused(
    used: LocalServer, tmp_path: Path, server: ServerChoice, what: str
) -> None:
    with pytest.raises(UserError, match=f"asks for {what}, and .* not the experiment's to restart"):
        serve(tmp_path).check(experiment(on(used, server=server)))


def test_settings_that_hold_already_and_sessions_own_are_accepted(
    used: LocalServer, tmp_path: Path
) -> None:
    settings = (("shared_buffers", "32MB"), ("random_page_cost", "1.1"))
    serve(tmp_path).check(experiment(on(used, server=ServerChoice(settings=settings))))


def test_versions_that_are_compared_must_be_what_runs(used: LocalServer, tmp_path: Path) -> None:
    wanted = experiment(
        on(used, level="new", server=ServerChoice(18)),
        on(used, level="old", server=ServerChoice(15)),
    )
    with pytest.raises(UserError, match=r"asks for PostgreSQL 15 where 18\.\d+ runs"):
        serve(tmp_path).check(wanted)


def test_two_servers_are_measured_side_by_side(
    make_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    one, other = make_server(18), make_server(18)
    wanted = experiment(
        on(one, level="one"), on(other, level="other"), side_by_side=True, target="server"
    )
    whole = serve(tmp_path)
    whole.load(wanted, TOOLS.generator)
    found = trials(wanted, whole)
    assert {name: trial.outcome.tps > 0 for name, trial in found.items()} == {
        "one": True,
        "other": True,
    }
    assert {seen["dsn"] for seen in SEEN} == {one.dsn, other.dsn}
    assert abs(SEEN[0]["at"] - SEEN[1]["at"]) < 1.5  # of the 3 s that each has load


def test_side_by_side_on_one_server_is_refused(used: LocalServer, tmp_path: Path) -> None:
    wanted = experiment(
        on(used, level="one"),
        replace(on(used, level="other"), dsn=used.dsn_for("postgres", "template1")),
        side_by_side=True,
    )
    with pytest.raises(UserError, match="side by side on one server"):
        serve(tmp_path).check(wanted)


def test_a_role_that_may_not_make_a_checkpoint_is_told(used: LocalServer, tmp_path: Path) -> None:
    with connect(used.dsn, purpose="experiment") as connection:
        connection.execute("CREATE ROLE app LOGIN")
        connection.execute("GRANT ALL ON SCHEMA public TO app")
    wanted = experiment(replace(on(used), dsn=used.dsn_for("app")))
    whole = serve(tmp_path)
    tools = Tools(generator, Recorder)
    whole.load(wanted, tools.generator)
    found = trials(wanted, whole, tools)["there"]
    assert "no-checkpoint-first" in {one.code for one in found.warnings}


def test_a_password_from_a_secret_reaches_the_server_and_nobody_else(
    used: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boto3 = pytest.importorskip("boto3")
    from moto.server import ThreadedMotoServer

    aws = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    aws.start()
    host, port = aws.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    secret = json.dumps({"username": "postgres", "password": PASSWORD})
    boto3.client("secretsmanager").create_secret(Name="db", SecretString=secret)
    dsn = f"host=127.0.0.1 port={used.port} dbname=postgres"
    wanted = experiment(replace(on(used), dsn=dsn))
    with pytest.raises(UserError, match="password"):
        serve(tmp_path).load(wanted, TOOLS.generator)
    commands: list[str] = []
    whole = serve(tmp_path, secrets=((dsn, "db"),))
    whole.load(wanted, TOOLS.generator)
    tools = Tools(generator, partial(_watching, commands))
    found = trials(wanted, whole, tools)["there"]
    aws.stop()
    assert found.outcome.tps > 0
    assert any("pgbench" in command for command in commands)
    assert not any(PASSWORD in text for text in (*commands, repr(found), repr(whole)))


def _watching(
    commands: list[str],
    dsn: str,
    *,
    volumes: Mapping[str, str],
    client_pids: Callable[[], Sequence[int]],
    is_local: bool,
    commit_probe_per_s: float,
) -> Recorder:
    for pid in client_pids():
        commands.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return Recorder(dsn, volumes=volumes, client_pids=client_pids, is_local=is_local)
