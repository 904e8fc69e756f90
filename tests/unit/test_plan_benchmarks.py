"""The benchmarks of planning: their cases are what they say, and their verdicts follow the bars."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgstow.model import HostSpec, Layout, Placement, Volume
from pgstow.units import GIB, Bytes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A benchmark as a module, which finds its neighbours."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def test_small_plans_are_the_cheapest_of_all_assignments(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("plan_quality", monkeypatch)
    cases = [benchmark.searched(*case) for case in benchmark.small_cases(6, 5)]
    assert len(cases) >= 4
    assert all(case.is_equal for case in cases)
    assert sum(case.least_usd is not None for case in cases) >= 3


def test_a_costlier_plan_or_a_bound_too_high_is_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("plan_quality", monkeypatch)
    good = benchmark.Small(1, 4, ("gp3",), 16, 10.0, 10.0, 9.9)
    assert good.is_equal
    assert not replace(good, planned_usd=10.1).is_equal
    assert not replace(good, bound_usd=10.1).is_equal
    assert not replace(good, planned_usd=None, bound_usd=None).is_equal
    assert replace(good, least_usd=None, planned_usd=None, bound_usd=None).is_equal


def test_every_assignment_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("plan_quality", monkeypatch)
    _, problem = next(benchmark.small_cases(1, 4))
    monkeypatch.setattr(benchmark, "CHUNK", 7)
    every = np.concatenate(list(benchmark._every_allowed(problem)))
    allowed = np.concatenate(
        (problem.item_classes.allowed[problem.items.item_class], problem.special_items.allowed)
    )
    assert len(every) == allowed.sum(axis=1).prod()
    assert len(np.unique(every, axis=0)) == len(every)
    assert all(allowed[unit, every[:, unit]].all() for unit in range(every.shape[1]))


def _measured(benchmark: Any, workload: str, names: tuple[str, ...], usd: float, tps: float) -> Any:
    layout = Layout(
        host=HostSpec("ec2", "us-east-1"),
        volumes=(Volume("data", "gp3", Bytes(GIB), "/data"),),
        postgres=Placement(data="data", wal="data"),
    )
    bought = benchmark.Bought(workload, names, layout, usd, tps)
    return benchmark.Measured(bought, tps, 1.0)


def test_plans_are_judged_by_the_best_rule_of_each_workload(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = program("plan_quality_measured", monkeypatch)
    results = []
    for workload in benchmark.WORKLOADS:
        results.append(_measured(benchmark, workload, ("pgstow",), 10.0, 1200.0))
        results.append(_measured(benchmark, workload, ("WAL apart",), 10.0, 1000.0))
        results.append(_measured(benchmark, workload, ("one volume",), 5.0, 300.0))
    assert benchmark.report(results, is_json=False) == 0
    assert "median 1.20, least 1.20" in capsys.readouterr().out
    slower = [_measured(benchmark, "read", ("pgstow",), 10.0, 990.0), *results[4:]]
    assert benchmark.report([*results[:3], *slower], is_json=False) == 1
    assert benchmark.report(results[:3], is_json=False) == 1  # not all five were measured


def test_a_rule_that_buys_the_same_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("plan_quality_measured", monkeypatch)
    results = [
        _measured(benchmark, workload, ("pgstow", "one volume"), 10.0, 1200.0)
        for workload in benchmark.WORKLOADS
    ]
    assert benchmark.report(results, is_json=True) == 1  # 1.0 in the median


def test_what_is_over_a_bar_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("plan_scale", monkeypatch)
    good = benchmark.Row(10_000, [0.4, 0.4, 9.0], [0.01], [100.0], 10**8)
    assert benchmark._missed([good]) == []
    bad = replace(good, seconds=[0.6, 0.6, 0.1], gap_pct=[0.03], memory_bytes=3 * 10**9)
    assert len(benchmark._missed([bad])) == 3
    assert benchmark._missed_relaxation(benchmark.Relaxation(1, 10.0, 1.0, True)) != []
    assert benchmark._missed_relaxation(benchmark.Relaxation(1, 20.0, 1.0, False)) == []
    assert benchmark._missed_frontier(benchmark.Curve(1, 30, [5.1], [0.1], [1.0])) != []
