"""Load generators beside pgbench: what they are told, and what is made of what they tell.

go-tpc's lines have the shape that its source prints with ``--output=json`` (v1.0.11 and later).
"""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgstow.experiment.workloads import generator, go_tpc_output
from pgstow.experiment.workloads.endpoint import Endpoint
from pgstow.experiment.workloads.go_tpc import GoTpc
from pgstow.experiment.workloads.go_tpc_output import outcome_of, parse
from pgstow.experiment.workloads.program_run import complaint
from pgstow.experiment.workloads.sysbench import Sysbench
from pgstow.host.background import Ended
from pgstow.model import DataChoice, WorkloadChoice
from pgstow.model.errors import HostError, UserError

SECRET = "s3cret"
TCP = Endpoint("db1", 5433, "me", "shop", {"PGPASSWORD": SECRET, "PGSSLMODE": "require"})
SOCKET = Endpoint("/run/my server", 5432, "me", "shop", {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of these names on PATH, to be named and not run."""
    for name in ("go-tpc", "sysbench"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def go_tpc(benchmark: str = "tpcc", scale: int = 3) -> GoTpc:
    data = DataChoice("go-tpc", scale, (("benchmark", benchmark),))
    found = generator(WorkloadChoice(f"go-tpc:{benchmark}", 8), data)
    assert isinstance(found, GoTpc)
    return found


def sysbench(**options: object) -> Sysbench:
    choice = WorkloadChoice("sysbench:oltp_read_only", 8, **options)  # type: ignore[arg-type]
    found = generator(choice, DataChoice("sysbench", 2, (("tables", "4"),)))
    assert isinstance(found, Sysbench)
    return found


@pytest.mark.usefixtures("installed")
def test_go_tpc_is_told_where_and_as_whom() -> None:
    arguments = go_tpc().command(TCP)
    assert arguments[1:] == [
        "tpcc",
        "--warehouses=3",
        "--driver=postgres",
        "--host=db1",
        "--port=5433",
        "--user=me",
        "--db=shop",
        "--conn-params=sslmode=require",
    ]
    assert "--sf=3" in go_tpc("tpch").command(TCP)
    through_socket = go_tpc().command(SOCKET)
    assert "--targets=:5432" in through_socket
    assert "--conn-params=sslmode=disable&host=%2Frun%2Fmy+server" in through_socket


@pytest.mark.usefixtures("installed")
def test_sysbench_is_told_where_and_as_whom() -> None:
    arguments = sysbench().command(TCP)
    assert {
        "--db-driver=pgsql",
        "--pgsql-host=db1",
        "--pgsql-port=5433",
        "--pgsql-user=me",
        "--pgsql-db=shop",
        "--tables=4",
        "--table_size=200000",
    } <= set(arguments)
    assert SECRET not in " ".join(arguments + go_tpc().command(TCP))


def test_missing_programs_say_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgstow.host.programs._SYSTEM_DIRECTORIES", ())
    with pytest.raises(HostError, match="go-tpc is not installed; install it: go install"):
        go_tpc().check()
    with pytest.raises(HostError, match="apt-get install sysbench"):
        sysbench().check()


@pytest.mark.parametrize(
    ("choice", "data", "message"),
    [
        (("go-tpc:tpce", {}), ("go-tpc", ()), "no workload go-tpc:tpce; use go-tpc:tpcc"),
        (("go-tpc:tpch", {}), ("go-tpc", ()), "with benchmark tpch, not tpcc"),
        (("go-tpc:tpcc", {}), ("go-tpc", (("wait", "on"),)), "no option wait; use benchmark"),
        (("go-tpc:tpcc", {"rate_per_s": 5}), ("go-tpc", ()), "cannot be sent at a rate"),
        (("go-tpc:tpcc", {}), ("pgbench", ()), "needs data of go-tpc, not pgbench"),
        (("sysbench:bulk", {}), ("sysbench", ()), "no test 'bulk'; use sysbench:NAME"),
        (("sysbench:oltp_insert", {}), ("sysbench", (("tables", "0"),)), "number from 1"),
        (
            ("sysbench:oltp_insert", {"variables": (("rows", 5),)}),
            ("sysbench", ()),
            "no variable rows; use delete_inserts",
        ),
        (("sysbench:oltp_insert", {"rate_per_s": 5}), ("sysbench", ()), "cannot be sent at a"),
    ],
)
def test_what_they_cannot_do_is_refused(
    choice: tuple[str, dict[str, object]],
    data: tuple[str, tuple[tuple[str, str], ...]],
    message: str,
) -> None:
    wanted = WorkloadChoice(choice[0], 4, **choice[1])  # type: ignore[arg-type]
    with pytest.raises(UserError, match=message):
        generator(wanted, DataChoice(data[0], 1, data[1]))


def row(operation: str, count: int, total_ms: float, *quantiles_ms: float) -> dict[str, str]:
    names = go_tpc_output._QUANTILES
    row = {"Prefix": "[Current] ", "Operation": operation, "Takes(s)": "1.0", "Avg(ms)": "9"}
    row |= {"Count": str(count), "TPM": "1", "Sum(ms)": f"{total_ms:.1f}"}
    return row | {name: f"{value:.1f}" for name, value in zip(names, quantiles_ms, strict=True)}


def output(*seconds: list[dict[str, str]]) -> list[tuple[float, str]]:
    lines = [(100.0 + number, json.dumps(rows)) for number, rows in enumerate(seconds, 1)]
    summary = [{"Prefix": "[Summary] ", "Operation": "NEW_ORDER", "Count": "9"}]
    return [(100.0, "creating thread"), *lines, (200.0, "Finished"), (200.0, json.dumps(summary))]


FIRST = [
    row("NEW_ORDER", 10, 100.0, 10, 12, 13, 14, 15, 16),
    row("NEW_ORDER_ERR", 2, 4.0, 2, 2, 2, 2, 2, 2),
    row("PAYMENT", 30, 150.0, 5, 6, 7, 8, 9, 10),
]
SECOND = [row("NEW_ORDER", 20, 400.0, 20, 22, 23, 24, 25, 26)]


def test_tpcc_is_counted_by_kind_and_second() -> None:
    found = outcome_of(output(FIRST, SECOND), 1.0)
    assert found is not None
    assert (found.seconds, found.transactions, found.failed) == (2.0, 60, 2)
    assert found.tps_samples == (40.0, 20.0)
    assert found.mean_ms == pytest.approx(650 / 60)
    assert found.max_ms == 26
    assert [name for name, _ in found.scripts] == ["new_order", "payment"]
    new_order = dict(found.scripts)["new_order"]
    assert (new_order.transactions, new_order.failed) == (30, 2)
    assert new_order.p50_ms is not None
    assert 16 <= new_order.p50_ms <= 20


def test_a_part_of_a_run_leaves_out_the_rest() -> None:
    found = outcome_of(output(FIRST, SECOND), 1.0, began_at=101.0, ended_at=102.0)
    assert found is not None
    assert (found.transactions, found.failed, found.scripts) == (20, 0, ())
    assert (found.p50_ms, found.p99_ms) == (20, 24)
    assert outcome_of(output(FIRST), 1.0, began_at=500.0, ended_at=600.0) is None
    assert outcome_of([(1.0, "Finished")], 1.0) is None


def test_tpch_queries_count_one_each() -> None:
    rows = [{"Prefix": "[Current] ", "Operation": f"Q{n}", "Avg(s)": f"{n}.25"} for n in (1, 2)]
    found = outcome_of([(10.0, json.dumps(rows[:1])), (12.0, json.dumps(rows[1:]))], 0.1)
    assert found is not None
    assert found.transactions == 2
    assert found.max_ms == 2250
    assert [(name, part.mean_ms) for name, part in found.scripts] == [("q1", 1250), ("q2", 2250)]


@pytest.mark.parametrize("line", ["", "[{", "panic: pq: oops", "[]", '["x"]', "[Summary] Q1: 2s"])
def test_other_lines_say_nothing(line: str) -> None:
    assert parse(1.0, line) == []


@given(
    st.lists(
        st.tuples(
            st.integers(1, 1000),
            st.lists(st.integers(1, 9999), min_size=6, max_size=6).map(sorted),
        ),
        min_size=1,
        max_size=8,
    )
)
@example(  # the longest is one of a hundred, and hardly longer than the next
    [(1, [1] * 6), (1, [1] * 5 + [9901]), (1, [1] * 5 + [9902]), (98, [1] * 6)]
)
def test_mixed_percentiles_are_in_order_and_within_the_extremes(
    seconds: list[tuple[int, list[int]]],
) -> None:
    rows = [[row("PAYMENT", count, count, *quantiles)] for count, quantiles in seconds]
    found = outcome_of(output(*rows), 1.0)
    assert found is not None
    values = [found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms]
    assert None not in values
    assert values == sorted(values, key=lambda value: value or 0)
    assert found.max_ms == max(quantiles[-1] for _, quantiles in seconds)
    assert (found.p50_ms or 0) >= min(quantiles[0] for _, quantiles in seconds)


def test_a_failure_is_told_by_its_line() -> None:
    assert complaint(Ended(1, "Running\n", "note\nFATAL: no table\n")) == "FATAL: no table"
    assert complaint(Ended(-11, "Running\n", "")) == "it ended with status -11"
