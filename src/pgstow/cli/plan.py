"""``pgstow plan``: the cheapest layout for a goal, or the fastest within a budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Workspace, finite
from pgstow.cli.options import Profile as FromProfile

if TYPE_CHECKING:
    from pgstow.catalog import Catalog
    from pgstow.model import Goal, Plan, Profile
    from pgstow.planning import Growth

_GOAL, _VOLUMES, _MACHINE, _OUTPUT = "Goal", "Volumes", "Machine and server", "Output"
_PIN_HELP = (
    "What has to be where, such as orders=fast, 'old_*=st1', wal=io2: a relation, a pattern, wal "
    "or temp; a volume, a type, or the name of a new volume. May be repeated."
)
_STANDBY_HELP = "Allow tables and indexes on an instance store: a standby has them too."


@app.command()
def plan(
    *,
    tps: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GOAL,
            metavar="RATE",
            help="Transactions per second to reach, or 4x of the observed; default 1x.",
        ),
    ] = None,
    commit_p99: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GOAL, metavar="TIME", help="Commit latency to keep to, such as 5ms."
        ),
    ] = None,
    read_p99: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GOAL,
            metavar="TIME",
            help="Latency of a device read to keep to, such as 2ms.",
        ),
    ] = None,
    headroom: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.9,
            callback=finite,
            rich_help_panel=_GOAL,
            metavar="SHARE",
            help="Share of every limit to keep free.",
        ),
    ] = 0.2,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=finite,
            rich_help_panel=_GOAL,
            metavar="DOLLARS",
            help="Dollars per month: the fastest within it.",
        ),
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GOAL,
            metavar="TIME",
            help="Plan for the sizes expected then, as 12mo or 90d.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_VOLUMES, metavar="TYPE", help="Volume types to use; may be repeated."
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_VOLUMES,
            metavar="TYPE",
            help="Volume types not to use; may be repeated.",
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT=WHERE", rich_help_panel=_VOLUMES, help=_PIN_HELP),
    ] = None,
    max_move: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", rich_help_panel=_VOLUMES, help="Move at most this, such as 50GiB."
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_MACHINE,
            metavar="TYPE",
            help="Plan for another instance type than there is.",
        ),
    ] = None,
    any_instance: Annotated[
        bool,
        typer.Option(
            "--any-instance",
            rich_help_panel=_MACHINE,
            help="Plan the instance too; prices are with it.",
        ),
    ] = False,
    max_volumes: Annotated[
        int, typer.Option(min=1, rich_help_panel=_VOLUMES, metavar="N", help="Volumes at most.")
    ] = 6,
    max_stripes: Annotated[
        int,
        typer.Option(
            min=1, rich_help_panel=_VOLUMES, metavar="N", help="Members of a stripe at most."
        ),
    ] = 8,
    max_failure_rate: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VOLUMES,
            metavar="SHARE",
            help="Most that a volume may fail a year, as 0.5%; a stripe fails with any member.",
        ),
    ] = None,
    data_on_instance_store: Annotated[
        bool, typer.Option("--data-on-instance-store", rich_help_panel=_VOLUMES, help=_STANDBY_HELP)
    ] = False,
    backup: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=_VOLUMES,
            help="Plan a volume of its own for backups, such as 200GiB.",
        ),
    ] = None,
    settings: Annotated[
        bool, typer.Option(rich_help_panel=_MACHINE, help="Plan the server's storage settings too.")
    ] = True,
    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier",
            rich_help_panel=_OUTPUT,
            help="Show the price of every speed, and the knee.",
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", rich_help_panel=_OUTPUT, help="Show the plan beside rules of thumb."
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option(rich_help_panel=_OUTPUT, metavar="FILE", help="Where the layout is written."),
    ] = Path("planned.toml"),
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=_OUTPUT, help="Overwrite an edited FILE.")
    ] = False,
    from_profile: FromProfile = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Find the cheapest layout that meets the goal, with its bound and its reasons.

    Example: pgstow plan --tps 4x --commit-p99 5ms --out planned.toml
    """
    from pgstow import catalog
    from pgstow.cli import plan_goal as read
    from pgstow.cli.output import print_json
    from pgstow.cli.plan_compare import show_compared
    from pgstow.cli.plan_frontier import show_frontier
    from pgstow.cli.plan_out import check_out, write_layout
    from pgstow.cli.profiles import chosen_profile
    from pgstow.cli.workspace import open_workspace, seen_growth
    from pgstow.layout_file import format_layout
    from pgstow.model import Goal

    with open_workspace(workspace) as store:
        profile = chosen_profile(store, from_profile)
        goal = Goal(
            commit_p99_ms=read.milliseconds(commit_p99, "--commit-p99"),
            read_p99_ms=read.milliseconds(read_p99, "--read-p99"),
            tps=read.transactions(tps, profile.activity.transactions.mean),
            headroom=headroom,
            budget_usd_month=budget,
            allow_types=tuple(allow or ()),
            forbid_types=tuple(forbid or ()),
            max_volumes=max_volumes,
            max_stripes=max_stripes,
            horizon_s=read.horizon_seconds(horizon),
            instance=instance,
            any_instance=any_instance,
            max_move_bytes=read.size_bytes(max_move, "--max-move"),
            pins=read.pins(pin),
            max_failure_rate=read.share(max_failure_rate, "--max-failure-rate"),
            data_on_ephemeral=data_on_instance_store,
            backup_bytes=read.backup_bytes(backup),
            settings=settings,
        )
        rules = catalog.load()
        rates = seen_growth(store, profile) if goal.horizon_s is not None else None
        if frontier:
            show_frontier(profile, goal, rules, rates, json=json)
            return
        if not force:
            check_out(out, store)
        found = _planned(profile, goal, rules, rates)
        store.add("plan", found)
    write_layout(out, format_layout(found.layout))
    if compare:
        show_compared(profile, goal, rules, rates, found, json=json)
        return
    if json:
        print_json(as_plain(found, profile, rules))
    else:
        _print(found, profile, rules, out)


def _planned(profile: "Profile", goal: "Goal", rules: "Catalog", rates: "Growth | None") -> "Plan":
    """The plan, and what today says of its catalog and its profile."""
    from dataclasses import replace

    from pgstow import planning
    from pgstow.cli.catalog_tables import stale_warnings
    from pgstow.cli.workspace import profile_age_s

    found = planning.plan(profile, goal, rules, rates)
    old = (
        *stale_warnings(rules, found.layout.host),
        *planning.age_evidence(profile_age_s(profile)),
    )
    return replace(found, warnings=(*found.warnings, *old))


def as_plain(found: "Plan", profile: "Profile", rules: "Catalog") -> dict[str, Any]:
    """The plan as JSON shows it: its own fields, what changes, and the user's catalog files."""
    from dataclasses import fields

    from pgstow import planning

    plain: dict[str, Any] = {one.name: getattr(found, one.name) for one in fields(found)}
    plain["gap_pct"], plain["proof"] = found.gap_pct, found.proof
    plain["fullest"] = planning.bottleneck(found)
    plain["changes"] = planning.changes(profile, found.layout, rules)
    plain["user_files"] = rules.user_files
    return plain


def _print(found: "Plan", profile: "Profile", rules: "Catalog", out: Path) -> None:
    from pgstow import planning
    from pgstow.cli.catalog_tables import print_own_files
    from pgstow.cli.output import console, print_warnings
    from pgstow.cli.plan_lines import lines

    target = console()
    width = target.width if target.is_terminal else None
    changes = planning.changes(profile, found.layout, rules)
    for line in lines(found, profile, changes, width=width):
        target.print(line, markup=False, soft_wrap=True)
    target.print(f"Written to {out}; next: pgstow diff {out}", markup=False, soft_wrap=True)
    print_own_files(rules)
    print_warnings(found.warnings)
