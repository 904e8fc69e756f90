"""The simulator behind pgstow._native: shape of its answer, laws, errors, other threads."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstow import _native
from pgstow.units import GIB

KEYS = {
    "tps",
    "transactions",
    "latency_ms",
    "read_ms",
    "commit_ms",
    "wal_write_us",
    "wal_sync_us",
    "flushes_per_s",
    "commits_per_flush",
    "cpu_utilisation",
    "devices",
    "host_iops_utilisation",
    "host_bytes_utilisation",
    "background_backlog",
    "events",
    "stationary",
}


def device(name: str = "data", iops: float | None = 3000.0, **changes: Any) -> dict[str, Any]:
    """A device of the model, as JSON has it."""
    latency = {
        "read_us_p50": 700.0,
        "read_us_p99": 1500.0,
        "write_us_p50": 1000.0,
        "write_us_p99": 2000.0,
    }
    member = {
        "iops": iops,
        "bytes_per_second": 125.0 * 1024**2,
        "io_unit_bytes": 262144,
        "latency": latency,
        "burst": None,
    }
    whole = {"size_bytes": 100 * GIB, "stripes": 1, "chunk_bytes": 65536, "member": member}
    return {"name": name, **whole, **changes}


def config(**changes: Any) -> dict[str, Any]:
    """A small workload on one gp3."""
    base: dict[str, Any] = {
        "seed": 1,
        "warmup_s": 1.0,
        "duration_s": 5.0,
        "clients": 32,
        "think_us": 50.0,
        "cores": 2,
        "cpu_us": 180.0,
        "host": None,
        "devices": [device()],
        "reads": [{"device": 0, "per_transaction": 1.7, "bytes": 8192, "sequential": False}],
        "wal": {
            "device": 0,
            "write_fraction": 0.33,
            "bytes_per_transaction": 900,
            "overhead_us": 60,
        },
    }
    return base | changes


def simulate(**changes: Any) -> dict[str, Any]:
    """The simulator's answer."""
    answer: dict[str, Any] = json.loads(_native.simulate(json.dumps(config(**changes))))
    return answer


def test_the_answer_has_every_figure() -> None:
    answer = simulate()
    assert set(answer) == KEYS
    assert set(answer["latency_ms"]) == {"mean", "p50", "p95", "p99"}
    assert answer["devices"][0]["name"] == "data"
    assert answer["host_iops_utilisation"] is None
    assert answer["tps"] == pytest.approx(answer["transactions"] / 5.0)


def test_without_a_log_nothing_commits() -> None:
    answer = simulate(wal=None)
    assert answer["commit_ms"] is None
    assert answer["wal_sync_us"] is None
    assert answer["commits_per_flush"] is None


def test_equal_seeds_give_equal_answers() -> None:
    assert simulate() == simulate()
    assert simulate() != simulate(seed=2)


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(1, 128),
    think_us=st.floats(0, 10_000),
    cpu_us=st.floats(20, 1000),
    stripes=st.integers(1, 8),
    per_transaction=st.floats(0, 5),
    write_fraction=st.floats(0, 1),
)
def test_no_resource_is_used_beyond_its_limit(
    clients: int,
    think_us: float,
    cpu_us: float,
    stripes: int,
    per_transaction: float,
    write_fraction: float,
) -> None:
    answer = simulate(
        clients=clients,
        think_us=think_us,
        cpu_us=cpu_us,
        devices=[device(stripes=stripes)],
        reads=[{"device": 0, "per_transaction": per_transaction}],
        wal={"device": 0, "write_fraction": write_fraction, "bytes_per_transaction": 5000},
    )
    used = answer["devices"][0]
    assert used["iops_utilisation"] <= 1.02
    assert used["bytes_utilisation"] <= 1.02
    assert answer["cpu_utilisation"] <= 1.0
    latency = answer["latency_ms"]
    assert latency["p50"] <= latency["p95"] <= latency["p99"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "simulation: "),
        ("{}", "duration_s"),
        (json.dumps(config(clients=0)), "clients is 0"),
        (json.dumps(config(clients=-1)), "-1"),
        (json.dumps(config(client=5)), "client"),
        (json.dumps(config(devices=[])), "reads[0].device is 0"),
        (json.dumps(config(devices=[device(stripes=0)])), "stripes"),
        (json.dumps(config(devices=[device('a\n"b"', iops=-5.0)])), "iops"),
        (json.dumps(config(host={"iops": 0, "bytes_per_second": None})), "host: iops"),
        (json.dumps(config(think_us=1e300)), "think_us"),
    ],
)
def test_an_impossible_input_is_a_value_error_of_one_line(text: str, names: str) -> None:
    with pytest.raises(ValueError, match="simulation: ") as caught:
        _native.simulate(text)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_threads_run_meanwhile() -> None:
    done = threading.Event()

    def run() -> None:
        simulate(duration_s=300.0)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 10_000  # with the interpreter held there would be none


def test_even_reads_vary_less_than_poisson_ones() -> None:
    source = {"device": 0, "per_transaction": 1.5}
    poisson = simulate(wal=None, clients=4, reads=[source])
    even = simulate(wal=None, clients=4, reads=[source | {"is_even": True}])
    reads = [answer["devices"][0]["reads_per_s"] / answer["tps"] for answer in (poisson, even)]
    assert reads == pytest.approx([1.5, 1.5], rel=0.02)
    assert even["latency_ms"]["p99"] < 0.75 * poisson["latency_ms"]["p99"]


def test_an_open_load_takes_its_share() -> None:
    open_load = {"device": 0, "per_second": 1000.0, "bytes": 8192}
    alone, beside = simulate(), simulate(open=[open_load])
    assert beside["tps"] == pytest.approx(2 / 3 * alone["tps"], rel=0.06)
    reads = beside["devices"][0]["reads_per_s"] - 1.7 * beside["tps"]
    assert reads == pytest.approx(1000, rel=0.06)


def test_writes_in_batches_make_reads_wait_longer_now_and_then() -> None:
    def p99(batch: int) -> float:
        writes = {"device": 0, "per_transaction": 0.5, "bytes": 8192, "batch": batch}
        answer = simulate(clients=64, background_writes=[writes], background_depth=512)
        found: float = answer["read_ms"]["p99"]
        return found

    assert p99(512) > 3 * p99(1)


def test_a_commit_delay_makes_groups_larger_where_siblings_are_under_way() -> None:
    wal = config()["wal"]
    plain, delayed, alone = (
        simulate(wal=wal | delay)
        for delay in (
            {},
            {"commit_delay_us": 3000.0, "commit_siblings": 5},
            {"commit_delay_us": 3000.0, "commit_siblings": 32},
        )
    )
    assert delayed["commits_per_flush"] > 1.2 * plain["commits_per_flush"]
    assert alone["commits_per_flush"] == pytest.approx(plain["commits_per_flush"])


def test_what_passes_between_flushes_lowers_their_rate() -> None:
    wal = {"device": 0, "write_fraction": 1.0, "bytes_per_transaction": 900}
    plain = simulate(reads=[], wal=wal)
    slower = simulate(reads=[], wal=wal | {"handover_us": 500.0})
    assert 1 / slower["flushes_per_s"] - 1 / plain["flushes_per_s"] == pytest.approx(
        500e-6, rel=0.1
    )
