"""Replays on the virtual clock: a trace that the model itself made comes out as it went in."""

import json
import random
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pgstow.cli
from pgstow import _native
from pgstow.cli.main import app
from pgstow.model import Burst, Device, Latency, Member, UserError
from pgstow.prediction.replay import replay
from pgstow.trace_file import read_recording, sidecar
from pgstow.units import GIB, KIB, Bytes

assert pgstow.cli.main is not None  # every command is registered

HEADER = "received_ns,volume,kind,offset,length,completed_ns\n"
START_NS = 7_000_000_000  # the server had run for a while


def device(**member: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "iops": 3000.0,
        "bytes_per_second": None,
        "io_unit_bytes": 256 * KIB,
        "latency": Latency(500, 900, 700, 1500),
    }
    one = Device("data", Bytes(GIB), 1, Bytes(64 * KIB), Member(**(defaults | member)))
    return asdict(one)


def record(path: Path, on: dict[str, Any], *, iops: float, count: int, way_us: int = 0) -> None:
    """A trace of random arrivals, as a server that takes the way off latencies would record it."""
    source = random.Random(5)
    now_ns, ops = 0, []
    for _ in range(count):
        now_ns += round(source.expovariate(iops) * 1e9)
        kind = "read" if source.random() < 0.6 else "write"
        ops.append((now_ns, kind, source.randrange(GIB // 8192) * 8192, 8192))
    done = _native.trace(json.dumps(on), None, ops, 99)
    lines = []
    for (at_ns, kind, offset, length), done_ns in zip(ops, done, strict=True):
        sent_ns = max(at_ns, done_ns - way_us * 1000)
        lines.append(f"{at_ns + START_NS},data,{kind},{offset},{length},{sent_ns + START_NS}\n")
    source.shuffle(lines)  # recorded as they are answered, in any order
    path.write_text(HEADER + "".join(lines))


def closed_record(path: Path, on: dict[str, Any], *, depth: int, count: int) -> None:
    """A trace of so many clients, each of which asks again when it has its answer."""
    step = Recorder(on, depth)
    rows = [step() for _ in range(count)]
    lines = [f"{a + START_NS},data,read,{o},8192,{d + START_NS}\n" for a, o, d in sorted(rows)]
    path.write_text(HEADER + "".join(lines))


class Recorder:
    """A constant service time of 500 µs for each of the clients, and no limits."""

    def __init__(self, on: dict[str, Any], depth: int) -> None:
        self._us = on["member"]["latency"]["read_us_p50"]
        self._ready_ns = [client * 1000 for client in range(depth)]
        self._source = random.Random(3)

    def __call__(self) -> tuple[int, int, int]:
        at_ns = min(self._ready_ns)
        client = self._ready_ns.index(at_ns)
        done_ns = at_ns + round(self._us * 1000)
        self._ready_ns[client] = done_ns + 100_000  # it thinks
        return at_ns, self._source.randrange(GIB // 8192) * 8192, done_ns


def test_a_closed_loop_asks_no_more_than_its_clients_can(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    recorded = device(iops=None, latency=Latency(500, 500, 500, 500))
    closed_record(trace, recorded, depth=16, count=20_000)
    slow = device(iops=1000.0, latency=Latency(500, 500, 500, 500))
    (opened,) = replay(trace, [slow], None).volumes
    found = replay(trace, [slow], None, closed_loop=True)
    (closed,) = found.volumes
    assert opened.kinds[0].replayed.mean_us > 1e6
    # Little's law with thinking: 16 clients, 1,000 a second, 0.1 ms of thought
    assert closed.kinds[0].replayed.mean_us == pytest.approx(16_000 - 100, rel=0.02)
    assert closed.kinds[0].replayed.iops == pytest.approx(1000, rel=0.02)
    assert closed.kinds[0].replayed.count == 20_000
    (same,) = replay(trace, [recorded], None, closed_loop=True).volumes
    assert same.kinds[0].replayed.mean_us == pytest.approx(500, abs=0.1)
    assert same.kinds[0].replayed.iops == pytest.approx(same.kinds[0].recorded.iops, rel=1e-3)


@pytest.mark.parametrize("iops", [1000, 2900])
def test_the_models_own_trace_comes_out_as_it_went_in(tmp_path: Path, iops: float) -> None:
    trace = tmp_path / "run.csv"
    record(trace, device(), iops=iops, count=60_000, way_us=100)
    ways = {"read_us": 100.0, "write_us": 100.0}
    result = replay(trace, [device()], None, compensation=ways, seed=3)
    assert result.requests == 60_000
    (volume,) = result.volumes
    for kind in volume.kinds:
        assert kind.recorded.count == kind.replayed.count
        assert kind.mean_difference == pytest.approx(0, abs=0.02)
        assert kind.p99_difference == pytest.approx(0, abs=0.05)
        assert kind.recorded != kind.replayed  # another seed
    assert {kind.kind for kind in volume.kinds} == {"read", "write"}


def test_other_devices_give_other_latencies(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    record(trace, device(), iops=1000, count=5_000)
    slow = device(latency=Latency(5000, 9000, 7000, 15000), iops=900.0)
    (volume,) = replay(trace, [slow], None).volumes
    assert all((kind.mean_difference or 0) > 5 for kind in volume.kinds)
    assert volume.exceeded_s.any > 4
    assert volume.exceeded_s.host_iops == 0


def test_credits_begin_as_said_and_are_spent(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    burst = Burst("iops", capacity=10_000, refill_per_s=300, burst_rate=3000, initial=0.5)
    record(trace, device(), iops=1300, count=13_000)
    (volume,) = replay(trace, [device(iops=300.0, burst=burst)], None).volumes
    (first_s, full), (last_s, left) = volume.credits[0], volume.credits[-1]
    assert (first_s, full) == (0, 50)
    empty_s = next(at_s for at_s, percent in volume.credits if percent < 1)
    assert empty_s == pytest.approx(5000 / 1000, abs=0.3)
    assert last_s > empty_s
    assert left < 1


LINE = "1,data,read,0,8192,2\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER, "has no requests"),
        ("a,b\n1,2\n", "missing field"),
        (HEADER + LINE + "x,data,read,0,8192,2\n", "line 3: field 1: invalid digit"),
        (HEADER + LINE.replace("data", "wal"), 'line 2: no volume "wal" among data'),
        (HEADER + LINE.replace("read", "trim"), '"trim" is none of read, write, flush'),
        (HEADER + LINE.replace(",0,", f",{GIB},"), "past the end"),
        (HEADER + LINE.replace("1,data", "3,data"), "completed_ns is before received_ns"),
        (HEADER + "1,data\n", "found record with 2 fields"),
    ],
)
def test_a_bad_trace_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    trace = tmp_path / "run.csv"
    trace.write_text(text)
    with pytest.raises(UserError) as caught:
        replay(trace, [device()], None)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def beside(trace: Path, **changes: Any) -> None:
    burst = Burst("iops", capacity=10_000, refill_per_s=300, burst_rate=3000)
    content: dict[str, Any] = {
        "version": 1,
        "seed": 1,
        "host": None,
        "devices": [device(iops=300.0, burst=burst)],
        "compensation": {"read_us": 100.0, "write_us": 120.0},
        "credits": {"data": 2500.0},
        "host_credits": None,
        "dropped": 0,
    }
    sidecar(trace).write_text(json.dumps(content | changes))


def test_what_lies_beside_a_trace_is_read(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    beside(trace, host={"iops": 1.0}, host_credits={"iops": 0.5, "bytes": None})
    recording = read_recording(trace)
    assert recording.initial_devices()[0]["member"]["burst"]["initial"] == 0.25
    assert recording.initial_host() == {"iops": 1.0, "burst_initial": 0.5}
    assert recording.compensation["write_us"] == 120
    beside(trace, version=2)
    with pytest.raises(UserError, match="version 2"):
        read_recording(trace)
    beside(trace, devices=3)
    with pytest.raises(UserError, match="devices"):
        read_recording(trace)
    sidecar(trace).unlink()
    with pytest.raises(UserError, match="does not exist; copy it with the trace"):
        read_recording(trace)


def test_the_command_compares(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    record(trace, device(), iops=500, count=2_000, way_us=100)
    beside(trace, dropped=7)
    shown = CliRunner().invoke(app, ["emulate", "replay", str(trace)], env={"COLUMNS": "140"})
    assert shown.exit_code == 0, shown.output
    assert "difference" in shown.output
    assert "credits from 25.0 %" in shown.output
    full = ["emulate", "replay", str(trace), "--credits", "1", "--json"]
    done = CliRunner().invoke(app, full)
    answer = json.loads(done.stdout)
    assert answer["volumes"][0]["credits"][0] == [0, 100]
    assert "7 requests came after" in done.stderr


def test_ctrl_c_ends_a_long_forecast() -> None:
    config = {
        "mode": "requests",
        "duration_s": 86400,
        "devices": [device()],
        "loads": [{"device": 0, "phases": [{"duration_s": 86400, "depth": 32}]}],
    }
    program = (
        "import sys; from pgstow import _native; print('go', flush=True);"
        "_native.forecast(sys.argv[1])"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "go\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in errors
