"""Predictions held against measurements on emulated volumes: errors of TPS and p99, coverage.

    python benchmarks/prediction.py                              # the recorded measurements
    sudo python benchmarks/prediction.py --record FILE           # measure anew what FILE lacks

Each workload is calibrated on one layout and predicted on others. Recording needs root and an
otherwise idle machine; evaluating needs neither.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prediction_record import Record

DATA = Path(__file__).parent / "data" / "prediction.json"
_COMMITS_MIN = 100  # timed by the probe, before their 99th percentile says anything
_DISTURBANCE_CORES = 0.3
_QUICK = ["tpcb/", "read/"]


def _record(path: Path, only: list[str], minutes: float) -> None:
    """Measure what the file lacks, and write it after each combination."""
    import prediction_record
    from prediction_cases import combinations

    from pgstow.experiment.run_context import RunContext

    records = prediction_record.read(path)
    ends_s = time.monotonic() + minutes * 60
    for case, layout in combinations():
        key = f"{case.name}/{layout}"
        if _is_good(records.get(key)) or (only and not any(key.startswith(one) for one in only)):
            continue
        if time.monotonic() > ends_s:
            sys.stderr.write("time is over; run it again for the rest\n")
            return
        began_s = time.monotonic()
        records[key] = prediction_record.record(case, layout, RunContext())
        prediction_record.write(path, records)
        outcome = records[key].outcome
        sys.stderr.write(
            f"{key}: {outcome.tps:.0f} TPS, p99 {outcome.p99_ms:.1f} ms,"
            f" {time.monotonic() - began_s:.0f} s,"
            f" others {records[key].usage.disturbance:.2f} cores\n"
        )


def _is_good(record: "Record | None") -> bool:
    """Whether a combination was measured with nobody else at work."""
    return record is not None and record.usage.disturbance <= _DISTURBANCE_CORES


@dataclass(frozen=True, slots=True)
class Case:
    """A prediction beside what was measured."""

    workload: str
    layout: str
    predicted_tps: float
    measured_tps: float
    tps_interval: tuple[float, float]
    predicted_p99_ms: float
    measured_p99_ms: float
    p99_interval: tuple[float, float] | None
    commit_p99_ratio: float | None  # predicted over measured; None: too few commits were timed
    bottleneck: str

    @property
    def tps_ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_tps / self.predicted_tps

    @property
    def p99_ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_p99_ms / self.predicted_p99_ms

    @property
    def tps_error(self) -> float:
        """Of the measured one, with its sign."""
        return self.predicted_tps / self.measured_tps - 1

    @property
    def p99_error(self) -> float:
        """Of the measured one, with its sign."""
        return self.predicted_p99_ms / self.measured_p99_ms - 1

    @property
    def covers_tps(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.tps_interval[0] <= self.measured_tps <= self.tps_interval[1]

    @property
    def covers_p99(self) -> bool | None:
        """Whether the interval holds what was measured; None: there is none."""
        if self.p99_interval is None:
            return None
        return self.p99_interval[0] <= self.measured_p99_ms <= self.p99_interval[1]


def evaluate(records: "dict[str, Record]", only: list[str]) -> list[Case]:
    """Predict each combination from its workload's calibration."""
    from prediction_cases import CALIBRATION

    found = []
    for key, record in records.items():
        calibration = records.get(f"{record.workload}/{CALIBRATION}")
        if record.layout_name == CALIBRATION or calibration is None:
            continue
        if not only or any(key.startswith(one) for one in only):
            found.append(_held(record, calibration))
    return found


def _held(record: "Record", calibration: "Record") -> Case:
    from pgstow import catalog
    from pgstow.prediction import Period, predict

    period = Period(record.settle_s, record.duration_s)
    profile = replace(
        calibration.profile,
        commit_ms=calibration.commit_ms,
        client_p99_ms=calibration.outcome.p99_ms,
    )
    found = predict(profile, record.layout, catalog.load(), period=period)
    p99_ms, measured_ms = found.performance.latency_ms.p99, record.outcome.p99_ms
    assert p99_ms is not None
    assert measured_ms is not None
    return Case(
        record.workload,
        record.layout_name,
        found.performance.tps,
        record.outcome.tps,
        found.tps_interval,
        p99_ms,
        measured_ms,
        found.p99_interval,
        _commit_p99_ratio(record, found.performance.commit_ms.p99),
        found.bottleneck,
    )


def _commit_p99_ratio(record: "Record", predicted_ms: float | None) -> float | None:
    every = sorted(record.commit_ms)
    if predicted_ms is None or len(every) < _COMMITS_MIN:
        return None
    return predicted_ms / every[math.ceil(0.99 * len(every)) - 1]


def summary(cases: list[Case]) -> dict[str, dict[str, Any]]:
    """The bars, and what was reached."""
    tps = sorted(abs(case.tps_error) for case in cases)
    p99 = sorted(abs(case.p99_error) for case in cases)
    rows: list[tuple[str, float, float]] = [
        ("TPS: median error", statistics.median(tps), 0.07),
        ("TPS: 90th percentile of errors", tps[math.ceil(0.9 * len(tps)) - 1], 0.15),
        ("p99 latency: median error", statistics.median(p99), 0.15),
        ("TPS intervals that miss", _share(not case.covers_tps for case in cases), 0.15),
        ("p99 intervals that miss", _share(case.covers_p99 is False for case in cases), 0.15),
        ("TPS intervals, others' errors", _missed(cases, lambda case: case.tps_ratio), 0.15),
        ("p99 intervals, others' errors", _missed(cases, lambda case: case.p99_ratio), 0.15),
    ]
    bars = {
        name: {"value": value, "at_most": bar, "holds": value <= bar} for name, value, bar in rows
    }
    enough = {"value": len(cases), "at_least": 40, "holds": len(cases) >= 40}
    commits = [case.commit_p99_ratio for case in cases if case.commit_p99_ratio is not None]
    factor = statistics.median(max(one, 1 / one) for one in commits) if commits else math.nan
    of_commits = {"p99 of commits: median factor": {"value": factor, "commits": len(commits)}}
    return {"combinations": enough} | bars | of_commits


def _missed(cases: list[Case], ratio: Callable[[Case], float]) -> float:
    """The share of cases outside an interval made from the other workloads' errors alone."""
    missed = []
    for case in cases:
        others = [ratio(other) for other in cases if other.workload != case.workload]
        if others:
            low, high = _spread(others)
            missed.append(not low <= ratio(case) <= high)
    return _share(missed) if missed else 0.0


def _spread(ratios: Iterable[float]) -> tuple[float, float]:
    """What holds all but one in twenty, with as many beyond either end."""
    every = sorted(ratios)
    beyond = math.floor(0.025 * len(every))
    return every[beyond], every[-1 - beyond]


def _share(flags: Iterable[bool]) -> float:
    every = list(flags)
    return sum(every) / len(every)


def _print(cases: list[Case], bars: dict[str, dict[str, Any]]) -> None:
    print(f"{'workload/layout':<24}{'TPS':>8}{'pred.':>8}{'error':>8}", end="")
    print(f"{'p99 ms':>9}{'pred.':>8}{'error':>8}  interval  bottleneck")
    for case in cases:
        flags = ("" if case.covers_tps else "TPS ") + ("p99" if case.covers_p99 is False else "")
        print(
            f"{case.workload + '/' + case.layout:<24}{case.measured_tps:>8.0f}"
            f"{case.predicted_tps:>8.0f}{case.tps_error:>8.1%}{case.measured_p99_ms:>9.1f}"
            f"{case.predicted_p99_ms:>8.1f}{case.p99_error:>8.1%}  {flags:<8}  {case.bottleneck}"
        )
    for name, row in bars.items():
        print(f"{name:<34}{_row(row)}{'' if row.get('holds', True) else '  MISSED'}")


def _row(row: dict[str, Any]) -> str:
    if "at_least" in row:
        return f"{row['value']:>8}   bar >= {row['at_least']}"
    if "at_most" in row:
        return f"{row['value']:>8.1%}   bar <= {row['at_most']:.0%}"
    return f"{row['value']:>7.2f}x   no bar"


def main() -> None:
    """Record or evaluate, as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--only", action="append", default=[], metavar="WORKLOAD[/LAYOUT]")
    parser.add_argument("--minutes", type=float, default=6.0, help="no combination begins later")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="two workloads")
    parser.add_argument("--fit", action="store_true", help="the figures of prediction/errors.py")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record:
        _record(arguments.record, arguments.only, arguments.minutes)
        return
    import prediction_record

    records = prediction_record.read(arguments.data)
    cases = evaluate(records, _QUICK if arguments.quick and not arguments.only else arguments.only)
    bars = summary(cases)
    if arguments.json:
        print(json.dumps({"cases": [asdict(case) for case in cases], "bars": bars}, indent=2))
    else:
        _print(cases, bars)
    if arguments.fit:
        for name, ratios in (
            ("TPS", [case.tps_ratio for case in cases]),
            ("p99", [case.p99_ratio for case in cases]),
        ):
            low, high = _spread(ratios)
            print(f"{name}: Spread({low:.2f}, {high:.2f}), {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
