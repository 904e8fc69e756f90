"""The content platform, loaded small on real servers, and its workload run by pgbench."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from local_server import LocalServer, find_pgbench

from pgstow.experiment.workloads import Script, WorkloadSpec, content_platform, start
from pgstow.experiment.workloads.content_platform import Loaded, mix
from pgstow.model import Outcome
from pgstow.model.errors import PgstowError, ServerError, UserError
from pgstow.postgres import connect

SCALE = 2000.0
SEED = 5


@dataclass(frozen=True)
class Platform:
    """A loaded platform on a server."""

    server: LocalServer
    dsn: str
    bindir: Path
    loaded: Loaded
    spec: WorkloadSpec

    def only(self, script: Script) -> WorkloadSpec:
        """The workload with one script."""
        return replace(self.spec, scripts=(script,), clients=2)


def run(
    spec: WorkloadSpec, dsn: str, *, duration_s: float, log_directory: Path, bindir: Path
) -> Outcome:
    """A workload to its end."""
    with start(
        spec, dsn, duration_s=duration_s, log_directory=log_directory, bindir=bindir
    ) as running:
        assert running.wait(60)
        return running.outcome()


def bindir() -> Path:
    program = find_pgbench()
    if program is None:
        pytest.skip("needs pgbench: none found on this machine")
    return program.parent


@pytest.fixture(scope="session")
def platforms() -> dict[int, Platform]:
    return {}


@pytest.fixture
def platform(server: LocalServer, platforms: dict[int, Platform]) -> Platform:
    if server.version not in platforms:
        programs = bindir()
        content_platform.create_database(server.dsn)
        seen: list[tuple[float, float]] = []
        loaded = content_platform.load(
            server.dsn, scale=SCALE, seed=SEED, progress=lambda d, t: seen.append((d, t))
        )
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1]
        dsn = server.dsn_for("postgres", content_platform.DATABASE)
        spec = content_platform.workload(loaded.extent, clients=8)
        platforms[server.version] = Platform(server, dsn, programs, loaded, spec)
    return platforms[server.version]


def test_sizes_are_in_the_documented_proportion(platform: Platform) -> None:
    for relation in content_platform.DOCUMENTED:
        wanted = relation.size_bytes / SCALE
        size = platform.loaded.size_bytes(relation.name)
        # A few blocks more or less are much of a small relation.
        assert abs(size - wanted) <= 0.15 * wanted + 3 * 8192, relation.name


def test_rows_are_frozen_and_visible_to_all(platform: Platform) -> None:
    with connect(platform.dsn, purpose="observe") as connection:
        rows = connection.execute(
            "SELECT relname, relpages, relallvisible FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert len(rows) == 5
    for name, pages, visible in rows:
        assert visible >= 0.8 * pages, name  # another test's writes undo some


def test_loading_twice_is_refused(platform: Platform) -> None:
    with pytest.raises(UserError, match="already; load into an empty database"):
        content_platform.load(platform.server.dsn, scale=SCALE)


@pytest.mark.parametrize("part", mix.PARTS, ids=lambda part: part.script)
def test_every_script_runs(platform: Platform, part: mix.Part, tmp_path: Path) -> None:
    script = next(s for s in platform.spec.scripts if s.name == part.script)
    result = run(
        platform.only(script),
        platform.dsn,
        duration_s=1,
        log_directory=tmp_path,
        bindir=platform.bindir,
    )
    assert result.transactions > 0
    assert result.failed == 0
    assert result.scripts == ()  # of one script nothing is to be said apart


def tuples_read(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes"
            " UNION ALL SELECT relname, n_tup_ins FROM pg_stat_user_tables"
        ).fetchall()
    return dict(rows)


def test_the_server_sees_the_documented_rates(platform: Platform, tmp_path: Path) -> None:
    """Index lookups and inserted rows, as the server counts them, over the mixed workload."""
    before = tuples_read(platform.dsn)
    result = run(
        platform.spec, platform.dsn, duration_s=4, log_directory=tmp_path, bindir=platform.bindir
    )
    time.sleep(1.5)  # backends report what they did when they end, at the latest
    after = tuples_read(platform.dsn)
    per_second = sum(part.transactions_per_s for part in mix.PARTS) / result.transactions
    rate = {name: (after[name] - before[name]) * per_second for name in after}
    assert rate["analytics_events"] == pytest.approx(4200, rel=0.15)
    assert rate["articles_cat_pub"] == pytest.approx(3100, rel=0.15)
    if platform.server.version < 17:  # from 17 on several keys of an IN may be one descent
        assert rate["articles_pkey"] == pytest.approx(4200 + 120, rel=0.15)


def test_percentiles_agree_with_pgbenchs_own_figures(platform: Platform, tmp_path: Path) -> None:
    live: list[float] = []
    with start(
        replace(platform.spec, clients=4),
        platform.dsn,
        duration_s=4,
        seed=9,
        log_directory=tmp_path,
        bindir=platform.bindir,
        progress=lambda done, total: live.append(done / total),
    ) as running:
        assert running.wait(60)
        result = running.outcome()
    assert running.reported_tps == pytest.approx(result.tps, rel=0.05)
    assert result.mean_ms is not None
    # Little's law: pgbench's clients are always in a transaction.
    assert result.mean_ms == pytest.approx(4 / result.tps * 1000, rel=0.1)
    assert result.transactions == sum(outcome.transactions for _, outcome in result.scripts)
    assert [name for name, _ in result.scripts] == [part.script for part in mix.PARTS]
    assert result.histogram is not None
    assert sum(result.histogram.counts) == result.transactions
    assert len(result.tps_samples) in (3, 4)
    assert live == sorted(live)
    assert {"--random-seed=9", "--protocol=prepared"} <= set(running.command)


def test_a_workload_in_the_background_is_stopped_in_order(
    platform: Platform, tmp_path: Path
) -> None:
    with start(
        platform.spec, platform.dsn, duration_s=60, log_directory=tmp_path, bindir=platform.bindir
    ) as running:
        deadline = time.monotonic() + 20
        while len(running.samples) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        middle = time.time()
        assert running.pid is not None
        running.stop()
        assert running.pid is None
        whole = running.outcome()
        early = running.outcome(ended_at=middle - 1)
    assert running.interruptions == ()
    assert 2 < whole.seconds < 20
    assert 0 < early.transactions < whole.transactions


def test_leaving_the_block_ends_the_program(platform: Platform, tmp_path: Path) -> None:
    with start(
        platform.spec, platform.dsn, duration_s=60, log_directory=tmp_path, bindir=platform.bindir
    ) as running:
        pid = running.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_password_is_not_on_the_command_line(platform: Platform, tmp_path: Path) -> None:
    secret = "s3cret word"
    with psycopg.connect(platform.dsn, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE postgres PASSWORD '{secret}'")
    tcp = f"host=127.0.0.1 port={platform.server.port} user=postgres password='{secret}'"
    with start(
        platform.spec,
        f"{tcp} dbname={content_platform.DATABASE}",
        duration_s=2,
        log_directory=tmp_path,
        bindir=platform.bindir,
    ) as running:
        command = Path(f"/proc/{running.pid}/cmdline").read_bytes().decode()
        assert running.wait(30)
        result = running.outcome()
    assert "s3cret" not in command
    assert not any("s3cret" in argument for argument in running.command)
    assert result.transactions > 0


def test_a_restart_is_a_gap_or_an_error(
    make_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    programs = bindir()
    server = make_server(15)
    path = tmp_path / "one.sql"
    path.write_text("SELECT 1;\n")
    spec = WorkloadSpec("one", (Script("one", path, 1),), clients=2)
    with start(
        spec,
        server.dsn,
        duration_s=7,
        log_directory=tmp_path / "logs",
        bindir=programs,
        survive_restarts=True,
    ) as running:
        time.sleep(2)
        server.restart()
        assert running.wait(60)
        result = running.outcome()
    assert len(running.interruptions) == 1
    assert running.reported_tps is None
    assert result.seconds > 5
    with start(
        spec, server.dsn, duration_s=30, log_directory=tmp_path / "logs", bindir=programs
    ) as running:
        time.sleep(1.5)
        server.stop("immediate")
        assert running.wait(20)
        assert len(running.interruptions) == 1
        with pytest.raises(ServerError, match="workload one was interrupted"):
            running.outcome()
    with pytest.raises(PgstowError, match="cannot connect"):
        run(spec, server.dsn, duration_s=1, log_directory=tmp_path, bindir=programs)


def test_a_script_that_fails_says_why(platform: Platform, tmp_path: Path) -> None:
    path = tmp_path / "broken.sql"
    path.write_text("SELECT nothing FROM nowhere;\n")
    spec = WorkloadSpec("broken", (Script("broken", path, 1),), clients=1)
    with pytest.raises(ServerError, match='relation "nowhere" does not exist'):
        run(
            spec,
            platform.dsn,
            duration_s=1,
            log_directory=tmp_path / "logs",
            bindir=platform.bindir,
        )


def test_a_script_of_any_name_runs(platform: Platform, tmp_path: Path) -> None:
    path = tmp_path / 'it\'s a $(script); "x"@3.sql'
    path.write_text("SELECT 1;\n")
    spec = WorkloadSpec("odd", (Script("odd", path, 2),), clients=1)
    result = run(
        spec, platform.dsn, duration_s=1, log_directory=tmp_path / "lo gs", bindir=platform.bindir
    )
    assert result.transactions > 0
