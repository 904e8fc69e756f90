"""Plans against rules of thumb on emulated volumes: transactions per second per dollar, measured.

Five workloads of ``prediction_cases``, each planned from its recorded profile on one gp3 volume of
100 GiB. Everybody has the same budget: the plan is ``pgstow plan --budget``, and each rule buys its
fastest within it by the same predictions; a rule whose least costs more buys nothing. Settings of
the server are the same for all. Layouts alike are measured once. Results are kept in a file, so
that a run that was broken off goes on where it ended.
"""

import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import prediction_record
from prediction_cases import CALIBRATION, CASES, Case, treatment
from pydantic import TypeAdapter

from pgstow import catalog, planning
from pgstow.cli import bench_volumes
from pgstow.experiment.run_context import RunContext
from pgstow.model import (
    Goal,
    HostSpec,
    Layout,
    Outcome,
    Profile,
)
from pgstow.planning.search import CENT

DATA = Path(__file__).parent / "data"
PROFILES, RESULTS = DATA / "prediction.json", DATA / "plan_quality.json"
WORKLOADS = ("tpcb", "read", "insert", "scan", "index")
BUDGET_USD = 12.0  # half as much again as the data's volume costs without anything provisioned
PLAN = "pgstow"
LIMIT_MEDIAN, LIMIT_EACH = 1.15, 1.0


@dataclass(frozen=True, slots=True)
class Bought:
    """A layout that somebody bought; ``names`` of who did."""

    workload: str
    names: tuple[str, ...]
    layout: Layout
    usd_month: float
    predicted_tps: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A layout with what it did."""

    bought: Bought
    tps: float
    p99_ms: float

    @property
    def tps_per_usd(self) -> float:
        """Transactions per second for a dollar a month."""
        return self.tps / self.bought.usd_month


_RESULTS = TypeAdapter(list[Measured])


def run(only: list[str], *, quick: bool, is_json: bool, minutes: float = 120.0) -> int:
    """Measure what is missing, print, and say whether the bars are met (0) or not (1)."""
    known = _RESULTS.validate_json(RESULTS.read_text()) if RESULTS.exists() else []
    current: list[Measured] = []
    ends_s = time.monotonic() + minutes * 60
    for workload in only or WORKLOADS:
        case = next(case for case in CASES if case.name == workload)
        for bought in _chosen(offers(case), quick=quick):
            before = [one for one in known if _is_same(one.bought, bought)]
            if not before and time.monotonic() > ends_s:
                sys.stderr.write("time is over; run it again for the rest\n")
                return 1
            if before:
                current.append(replace(before[-1], bought=bought))
                continue
            outcome = measure(case, bought.layout)
            current.append(Measured(bought, outcome.tps, outcome.p99_ms))
            known.append(current[-1])
            _say(current[-1])
            RESULTS.write_text(_RESULTS.dump_json(known, indent=1).decode() + "\n")
    return report(current, is_json=is_json)


def _chosen(bought: list[Bought], *, quick: bool) -> list[Bought]:
    """All; for a quick look the plan, and the rule that is predicted to come next."""
    if not quick:
        return bought
    plan = [one for one in bought if PLAN in one.names]
    others = [one for one in bought if PLAN not in one.names]
    return plan + sorted(others, key=lambda one: one.usd_month / one.predicted_tps)[:1]


def _is_same(one: Bought, other: Bought) -> bool:
    return (one.workload, one.layout) == (other.workload, other.layout)


def offers(case: Case) -> list[Bought]:
    """What the plan and every rule buy for the budget; alike layouts once."""
    rules, profile = catalog.load(), recorded(case)
    goal = Goal(budget_usd_month=BUDGET_USD)
    plan = planning.plan(profile, goal, rules)
    found: list[Bought] = []
    for row in planning.compare(profile, goal, rules, plan):
        if row.layout is None or row.prediction is None:
            continue
        usd = row.prediction.performance.usd_month
        if usd is None or usd > BUDGET_USD + CENT:
            continue
        layout = replace(row.layout, postgres=replace(row.layout.postgres, settings=()))
        tps = row.prediction.performance.tps
        for place, known in enumerate(found):
            if known.layout == layout:
                found[place] = replace(known, names=(*known.names, row.name))
                break
        else:
            found.append(Bought(case.name, (row.name,), layout, usd, tps))
    return found


def recorded(case: Case) -> Profile:
    """The recorded profile, as if its one volume were on an instance that never binds."""
    record = prediction_record.read(PROFILES)[f"{case.name}/{CALIBRATION}"]
    host = HostSpec("ec2", "us-east-1", record.layout.host.instance)
    return replace(record.profile, layout=replace(record.profile.layout, host=host))


def measure(case: Case, layout: Layout) -> Outcome:
    """One trial."""
    run_context = RunContext()
    target = treatment(case, "bought", layout)
    with prediction_record.settled(case, target, bench_volumes.make(), run_context) as trial:
        _, _, running = trial
        began_at = time.time()
        run_context.sleep(case.duration_s, "measuring")
        ended_at = time.time()
        running.stop()
        outcome: Outcome = running.outcome(began_at, ended_at)
        return outcome


def _say(one: Measured) -> None:
    sys.stderr.write(
        f"{one.bought.workload}: {', '.join(one.bought.names)}: {_volumes(one.bought.layout)}"
        f" ${one.bought.usd_month:.2f}, {one.tps:.0f} TPS"
        f" (predicted {one.bought.predicted_tps:.0f})\n"
    )


def _volumes(layout: Layout) -> str:
    return " + ".join(volume.kind for volume in layout.volumes)


def report(results: list[Measured], *, is_json: bool) -> int:
    """Print every layout, and the ratio of each workload; 1 where a bar is missed."""
    ratios: dict[str, float] = {}
    for workload in dict.fromkeys(one.bought.workload for one in results):
        mine = [one for one in results if one.bought.workload == workload]
        rules = [one for one in mine if any(name != PLAN for name in one.bought.names)]
        plans = [one for one in mine if PLAN in one.bought.names]
        if plans and rules:
            best = max(rules, key=lambda one: one.tps_per_usd)
            ratios[workload] = plans[-1].tps_per_usd / best.tps_per_usd
    if is_json:
        rows = _RESULTS.dump_python(results, mode="json")
        figures = {"budget_usd_month": BUDGET_USD, "ratios": ratios, "rows": rows}
        print(json.dumps(figures, indent=1))
    else:
        _print(results, ratios)
    median = statistics.median(ratios.values()) if ratios else 0.0
    is_met = len(ratios) >= len(WORKLOADS) and median >= LIMIT_MEDIAN
    return int(not (is_met and min(ratios.values()) >= LIMIT_EACH))


def _print(results: list[Measured], ratios: dict[str, float]) -> None:
    head = ("workload", "TPS", "predicted", "$/month", "TPS/$", "p99 ms")
    print(f"{head[0]:<10}" + "".join(f"{name:>11}" for name in head[1:]) + "  volumes, who")
    for one in results:
        print(
            f"{one.bought.workload:<10}{one.tps:>11,.0f}{one.bought.predicted_tps:>11,.0f}"
            f"{one.bought.usd_month:>11.2f}{one.tps_per_usd:>11.1f}{one.p99_ms:>11.1f}"
            f"  {_volumes(one.bought.layout)}: {', '.join(one.bought.names)}"
        )
    for workload, ratio in ratios.items():
        print(f"{workload}: {ratio:.2f} times the best rule's transactions for a dollar")
    if ratios:
        print(f"median {statistics.median(ratios.values()):.2f}, least {min(ratios.values()):.2f}")
