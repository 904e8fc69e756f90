"""Write the newest long runs of the studies' experiments into docs/studies.

    .venv/bin/python scripts/update_studies.py WORKSPACE

Each study's newest finished run with profile full becomes docs/studies/NAME.json, with the machine,
versions, seed and every trial; its tables replace what stands between ``<!-- NAME -->`` and
``<!-- /NAME -->`` in docs/studies.md, and each study's first claim what is between
``<!-- first claims -->`` and ``<!-- /first claims -->``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgstow.cli.bench_show import cells, varied
from pgstow.model import Experiment, Trial
from pgstow.report.exports import trials_json
from pgstow.studies_file import read_study
from pgstow.verification import experiments as statistics
from pgstow.workspace import Workspace

DOCS = Path(__file__).parent.parent / "docs"
CONFIDENCE = 0.99
CLAIM = ("the claim", "published", "measured", f"{CONFIDENCE:.0%} interval", "verdict")
FIGURES = ("trials", "TPS", "", "mean ms", "p99 ms", "$/month", "$/1,000 TPS")


def main() -> None:
    """Export and rewrite."""
    page = DOCS / "studies.md"
    text = page.read_text()
    with Workspace.open(Path(sys.argv[1]), create=False) as store:
        runs = [run for run in store.runs.list() if run.profile == "full" and run.is_complete]
        first: dict[str, Sequence[str]] = {}
        for run in {run.name: run for run in runs}.values():
            experiment, trials = store.runs.experiment(run.id), store.runs.trials(run.id)
            # compact: most of it is numbers that nobody reads
            plain = json.loads(trials_json(experiment, trials))
            exported = json.dumps(plain, separators=(",", ":")) + "\n"
            (DOCS / f"studies/{run.name}.json").write_text(exported)
            claims = list(_claims(experiment, trials))
            text = _filled(text, run.name, "\n".join(_tables(experiment, trials, claims)))
            first[run.name] = claims[0]
            print(f"{run.name}: {len(trials)} trials")
    rows = [(name, *first[name]) for name in sorted(first)]
    text = _filled(text, "first claims", "\n".join(_table(("experiment", *CLAIM), rows)))
    page.write_text(text)


def _filled(page: str, name: str, tables: str) -> str:
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"docs/studies.md has no place for {name}")
    return before + begin + tables + "\n" + end + after


def _tables(
    experiment: Experiment, trials: Sequence[Trial], claims: Sequence[Sequence[str]]
) -> Iterator[str]:
    build = trials[0].build
    yield (
        f"{len(trials)} trials in {experiment.blocks} blocks, seed {experiment.seed}, begun "
        f"{min(trial.began_at for trial in trials)[:16]}. PostgreSQL "
        f"{build.postgres}; {build.workload}; {build.kernel}; {build.machine}. "
        f"[All trials](studies/{experiment.name}.json)."
    )
    factors = varied(experiment)
    yield from _table(
        (*factors, *FIGURES),
        [cells(row, factors) for row in statistics.summaries(experiment, trials, CONFIDENCE)],
    )
    yield from _table(CLAIM, claims)


def _claims(experiment: Experiment, trials: Sequence[Trial]) -> Iterator[Sequence[str]]:
    assert experiment.study is not None, "a study's experiment"
    held = statistics.hold_against(read_study(experiment.study), experiment, trials, CONFIDENCE)
    for one in held.claims:
        interval, ratio = one.ratio_interval, one.ratio
        yield (
            one.claim.text,
            f"× {one.claim.ratio:.3g}",
            "–" if ratio is None else f"× {ratio:.3g}",
            "" if interval is None else f"{interval.low:.3g} – {interval.high:.3g}",
            one.verdict if ratio is not None else "not measured",
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    for row in (heads, ["---"] * len(heads), *rows):
        yield "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    main()
