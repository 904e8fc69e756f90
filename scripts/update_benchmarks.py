"""Write the figures of recorded benchmarks into docs/explanation.

    .venv/bin/python scripts/update_benchmarks.py

prediction.md has, of ``benchmarks/data/prediction.json``, the bars and every prediction that misses
by a tenth or more; planning.md has, of ``benchmarks/data/plan_quality.json``, what each layout was
predicted to do and did. What stands between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from update_studies import filled, table

ROOT = Path(__file__).parent.parent
DATA = ROOT / "benchmarks/data"
EXPLANATION = ROOT / "docs/explanation"
MISS = 0.1  # of TPS; of a p99, three times as much


def main() -> None:
    """Rewrite both pages."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import prediction
    import prediction_record

    cases = prediction.evaluate(prediction_record.read(DATA / "prediction.json"), [])
    page = EXPLANATION / "prediction.md"
    text = filled(page.read_text(), "bars", "\n".join(_bars(prediction.summary(cases))))
    page.write_text(filled(text, "misses", "\n".join(_misses(cases))))
    page = EXPLANATION / "planning.md"
    rows = json.loads((DATA / "plan_quality.json").read_text())
    page.write_text(filled(page.read_text(), "plan quality", "\n".join(_plans(rows))))


def _bars(summary: dict[str, dict[str, Any]]) -> Iterator[str]:
    def value(row: dict[str, Any]) -> tuple[str, str]:
        if "at_most" in row:
            return f"at most {row['at_most']:.0%}", f"{row['value']:.1%}"
        if "at_least" in row:
            return f"at least {row['at_least']}", str(row["value"])
        return "none", f"{row['value']:.2f}, of {row['commits']}"

    yield from table(("", "bar", "now"), [(name, *value(row)) for name, row in summary.items()])


def _misses(cases: Sequence[Any]) -> Iterator[str]:
    """The predictions that are off by more than the rest, the worst first."""
    far = [case for case in cases if abs(case.tps_error) >= MISS or abs(case.p99_error) >= 3 * MISS]
    far.sort(key=lambda case: -max(abs(case.tps_error), abs(case.p99_error) / 3))
    yield f"{len(far)} of {len(cases)}:"
    yield from table(
        ("workload", "layout", "TPS predicted / measured", "off by", "p99 off by"),
        [
            (
                case.workload,
                case.layout,
                f"{case.predicted_tps:,.0f} / {case.measured_tps:,.0f}",
                f"{case.tps_error:+.0%}",
                f"{case.p99_error:+.0%}",
            )
            for case in far
        ],
    )


def _plans(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from table(
        ("workload", "who", "$/month", "TPS predicted", "TPS measured", "off by", "TPS/$"),
        [
            (
                one["bought"]["workload"],
                ", ".join(one["bought"]["names"]),
                f"{one['bought']['usd_month']:.2f}",
                f"{one['bought']['predicted_tps']:,.0f}",
                f"{one['tps']:,.0f}",
                f"{one['bought']['predicted_tps'] / one['tps'] - 1:+.0%}",
                f"{one['tps'] / one['bought']['usd_month']:,.1f}",
            )
            for one in sorted(rows, key=lambda one: one["bought"]["workload"])
        ],
    )


if __name__ == "__main__":
    main()
