"""Predictions held against the recorded measurements, and against the studies' tables."""

import importlib
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A benchmark as a module, which finds its neighbours."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def test_a_workload_on_other_layouts_is_within_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = program("prediction", monkeypatch)
    records = program("prediction_record", monkeypatch).read(benchmark.DATA)
    cases = benchmark.evaluate(records, ["insert/"])
    assert len(cases) >= 6
    assert statistics.median(abs(case.tps_error) for case in cases) <= 0.07
    assert statistics.median(abs(case.p99_error) for case in cases) <= 0.15
    assert sum(case.covers_tps for case in cases) >= 0.85 * len(cases)


def test_writing_records_loses_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    benchmark = program("prediction", monkeypatch)
    recording = program("prediction_record", monkeypatch)
    records = recording.read(benchmark.DATA)
    copy = tmp_path / "copy.json"
    recording.write(copy, records)
    assert recording.read(copy) == records


def test_the_studies_ratios_are_met_or_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = program("studies", monkeypatch)
    checks = [*studies.striping(), *studies.gp3_iops(), *studies.log_volume()]
    assert [check.text for check in checks if not check.holds] == []
    close = [check for check in checks if check.is_close and check.is_right_way]
    assert len(close) >= len(checks) - 1
