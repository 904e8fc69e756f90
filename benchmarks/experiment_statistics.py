"""How often experiments find what is and is not there, beside running A and then B.

    .venv/bin/python benchmarks/experiment_statistics.py --quick

Simulated machines drift, stall and have neighbours; each is run many times in blocks of random
order and, with as many trials, sequentially. The columns:

- of a pair: how much the ratio of a block differs by chance (standard deviation).
- A/A: the same level twice; part of the runs that show a difference. At most 5 %.
- power: a true difference of 5 %; part of the runs that show it. At least 90 % from 6 blocks on
  where pairs differ by chance by about 1 %.
- half-width: of the interval of blocks, the median. Sequential: what Welch's interval states, and
  what it would have to state to be true as often as it says; drift makes the two differ.
- A/A of A then B: how often Welch's test shows a difference that is the machine's.

``--trials FILE`` adds recorded trials: a JSON object from a name to the throughputs of like trials
in the order they were run, of which any stretch is taken as a machine's path. Exits with 1 where a
bar is missed on a simulated machine.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from simulated_machines import (
    SCENARIOS,
    Evaluation,
    Scenario,
    evaluate,
    recorded,
    still,
)

from pgstow.model import UserError

AA_MAX = 0.05
POWER_MIN = 0.90
POWER_BLOCKS = 6
REALISTIC_DEVIATION = 0.015  # of a block's ratio
SEQUENTIAL_MIN = 2.0  # times the blocks' half-width, where the machine drifts


def main() -> None:
    """Simulate, print, exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs and numbers of blocks")
    parser.add_argument("--runs", type=int, help="of each line; 5,000, or 500 with --quick")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--trials", type=Path, help="a JSON file of recorded throughputs")
    given = parser.parse_args()
    runs = given.runs or (500 if given.quick else 5000)
    counts = (6, 12) if given.quick else (3, 6, 8, 12, 20)
    scenarios = (*SCENARIOS, *_recorded(given.trials))
    found = []
    for scenario, blocks in ((one, count) for one in scenarios for count in counts):
        try:
            found.append((scenario, evaluate(scenario, blocks=blocks, runs=runs, seed=given.seed)))
        except UserError as error:
            print(f"{scenario.name}, {blocks} blocks: {error}", file=sys.stderr)
    missed = [line for line in (_missed(*one) for one in found) if line]
    if given.json:
        figures = [asdict(evaluation) for _, evaluation in found]
        print(json.dumps({"seed": given.seed, "lines": figures, "missed": missed}, indent=1))
    else:
        _print(evaluation for _, evaluation in found)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    sys.exit(bool(missed))


def _recorded(path: Path | None) -> tuple[Scenario, ...]:
    if path is None:
        return ()
    series: dict[str, list[float]] = json.loads(path.read_text())
    return tuple(Scenario(name, recorded(values), still()) for name, values in series.items())


def _missed(scenario: Scenario, found: Evaluation) -> str:
    """Which bar a line misses; recorded trials have none."""
    where = f"{found.scenario}, {found.blocks} blocks"
    if scenario not in SCENARIOS:
        return ""
    if found.false_alarms > AA_MAX:
        return f"{where}: {found.false_alarms:.1%} false alarms"
    if found.blocks < POWER_BLOCKS:
        return ""
    if found.pair_deviation <= REALISTIC_DEVIATION and found.power < POWER_MIN:
        return f"{where}: power {found.power:.1%}"
    if scenario.is_drifting and found.sequential_error < SEQUENTIAL_MIN * found.half_width:
        return (
            f"{where}: A then B needs {found.sequential_error / found.half_width:.1f} × the width"
        )
    return ""


def _print(lines: Iterable[Evaluation]) -> None:
    print(f"{'':22} {'':>6} {'of a':>6} {'':>6} {'':>7} {'half-':>7} {'A then B':>24}")
    print(
        f"{'scenario':22} {'blocks':>6} {'pair':>6} {'A/A':>6} {'power':>7} {'width':>7} "
        f"{'stated':>8} {'needed':>8} {'A/A':>6}"
    )
    for one in lines:
        print(
            f"{one.scenario:22} {one.blocks:>6} {one.pair_deviation:>6.1%} "
            f"{one.false_alarms:>6.1%} {one.power:>7.1%} {one.half_width:>7.2%} "
            f"{one.sequential_half_width:>8.2%} {one.sequential_error:>8.2%} "
            f"{one.sequential_false_alarms:>6.1%}"
        )


if __name__ == "__main__":
    main()
