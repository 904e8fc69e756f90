"""Write the recorded runs of the studies' experiments into docs/studies and docs/studies.md.

    .venv/bin/python scripts/update_studies.py [WORKSPACE]

With a workspace, each study's newest finished run of a recorded profile (``PROFILES``) becomes
docs/studies/NAME.json (of another profile than full NAME-PROFILE.json): the design, the machine,
versions, seed, settings and every trial. Then the page is made from these files alone: what stands
between ``<!-- NAME -->`` and ``<!-- /NAME -->`` are its tables, and so for ``first claims`` and
``count``, also in README.md, and ``set-up`` in docs/explanation/trials.md. Run without a workspace
it changes nothing that was up to date.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from pgstow.cli.bench_show import cells, figures, percent, thirds_text, three_digits, varied
from pgstow.experiment_file import experiment_names
from pgstow.model import Experiment, Trial
from pgstow.model.statistics import ClaimOutcome, Spread, StudyOutcome
from pgstow.report.exports import trials_json
from pgstow.studies_file import read_study
from pgstow.units import format_duration, format_size
from pgstow.verification import experiments as statistics
from pgstow.workspace import Workspace

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs/studies"
TRIALS = ROOT / "docs/explanation/trials.md"
PAGE, README = ROOT / "docs/studies.md", ROOT / "README.md"
PROFILES = ("full", "idle", "rows")  # those that are recorded, in the page's order
CONFIDENCE = 0.99
CLAIM = (
    "the claim",
    "published",
    "measured",
    f"{percent(CONFIDENCE)} interval",
    "by thirds of a trial",
    "verdict",
    "published inside the interval",
)
_EXPERIMENT, _TRIALS = TypeAdapter(Experiment), TypeAdapter(tuple[Trial, ...])


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run as it lies in docs/studies."""

    file: str
    experiment: Experiment
    trials: tuple[Trial, ...]
    outcome: StudyOutcome

    @property
    def measured(self) -> tuple[ClaimOutcome, ...]:
        """The claims of which it has both sides."""
        return tuple(one for one in self.outcome.claims if one.ratio is not None)


def main() -> None:
    """Export what is newer, and write the pages."""
    if len(sys.argv) > 1:
        export(Path(sys.argv[1]))
    for path, text in pages().items():
        path.write_text(text)


def export(workspace: Path) -> None:
    """Each study's newest finished run of a recorded profile, as a file."""
    with Workspace.open(workspace, create=False) as store:
        newest = {
            (run.name, run.profile): run.id
            for run in store.runs.list()
            if run.profile in PROFILES and run.is_complete and run.name in experiment_names()
        }
        for (name, profile), number in newest.items():
            experiment, trials = store.runs.experiment(number), store.runs.trials(number)
            # compact: most of it is numbers that nobody reads
            plain = json.loads(trials_json(experiment, trials))
            text = json.dumps(plain, separators=(",", ":")) + "\n"
            path(name, profile).write_text(text)
            print(f"{path(name, profile).name}: {len(trials)} trials")


def path(name: str, profile: str) -> Path:
    """The file of a study's run."""
    return DATA / (f"{name}.json" if profile == "full" else f"{name}-{profile}.json")


def pages() -> dict[Path, str]:
    """The pages as the recorded runs have them."""
    recorded = {name: list(_recorded(name)) for name in experiment_names()}
    page = PAGE.read_text()
    for name, runs in recorded.items():
        page = filled(page, name, "\n".join(line for run in runs for line in _tables(run)))
    first = [(name, *_claim(runs[0].outcome.claims[0])) for name, runs in sorted(recorded.items())]
    page = filled(page, "first claims", "\n".join(table(("experiment", *CLAIM), first)))
    outcomes = [_best(runs, place) for runs in recorded.values() for place in _places(runs)]
    page = filled(page, "count", _count(outcomes))
    firsts = [runs[0].outcome.claims[0] for runs in recorded.values()]
    trials = TRIALS.read_text()
    runs = [run for some in recorded.values() for run in some]
    trials = filled(trials, "set-up", "\n".join(_set_ups(runs)))
    return {
        PAGE: page,
        TRIALS: trials,
        README: filled(README.read_text(), "count", _count(firsts, "first ")),
    }


def read(file: Path) -> tuple[Experiment, tuple[Trial, ...]]:
    """A recorded run."""
    plain = json.loads(file.read_text())
    return (
        _EXPERIMENT.validate_python(plain["experiment"]),
        _TRIALS.validate_python(plain["trials"]),
    )


def _recorded(name: str) -> Iterator[Recorded]:
    for profile in PROFILES:
        file = path(name, profile)
        if file.exists():
            experiment, trials = read(file)
            held = statistics.hold_against(read_study(name), experiment, trials, CONFIDENCE)
            yield Recorded(file.name, experiment, trials, held)


def _places(runs: Sequence[Recorded]) -> range:
    return range(len(runs[0].outcome.claims))


def _best(runs: Sequence[Recorded], place: int) -> ClaimOutcome:
    """A claim's outcome in the first profile that measured it."""
    found = [run.outcome.claims[place] for run in runs]
    return next((one for one in found if one.ratio is not None), found[0])


def _count(outcomes: Sequence[ClaimOutcome], which: str = "") -> str:
    """How many claims hold, in a sentence."""
    verdicts = Counter(_verdict(one) for one in outcomes)
    inside = sum(one.is_published_inside is True for one in outcomes)
    return (
        f"Of {len(outcomes)} {which}claims {verdicts['holds']} hold, "
        f"{verdicts['does not hold']} do not, {verdicts['not demonstrated']} are not demonstrated "
        f"and {verdicts['not measured']} not measured; the published ratio is inside the "
        f"{percent(CONFIDENCE)} interval of {inside}."
    )


def filled(page: str, name: str, text: str) -> str:
    """The page with that text at the place of that name."""
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"there is no place for {name}")
    return before + begin + text + "\n" + end + after


def _tables(run: Recorded) -> Iterator[str]:
    experiment, build = run.experiment, run.trials[0].build
    lengths = {(one.schedule.warm_up_s, one.schedule.duration_s) for one in experiment.treatments}
    schedule = ", ".join(f"{warm_up:g} + {length:g}" for warm_up, length in sorted(lengths))
    yield (
        f"Profile `{experiment.profile}`: {len(run.trials)} trials in {experiment.blocks} blocks, "
        f"{schedule} s of warm-up and measurement, seed {experiment.seed}, begun "
        f"{min(trial.began_at for trial in run.trials)[:16]} UTC, "
        f"{format_duration(_took_s(run.trials))} in all. PostgreSQL "
        f"{build.postgres}; {build.workload}; {build.kernel}; {build.machine}. "
        f"[All trials](studies/{run.file})."
    )
    factors = varied(experiment)
    rows = statistics.summaries(experiment, run.trials, CONFIDENCE)
    yield from table((*factors, *figures(CONFIDENCE)), [cells(row, factors) for row in rows])
    yield from _study_table(run)
    yield from table(CLAIM, [_claim(one) for one in run.measured])
    yield ""


def set_up_s(experiment: Experiment, trials: Sequence[Trial]) -> float | None:
    """The median time between two trials that is of no schedule: volumes, data, server, removal."""
    treatments = {one.levels: one.schedule for one in experiment.treatments}
    ordered = sorted(trials, key=lambda trial: trial.began_at)
    gaps = [
        (_began(following) - _began(one)).total_seconds()
        - one.outcome.seconds
        - treatments[following.levels].warm_up_s
        - treatments[following.levels].settle_s
        for one, following in pairwise(ordered)
    ]
    return median(gaps) if gaps else None


def _began(trial: Trial) -> datetime:
    return datetime.fromisoformat(trial.began_at)


def _set_ups(runs: Sequence[Recorded]) -> Iterator[str]:
    """How long the steps before and after the load took, and of how much data."""
    rows = []
    for run in runs:
        took_s = set_up_s(run.experiment, run.trials)
        sizes = [one.instruments.database_bytes or 0 for one in run.trials]
        name = f"{run.experiment.name}, {run.experiment.profile}"
        rows.append((name, format_size(max(sizes)), "–" if took_s is None else f"{took_s:.1f}"))
    yield from table(("experiment", "database", "s"), rows)


def _took_s(trials: Sequence[Trial]) -> float:
    began = sorted(map(_began, trials))
    return (began[-1] - began[0]).total_seconds() + trials[-1].outcome.seconds


def _study_table(run: Recorded) -> Iterator[str]:
    """The study's own table, with what was measured beside what was published."""
    columns = [
        (place, column)
        for place, column in enumerate(run.outcome.study.columns)
        if any(row[place] is not None for row in run.outcome.measured)
    ]
    if not columns:
        return
    heads = ["published / measured"]
    heads += [f"{one.title}, {one.unit}" if one.unit else one.title for _, one in columns]
    rows = [
        [row.label, *(_pair(row.value(one.name), found[place]) for place, one in columns)]
        for row, found in zip(run.outcome.study.rows, run.outcome.measured, strict=True)
        if any(cell is not None for cell in found)
    ]
    yield from table(heads, rows)


def _pair(published: float | None, found: Spread | None) -> str:
    said = "–" if published is None else f"{published:,.10g}"
    return f"{said} / {'–' if found is None else three_digits(found.mean)}"


def _claim(one: ClaimOutcome) -> Sequence[str]:
    interval = one.ratio_interval
    inside = {True: "yes", False: "no", None: ""}[one.is_published_inside]
    return (
        one.claim.text,
        one.claim.direction if one.claim.ratio is None else f"× {one.claim.ratio:.3g}",
        "–" if one.ratio is None else f"× {one.ratio:.3g}",
        "" if interval is None else f"{interval.low:.3g} – {interval.high:.3g}",
        thirds_text(one.thirds),
        _verdict(one) + (", limited by the emulator" if one.is_limited else ""),
        inside,
    )


def _verdict(one: ClaimOutcome) -> str:
    return one.verdict if one.ratio is not None else "not measured"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, under an empty one."""
    yield ""
    for row in (heads, ["---"] * len(heads), *rows):
        yield "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    main()
