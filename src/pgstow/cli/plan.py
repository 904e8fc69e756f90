"""``pgstow plan``: the cheapest layout for a goal, or the fastest within a budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Workspace, parse_seconds
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgstow.model import Plan, Profile


@app.command()
def plan(
    commit_p99: Annotated[
        str | None, typer.Option(help="Commit latency to keep to, such as 5ms.")
    ] = None,
    read_p99: Annotated[
        str | None, typer.Option(help="Latency of a device read to keep to, such as 2ms.")
    ] = None,
    tps: Annotated[
        str | None,
        typer.Option(help="Transactions per second to reach, or 4x of the observed; default 1x."),
    ] = None,
    headroom: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of every limit to keep free.")
    ] = 0.2,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Dollars per month: the fastest within it.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Volume types to use; may be repeated.")
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(help="Volume types not to use; may be repeated.")
    ] = None,
    max_volumes: Annotated[int, typer.Option(min=1, help="Volumes at the most.")] = 6,
    max_stripes: Annotated[int, typer.Option(min=1, help="Members of a stripe at most.")] = 8,
    out: Annotated[Path, typer.Option(help="Where the layout is written.")] = Path("planned.toml"),
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Find the cheapest layout that meets the goal, with its bound and its reasons.

    Example: pgstow plan --tps 4x --commit-p99 5ms --out planned.toml
    """
    from dataclasses import replace

    from pgstow import catalog, planning
    from pgstow.cli.catalog_sources import age_warnings
    from pgstow.cli.output import console, print_json, print_warnings
    from pgstow.cli.workspace import latest_profile, open_workspace
    from pgstow.layout_file import format_layout
    from pgstow.model import Goal

    with open_workspace(workspace) as store:
        profile = latest_profile(store)
        goal = Goal(
            commit_p99_ms=_milliseconds(commit_p99, "--commit-p99"),
            read_p99_ms=_milliseconds(read_p99, "--read-p99"),
            tps=_tps(tps, profile.activity.transactions.mean),
            headroom=headroom,
            budget_usd_month=budget,
            allow_types=tuple(allow or ()),
            forbid_types=tuple(forbid or ()),
            max_volumes=max_volumes,
            max_stripes=max_stripes,
        )
        rules = catalog.load()
        found = planning.plan(profile, goal, rules)
        old = age_warnings(rules, found.layout.host)
        found = replace(found, warnings=(*found.warnings, *old))
        store.add("plan", found)
    write_layout(out, format_layout(found.layout))
    if json:
        print_json(found)
        return
    target = console()
    width = target.width if target.is_terminal else None
    for line in lines(found, profile, width=width):
        target.print(line, markup=False, soft_wrap=True)
    target.print(f"Written to {out}; next: pgstow diff {out}", markup=False)
    print_warnings(found.warnings)


def write_layout(path: Path, text: str) -> None:
    """Write a layout file; a path that cannot be written is the user's mistake."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}", "name another file with --out"
        ) from error


def lines(found: "Plan", profile: "Profile", *, width: int | None = None) -> "Iterator[str]":
    """A plan as text: before and after, then the layout, then the reasons."""
    from pgstow.cli.explain_lines import lines as explain_lines
    from pgstow.units import format_usd

    before, after = found.present.performance, found.prediction.performance
    yield "                     present    planned"
    rows = [
        ("TPS", f"{before.tps:,.0f}", f"{after.tps:,.0f}"),
        ("latency mean", _ms(before.latency_ms.mean), _ms(after.latency_ms.mean)),
        ("latency p99", _ms(before.latency_ms.p99), _ms(after.latency_ms.p99)),
        ("commit p99", _ms(before.commit_ms.p99), _ms(after.commit_ms.p99)),
        ("$/month", format_usd(before.usd_month), format_usd(after.usd_month)),
        ("$/1000 TPS", format_usd(before.usd_per_1000_tps), format_usd(after.usd_per_1000_tps)),
    ]
    for name, one, other in rows:
        yield f"  {name:<14}{one:>12}{other:>11}"
    yield (
        f"No layout meeting this goal costs less than {format_usd(found.bound_usd_month)}:"
        f" this one is at most {found.gap_pct:.2f} % dearer than the best possible"
    )
    yield ""
    yield from explain_lines(found.prediction, profile, width=width)
    yield ""
    yield "Why:"
    for reason in found.reasons:
        cost = reason.next_best_usd_month
        price = "" if cost is None else f" for {format_usd(cost)} more per month"
        subject = reason.subject.replace("\n", "\\n")
        yield f"  {subject} on {reason.choice}: {reason.because}"
        yield f"      next best: {reason.next_best}{price}"


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f} ms"


def _milliseconds(text: str | None, option: str) -> float | None:
    return None if text is None else parse_seconds(text, option) * 1000


def _tps(text: str | None, observed: float) -> float | None:
    """Read ``2500`` or ``4x``, the latter of what was observed."""
    if text is None:
        return None
    number = text.removesuffix("x")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"--tps: {text!r} is not a rate", "write it like 2500, or 4x")
    return value * observed if text.endswith("x") else value
