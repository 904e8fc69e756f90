"""The bench's pure parts: fio's output as it was recorded, deviations, verdicts, plans, tables."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgstow.cli import emulate_bench
from pgstow.cli.main import app
from pgstow.emulate import bench
from pgstow.emulate.bench import fio, report, trials, verdict, virtual
from pgstow.emulate.bench.measure import Sample
from pgstow.emulate.bench.nbdkit import Nbdkit
from pgstow.emulate.bench.peer_volumes import PeerVolumes
from pgstow.emulate.bench.qemu import QemuStorageDaemon
from pgstow.emulate.bench.rows import ROWS, Criterion, Row, select
from pgstow.host import cpu
from pgstow.model import UserError
from pgstow.model.errors import HostError

RECORDED = Path(__file__).parent / "fio"  # of fio 3.33
TRIALS = {trial.key: trial for trial in trials.TRIALS}
BY_KEY = {row.key: row for row in ROWS}


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


def sample(iops: float = 3000.0, **more: float) -> Sample:
    made = Sample(iops, iops * 8192, 1000.0, 1000.0, 1500.0, 0.1, iops)
    return replace(made, **more)


def test_fio_reads_are_read() -> None:
    result = fio.parse(recorded("read"))
    job = json.loads(recorded("read"))["jobs"][0]["read"]
    assert result.iops == job["iops"]
    assert result.bytes_per_s == job["bw_bytes"]
    assert (result.mean_us, result.p50_us, result.p99_us) == (
        job["lat_ns"]["mean"] / 1000,
        57.6,
        522.24,
    )


def test_a_mixed_job_is_both_sides_without_latencies() -> None:
    result = fio.parse(recorded("mixed"))
    job = json.loads(recorded("mixed"))["jobs"][0]
    assert result.iops == job["read"]["iops"] + job["write"]["iops"]
    assert result.p50_us is None


def test_a_write_with_fdatasync_takes_both() -> None:
    result = fio.parse(recorded("write-fdatasync"))
    job = json.loads(recorded("write-fdatasync"))["jobs"][0]
    write, sync = job["write"]["lat_ns"], job["sync"]["lat_ns"]
    assert result.mean_us == (write["mean"] + sync["mean"]) / 1000
    assert result.p50_us is not None
    assert result.p50_us > sync["percentile"]["50.000000"] / 1000
    # One after the other: their sum is all that the thread does.
    assert result.mean_us == pytest.approx(1e6 / result.iops, rel=0.05)


def test_what_fio_says_before_its_json_is_passed_over() -> None:
    assert fio.parse("fio: a warning\n" + recorded("read")) == fio.parse(recorded("read"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no result"),
        ('{"jobs": [', "no result that can be read"),
        (recorded("read").replace('"error" : 0', '"error" : 5', 1), "error 5"),
        (recorded("read").replace('"total_ios" : ', '"total_ios" : 0, "x" : '), "did nothing"),
    ],
)
def test_what_is_no_result_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        fio.parse(text)


def test_fio_is_asked_for_latencies_only_where_they_are_wanted() -> None:
    files = [Path("/v/a"), Path("/v/b")]
    scale = fio.arguments(TRIALS["scale-read-16"].job, files, seconds=2.5, seed=1)
    assert "--gtod_reduce=1" in scale
    assert "--runtime=2500ms" in scale
    assert [part for part in scale if part.startswith("--filename")] == [
        "--filename=/v/a",
        "--filename=/v/b",
    ]
    alone = fio.arguments(TRIALS["latency-read-1ms"].job, files[:1], seconds=1, seed=1)
    assert "--lat_percentiles=1" in alone
    assert not any("gtod" in part for part in alone)


@pytest.mark.parametrize(
    ("bar", "value", "expected", "passes"),
    [
        (Criterion("within share", 0.005), 2985.0, 3000.0, True),
        (Criterion("within share", 0.005), 2984.9, 3000.0, False),
        (Criterion("within share", 0.005), 3015.1, 3000.0, False),
        (Criterion("within", 300.0), 1800.0, 1500.0, True),
        (Criterion("within", 300.0), 1199.9, 1500.0, False),
        (Criterion("at least", 47_500.0), 47_500.0, 48_000.0, True),
        (Criterion("at least", 47_500.0), 47_499.9, 48_000.0, False),
        (Criterion("at most", 1.0), 1.0, None, True),
        (Criterion("at most", 1.0), 1.01, None, False),
        (Criterion("none"), 7.0, None, None),
    ],
)
def test_bars(bar: Criterion, value: float, expected: float | None, passes: bool | None) -> None:
    assert verdict.meets(bar, value, expected) is passes


def test_a_row_is_judged_by_its_median() -> None:
    row = BY_KEY["limit-read-8k-3000"]
    judged = verdict.judge(row, "pgstow", [3000.0, 2000.0, 3030.0])
    assert (judged.median, judged.least, judged.most) == (3000.0, 2000.0, 3030.0)
    assert judged.spread == pytest.approx(1030 / 3000)
    assert judged.deviation == 0
    assert judged.passed
    assert not verdict.judge(row, "pgstow", [2000.0, 2000.0, 3000.0]).passed


def test_the_nearer_to_the_model_is_closer_and_too_close_is_even() -> None:
    row = BY_KEY["limit-read-8k-3000"]
    assert verdict.resolution(row) == pytest.approx(1 / 4800)
    ours, high, low, same = (
        verdict.judge(row, name, [value])
        for name, value in (("pgstow", 3010.0), ("a", 3020.0), ("b", 2995.0), ("c", 2989.6))
    )
    assert verdict.compare(row, ours, high, (400.0, 100.0)).nearness == "closer"
    assert verdict.compare(row, ours, low, (400.0, 100.0)).nearness == "farther"
    assert verdict.compare(row, ours, same, (400.0, 100.0)).nearness == "even"
    assert verdict.compare(row, ours, high, (400.0, 100.0)).has_cpu_ratio
    assert not verdict.compare(row, ours, high, (399.0, 100.0)).has_cpu_ratio
    assert not verdict.compare(row, ours, high, (None, 100.0)).has_cpu_ratio


def test_rows_say_what_the_model_says() -> None:
    expected = {key: row.wanted for key, row in BY_KEY.items()}
    assert expected["limit-read-8k-3000"] == 3000
    assert expected["limit-read-256k"] == 125 * 1024**2
    assert expected["limit-seq-read-1m"] == 500 * 1024**2
    assert expected["limit-host-iops"] == 8000  # not 4 × 3,000
    assert expected["limit-host-bytes"] == 250 * 1024**2
    assert expected["latency-write-2.5ms"] == 2500
    assert expected["tail-read-p99"] == 1500
    assert expected["scale-write-16"] == 48_000
    assert expected["speed-read"] is None


def test_every_row_has_a_key_of_its_own_and_no_limit_hides_a_latency() -> None:
    assert len(BY_KEY) == len(ROWS)
    for trial in (*trials.LATENCIES, *trials.TAILS):
        assert trial.target.iops is None, f"{trial.key} would measure the limit"


def test_limits_are_reached_by_the_queue() -> None:
    """Little's law: what is in flight suffices for the limit at the p99 of the latency."""
    for trial in trials.LIMITS:
        target, job = trial.target, trial.job
        latency_us = max(target.latency.read_us_p99, target.latency.write_us_p99)
        assert target.iops is not None
        assert target.bytes_per_second is not None
        each = min(target.iops, target.bytes_per_second / job.block_bytes)
        assert job.depth / latency_us * 1e6 > each, trial.key


def test_rows_are_chosen_by_pattern() -> None:
    assert [row.key for row in select("scale-read-16*, gp2-burst", quick=False)] == [
        "scale-read-16",
        "scale-read-16-cores",
        "scale-read-16-cpu",
        "gp2-burst",
    ]
    assert set(select(None, quick=True)) < set(select(None, quick=False))
    with pytest.raises(UserError, match="matches no row"):
        select("limit-*,nothing*", quick=False)


def test_a_plan_fills_its_time() -> None:
    alone = bench.make_plan(peers=())
    assert 1 < alone.repeats <= 5
    assert alone.seconds <= 300
    beside = bench.make_plan(peers=bench.known_peers())
    assert beside.seconds > alone.seconds / alone.repeats
    quick = bench.make_plan(peers=bench.known_peers(), quick=True)
    assert quick.seconds <= 60
    assert bench.make_plan(peers=(), repeats=7).repeats == 7
    with pytest.raises(UserError, match="--repeats 0"):
        bench.make_plan(peers=(), repeats=0)


def test_the_order_is_by_lot_and_leaves_nothing_out() -> None:
    plan = bench.make_plan(peers=("nbdkit",), repeats=4)
    order = plan.order()
    runs = [
        [(group.subject, trial.key) for group in repeat for trial in group.trials]
        for repeat in order
    ]
    ours = {("pgstow", trial.key) for trial in trials.TRIALS}
    theirs = {("nbdkit", trial.key) for trial in trials.TRIALS if trial.has_peers}
    for run in runs:
        assert len(run) == len(set(run))
        assert set(run) == ours | theirs
    assert len({tuple(run) for run in runs}) == 4
    assert order == plan.order()
    assert order != replace(plan, seed=2).order()


def made_report(peer_iops: float = 4000.0) -> bench.BenchReport:
    plan = bench.make_plan(
        peers=("nbdkit",), rows="limit-read-8k-3000,tail-read-*,gp2-burst,replay-read-mean"
    )
    samples = {
        ("limit-read-8k-3000", "pgstow"): [sample(2980.0), sample(2950.0), sample(3000.0)],
        ("limit-read-8k-3000", "nbdkit"): [sample(peer_iops, cores=0.5)],
        ("tail-read", "pgstow"): [sample(p99_us=2000.0)],
    }
    cannot = {("limit-read-8k-3000", "nbdkit"): ("limit IOPS",)}
    others = {"gp2-burst": [2001.0], "replay-read-mean": [-0.02]}
    rows = report.make_rows(plan, samples, others, cannot)
    return bench.BenchReport(
        report.machine({"fio": "fio-3.33"}, 0.0),
        replace(plan, repeats=3),
        12.0,
        rows,
        report.make_comparisons(rows, samples),
    )


def test_a_report_has_each_row_and_comparison() -> None:
    made = made_report()
    found = {result.row.key: result.ours for result in made.rows}
    assert list(found) == [
        "limit-read-8k-3000",
        "tail-read-p50",
        "tail-read-p99",
        "replay-read-mean",
        "gp2-burst",
    ]
    assert made.failed == ("limit-read-8k-3000", "tail-read-p99")
    assert found["replay-read-mean"].median == -0.02
    (compared,) = made.compared
    assert compared.peer == "nbdkit"
    assert compared.nearness == "closer"
    assert compared.peer_deviation == pytest.approx(1 / 3)
    # (2980 + 2950 + 3000) / 0.3 beside 4000 / 0.5
    assert compared.cpu_ratio == pytest.approx(29_766.67 / 8000, rel=1e-5)
    assert not compared.has_cpu_ratio


def test_the_table_says_what_missed_its_bar(capsys: pytest.CaptureFixture[str]) -> None:
    emulate_bench.print_report(made_report())
    lines = capsys.readouterr().out.splitlines()
    own = next(line for line in lines if line.startswith("limit-read-8k-3000"))
    assert own.split() == [
        "limit-read-8k-3000", "IOPS", "3,000", "2,980", "1.7%", "-0.67%", "±0.5%", "MISSED",
    ]  # fmt: skip
    text = "\n".join(lines)
    assert "3 of 5 bars met" in text
    assert "MISSED: limit-read-8k-3000, tail-read-p99" in text
    assert "nbdkit cannot limit IOPS." in text
    assert "closer in 1, even in 0, farther in 0 of 1 comparisons" in text
    assert "in 0 of 1." in text


def test_a_peer_that_is_nearer_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    emulate_bench.print_report(made_report(peer_iops=3000.0))
    text = capsys.readouterr().out
    assert "farther" in next(line for line in text.splitlines() if " nbdkit " in line).split()
    assert "farther in 1 of 1 comparisons" in text


def test_a_dry_run_lists_the_rows() -> None:
    arguments = ["emulate", "bench", "--dry-run", "--rows", "limit-host-*", "--peers", "none"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "limit-host-iops" in result.stdout
    plan = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["plan"]
    assert [row["key"] for row in plan["rows"]] == ["limit-host-iops", "limit-host-bytes"]


def test_a_peer_that_nobody_knows_is_refused() -> None:
    result = CliRunner().invoke(app, ["emulate", "bench", "--dry-run", "--peers", "dm-delay"])
    assert isinstance(result.exception, UserError)


def test_the_virtual_rows_need_no_volumes() -> None:
    """5.4 million credits at 3,000 - 300 a second (EBS user guide: 2,000 s for 100 GiB)."""
    burst_s, after_iops = virtual.gp2_burst()
    assert burst_s == pytest.approx(2000, rel=0.01)
    assert after_iops == pytest.approx(300, rel=0.01)
    plan = bench.make_plan(peers=(), rows="gp2-*")
    assert plan.seconds == 0
    made = bench.run(plan)
    assert [result.ours.passed for result in made.rows] == [True, True]


def nbdkit(tmp_path: Path, version: str) -> Nbdkit:
    made = Nbdkit.__new__(Nbdkit)  # without asking an installed one for its version
    made.version = version
    made._volumes = PeerVolumes(tmp_path, 4)
    return made


def test_nbdkit_is_given_what_it_can_express(tmp_path: Path) -> None:
    old, new = nbdkit(tmp_path, "1.32.5"), nbdkit(tmp_path, "1.40.1")
    gp3 = TRIALS["limit-read-8k-3000"].target
    server, fuse = old.commands(gp3)
    assert "--filter=delay --filter=rate" in server
    assert server.endswith("delay-read=1ms delay-write=2ms rate=1048576000")
    assert "v00" in fuse
    assert old.cannot(gp3) == (
        "limit IOPS",
        "delay by less than whole milliseconds",
        "give latency a tail",
    )
    assert "delay-write=1800us" in new.commands(gp3)[0]
    assert new.cannot(gp3) == ("limit IOPS", "give latency a tail")
    assert "filter" not in old.commands(TRIALS["speed-read"].target)[0]
    short = TRIALS["latency-read-0.3ms"].target
    assert "delay" not in old.commands(short)[0]  # 0 ms is nearer than 1
    assert "delay-read=300us" in new.commands(short)[0]


def test_nbdkit_shares_one_server_under_a_host_cap(tmp_path: Path) -> None:
    server, *fuse = nbdkit(tmp_path, "1.32.5").commands(TRIALS["limit-host-bytes"].target)
    assert f"connection-rate={125 * 1024**2 * 8} rate={250 * 1024**2 * 8}" in server
    assert len(fuse) == 4
    assert all("--connections 1" in one for one in fuse)


def test_qemu_puts_the_hosts_group_behind_the_volumes(tmp_path: Path) -> None:
    made = QemuStorageDaemon.__new__(QemuStorageDaemon)
    made._volumes, made._aio = PeerVolumes(tmp_path, 4), "io_uring"
    target = TRIALS["limit-host-iops"].target
    (command,) = made.commands(target)
    assert command.count('"qom-type":"throttle-group"') == 5
    assert '"id":"host","limits":{"iops-total":8000' in command
    assert "node-name=host-v03,throttle-group=host,file=file-v03" in command
    assert "node-name=v03,throttle-group=limits-v03,file=host-v03" in command
    assert command.count("--export type=fuse") == 4
    assert made.cannot(target) == ("delay",)
    assert made.cannot(TRIALS["speed-read"].target) == ()
    assert "throttle" not in made.commands(TRIALS["speed-read"].target)[0]


def test_a_process_s_time_is_what_it_worked() -> None:
    before = cpu.process_cpu_seconds(os.getpid())
    mine = time.process_time()
    while time.process_time() < mine + 0.05:
        pass
    worked = cpu.process_cpu_seconds(os.getpid()) - before
    assert worked >= 0.05
    with pytest.raises(ProcessLookupError):
        cpu.process_cpu_seconds(2**22 + 1)  # above the kernel's largest pid


def test_a_quick_row_is_the_same_row() -> None:
    plan = bench.make_plan(peers=(), rows="tail-read-*", quick=True)
    rows: list[Row] = [row for row in plan.rows if row.trial is not None]
    assert rows
    for row in rows:
        assert row.trial is not None
        assert row.trial.job.duration_s <= 1
        assert row.wanted == BY_KEY[row.key].wanted
