"""``pgstow bench show``: what a run's trials say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options
from pgstow.cli.bench_group import commands
from pgstow.cli.bench_validity import warnings_of
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from pgstow.model import Experiment, Trial
    from pgstow.model.statistics import (
        ClaimOutcome,
        Interval,
        LevelComparison,
        Spread,
        TreatmentSummary,
    )
    from pgstow.workspace import Workspace

METRICS = ("tps", "mean_ms", "p99_ms")
CONFIDENCE = 0.99
_WORDS = {"tps": "TPS", "mean_ms": "mean latency", "p50_ms": "p50", "p95_ms": "p95"}
_WORDS |= {"p99_ms": "p99", "wal_sync_ms": "WAL sync", "wal_bytes": "WAL bytes"}


@commands.command()
def show(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A run's number, or an experiment's name; else the newest run."
        ),
    ] = None,
    *,
    metric: Annotated[
        list[str] | None, typer.Option(help="What to compare; may be given several times.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="Of the intervals and verdicts.")
    ] = CONFIDENCE,
    workspace: options.Workspace = options.DEFAULT_WORKSPACE,
    json: options.Json = False,
) -> None:
    """Show a run: each treatment's speed and price, and what differs from the baseline.

    A difference is demonstrated where its interval leaves out "none", after Holm's correction for
    as many comparisons as there are. The interval's confidence stands beside it.

    Example: pgstow bench show wal-split
    """
    from pgstow.workspace import Workspace

    with Workspace.open(workspace, create=False) as store:
        number = find_run(store, run)
        experiment, trials = store.runs.experiment(number), store.runs.trials(number)
    print_run(number, experiment, trials, tuple(metric or METRICS), confidence, json=json)


def find_run(store: "Workspace", requested: str | None) -> int:
    """The number of a run: that one, the newest of an experiment, or the newest of all."""
    entries = store.runs.list()
    if requested is not None and requested.isdigit():
        entries = tuple(entry for entry in entries if entry.id == int(requested))
    elif requested is not None:
        entries = tuple(entry for entry in entries if entry.name == requested)
    if not entries:
        what = f"no run {requested}" if requested is not None else "no run of an experiment"
        raise UserError(f"the workspace has {what}", "see pgstow bench list; pgstow bench run NAME")
    return entries[-1].id


def print_run(
    number: int,
    experiment: "Experiment",
    trials: "Sequence[Trial]",
    metrics: Sequence[str] = METRICS,
    confidence: float = CONFIDENCE,
    *,
    json: bool = False,
) -> None:
    """Print a run's tables, verdicts and warnings."""
    from pgstow import catalog
    from pgstow.cli import output
    from pgstow.verification import experiments as statistics

    rows = statistics.summaries(experiment, trials, confidence)
    found = [
        one
        for metric in metrics
        for one in statistics.compare(experiment, trials, metric, confidence)
    ]
    messages = warnings_of(experiment, trials, catalog.load())
    claims = _claims(experiment, trials, confidence)
    if json:
        output.print_json(
            {
                "run": number,
                "experiment": experiment,
                "summaries": rows,
                "comparisons": found,
                "claims": claims,
                "warnings": messages,
            }
        )
        return
    console = output.console()
    console.print(heading(number, experiment, trials), markup=False, soft_wrap=True)
    console.print()
    console.print(_summary_table(experiment, rows, confidence))
    console.print()
    for line in (verdict_line(one, varied(experiment)) for one in found):
        console.print(line, markup=False, soft_wrap=True)
    for claim in claims:
        console.print(claim_line(claim), markup=False, soft_wrap=True)
    output.print_warnings(messages)


def heading(number: int, experiment: "Experiment", trials: "Sequence[Trial]") -> str:
    """What was run on what, in a line."""
    done, planned = len(trials), experiment.blocks * len(experiment.treatments)
    of = f"{done} trials" if done >= planned else f"{done} of {planned} trials"
    parts = [f"run {number}: {experiment.title}", experiment.profile, of, experiment.target]
    if trials:
        build = trials[0].build
        parts += [f"PostgreSQL {build.postgres}", build.machine]
    return " · ".join(part for part in parts if part)


def varied(experiment: "Experiment") -> tuple[str, ...]:
    """The factors that have several levels; others need not be named."""
    several = [one for one in experiment.factors if len(experiment.levels_of(one)) > 1]
    return tuple(several) or (experiment.compare,)


def verdict_line(one: "LevelComparison", factors: Sequence[str]) -> str:
    """A comparison in words: "wal apart against shared: TPS × 1.36 (1.31 – 1.41): higher"."""
    where = ", ".join(f"{factor} {level}" for factor, level in one.stratum if factor in factors)
    subject = f"{one.factor} {one.level} against {one.baseline}" + (f" ({where})" if where else "")
    metric = _WORDS.get(one.metric, one.metric)
    if one.ratio is None:
        return f"{subject}: {metric}: {one.verdict}"
    text = f"{subject}: {metric} × {one.ratio:.3g}"
    if one.ratio_interval is not None:
        text += f" ({_span(one.ratio_interval)})"
    return f"{text}: {one.verdict}"


def claim_line(one: "ClaimOutcome") -> str:
    """What became of a claim, by its interval, in each third of the trials, and by the strict
    reading."""
    claimed = one.claim.direction if one.claim.ratio is None else f"× {one.claim.ratio:.3g}"
    text = f"published: {one.claim.text} ({claimed}); measured: × {one.ratio or 0.0:.3g}"
    if one.ratio_interval is not None:
        text += f" ({_span(one.ratio_interval)})"
    if one.thirds is not None:
        text += f", by thirds of a trial {thirds_text(one.thirds)}"
    text += f": {one.verdict}"
    if one.is_published_inside is not None:
        text += f", published {'inside' if one.is_published_inside else 'outside'} the interval"
    return text + (", limited by the emulator" if one.is_limited else "")


def thirds_text(found: tuple[float, float, float] | None) -> str:
    """A figure in the first, second and last third of the trials."""
    return "" if found is None else " / ".join(map(three_digits, found))


def three_digits(value: float) -> str:
    """A figure of any size, to three digits or whole.

    >>> three_digits(1.3649), three_digits(33.14), three_digits(10572.3)
    ('1.36', '33.1', '10,572')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _span(interval: "Interval") -> str:
    """An interval with its confidence: "99%: 1.31 – 1.41"."""
    return f"{percent(interval.confidence)}: {interval.low:.3g} – {interval.high:.3g}"


def percent(confidence: float) -> str:
    """A confidence as people write it: 99%, 99.9%."""
    return f"{confidence * 100:.4g}%"


def _claims(
    experiment: "Experiment", trials: "Sequence[Trial]", confidence: float
) -> "tuple[ClaimOutcome, ...]":
    """The study's claims of which something was measured."""
    from pgstow.studies_file import read_study
    from pgstow.verification import experiments as statistics

    if experiment.study is None:
        return ()
    held = statistics.hold_against(read_study(experiment.study), experiment, trials, confidence)
    return tuple(one for one in held.claims if one.ratio is not None)


def figures(confidence: float) -> tuple[str, ...]:
    """The heads of the figures in a treatment's row."""
    interval = f"± at {percent(confidence)}"
    return ("trials", "TPS", interval, "by thirds", "mean ms", "p99 ms", "$/month", "$/1,000 TPS")


def _summary_table(
    experiment: "Experiment", rows: "Sequence[TreatmentSummary]", confidence: float
) -> "Table":
    from pgstow.cli import output

    factors = varied(experiment)
    heads = (*factors, *figures(confidence))
    return output.table(heads, [cells(row, factors) for row in rows])


def cells(row: "TreatmentSummary", factors: Sequence[str]) -> list[str]:
    """A treatment's row: the levels of these factors, and its figures."""
    levels = [level for factor, level in row.levels if factor in factors]
    return [
        *levels,
        str(row.trials),
        _mean(row.tps, ",.0f" if row.tps and row.tps.mean >= 100 else ",.2f"),
        _half(row.tps),
        thirds_text(row.tps_thirds),
        _mean(row.mean_ms, ",.2f"),
        _mean(row.p99_ms, ",.2f"),
        _money(row.usd_month),
        _money(row.usd_per_1000_tps),
    ]


def _mean(spread: "Spread | None", form: str) -> str:
    return "–" if spread is None else format(spread.mean, form)


def _half(spread: "Spread | None") -> str:
    """Half the interval, in percent of the mean."""
    if spread is None or spread.interval is None or spread.mean == 0:
        return ""
    half = (spread.interval.high - spread.interval.low) / 2
    return f"±{half / spread.mean * 100:.1f}%"


def _money(usd: float | None) -> str:
    return "–" if usd is None else f"{usd:,.2f}"
