"""``pgstow explain``: what a layout would do under the observed load, as a tree."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Profile, Workspace

if TYPE_CHECKING:
    from pgstow.catalog import Catalog
    from pgstow.model import Measurement, Plan, Prediction, Reason, Warning
    from pgstow.model import Profile as Observed
    from pgstow.model.statistics import Comparison
    from pgstow.planning import Why

_BESIDE_HELP = "Assume a load beside the clients', such as a backup; may be repeated."
_WHY_HELP = (
    "Give the reasons for where one relation is placed, such as shop.public.orders or orders; a"
    " partitioned table's name stands for its partitions, wal for pg_wal."
)


@app.command()
def explain(
    layout: Annotated[
        Path | None,
        typer.Argument(
            metavar="LAYOUT", help="A layout file; without it, the server's own layout."
        ),
    ] = None,
    why: Annotated[str | None, typer.Option(metavar="RELATION", help=_WHY_HELP)] = None,
    horizon: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Assume the sizes expected then, as 12mo or 90d."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Assume this memory, such as 64GiB.")
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option(metavar="VOLUME=RATE[:written]", help=_BESIDE_HELP)
    ] = None,
    from_profile: Profile = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Predict throughput, latency, utilisation and price of a layout.

    What was observed stands beside it.

    Examples: pgstow explain layout.toml; pgstow explain planned.toml --why orders;
    pgstow explain --beside data=100MiB/s --memory 64GiB
    """
    from dataclasses import replace

    from pgstow import catalog, planning, prediction
    from pgstow.cli.catalog_tables import print_own_files, stale_warnings
    from pgstow.cli.explain_asked import cache_size, open_loads
    from pgstow.cli.output import print_json, print_warnings
    from pgstow.cli.plan_goal import horizon_seconds
    from pgstow.cli.profiles import chosen_profile
    from pgstow.cli.verify import measure
    from pgstow.cli.workspace import open_workspace, seen_growth
    from pgstow.layout_file import read_layout
    from pgstow.model import Plan

    with open_workspace(workspace) as store:
        profile = observed = chosen_profile(store, from_profile)
        explained = profile.layout if layout is None else read_layout(layout)
        rules = catalog.load()
        warnings = rules.check(explained)
        seconds = horizon_seconds(horizon)
        if seconds is not None:
            rates = planning.growth_needed(seen_growth(store, profile))
            warnings += planning.full_warnings(explained, profile, rates, seconds)
            warnings += planning.growth_warnings(rates, seconds)
            profile = planning.grown(profile, rates, seconds)
        loads, cache = open_loads(beside or ()), cache_size(memory, profile)
        predicted = prediction.predict(profile, explained, rules, open_loads=loads, cache=cache)
        if cache is not None:
            warnings += planning.unknown_warnings(cache, profile)
        seen = measure(observed, observed.layout, rules)
        beside_it = _beside(predicted, seen, is_supposed=bool(loads or cache or seconds))
        doubts = (*_doubts(observed, beside_it), *stale_warnings(rules, explained.host))
        warnings += (*doubts, *planning.backup_warnings(explained))
        predicted = replace(predicted, warnings=(*predicted.warnings, *warnings))
        plan = store.latest("plan", Plan)
        reasons = why_of(why, predicted, profile, rules, plan) if why is not None else None
        if seconds is None and not loads and cache is None:
            # what verify holds against measurements is of today, and of what was observed
            store.add("prediction", predicted)
    if json:
        more = {"user_files": rules.user_files, "observed": seen, "comparisons": beside_it}
        print_json(as_plain(predicted, profile, reasons) | more)
        return
    _print(predicted, profile, reasons, (seen, beside_it))
    print_own_files(rules)
    print_warnings(predicted.warnings)


def _beside(
    predicted: "Prediction", seen: "Measurement", *, is_supposed: bool
) -> "tuple[Comparison, ...]":
    """Predicted beside observed, where both are of one layout and nothing else is supposed."""
    from pgstow import verification

    if is_supposed or predicted.layout != seen.layout:
        return ()
    return verification.compare(
        predicted.performance, seen.performance, tps_interval=predicted.tps_interval
    )


def _doubts(observed: "Observed", comparisons: "tuple[Comparison, ...]") -> "tuple[Warning, ...]":
    """What the profile cannot bear, and what the model misses of it."""
    from pgstow import planning, verification
    from pgstow.cli.workspace import profile_age_s

    return (
        *verification.missed_warnings(comparisons),
        *verification.unexplained_warnings(observed),
        *planning.evidence(observed),
        *planning.age_evidence(profile_age_s(observed)),
    )


def why_of(
    name: str,
    predicted: "Prediction",
    profile: "Observed",
    rules: "Catalog",
    plan: "Plan | None",
) -> "tuple[Why, tuple[Reason, ...]]":
    """The reasons for one relation; with those of the latest plan where it is this layout."""
    from pgstow import planning
    from pgstow.model import Goal

    planned = plan if plan is not None and plan.layout == predicted.layout else None
    goal = planned.goal if planned else Goal()
    margins = planning.Margins(free_space=goal.free_space, headroom=goal.headroom)
    if name.lower() in ("wal", "pg_wal"):
        found = planning.why_wal(predicted, profile, rules, margins)
        subjects = {"wal"}
    else:
        meant = planning.select_together(name, profile.server.relations)
        found = planning.why(meant, predicted, profile, rules, margins)
        subjects = {found.subject, *(str(relation.owner) for relation in meant)}
    of_plan = [one for one in planned.reasons if one.subject in subjects] if planned else []
    return found, tuple(of_plan)


def as_plain(
    predicted: "Prediction",
    profile: "Observed",
    reasons: "tuple[Why, tuple[Reason, ...]] | None",
) -> dict[str, Any]:
    """The prediction as JSON shows it: its own fields, and what is on each volume."""
    from dataclasses import fields

    from pgstow import planning

    plain: dict[str, Any] = {one.name: getattr(predicted, one.name) for one in fields(predicted)}
    plain["contents"] = planning.contents(predicted, profile)
    if reasons is not None:
        plain["why"], plain["planned"] = reasons
    return plain


def _print(
    predicted: "Prediction",
    profile: "Observed",
    reasons: "tuple[Why, tuple[Reason, ...]] | None",
    observed: "tuple[Measurement, tuple[Comparison, ...]]",
) -> None:
    from pgstow.cli.explain_lines import lines, observed_lines
    from pgstow.cli.explain_why import why_lines
    from pgstow.cli.output import console

    target = console()
    width = target.width if target.is_terminal else None
    found = (
        lines(predicted, profile, width=width)
        if reasons is None
        else why_lines(reasons[0], predicted.performance, reasons[1])
    )
    for line in found:
        target.print(line, markup=False, soft_wrap=True)
    if reasons is None:
        for line in observed_lines(*observed):
            target.print(line, markup=False, soft_wrap=True)
