"""The frontier of prices as a table and as bars, for ``pgstow plan --frontier``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from pgstow.catalog.catalog import Catalog
    from pgstow.model import Goal, Profile
    from pgstow.planning import Frontier, FrontierPoint, Growth

_BAR_COLUMNS = 10  # so that a row fits into a terminal of 80


def show_frontier(
    profile: "Profile",
    goal: "Goal",
    catalog: "Catalog",
    growth: "Growth | None",
    *,
    json: bool,
) -> None:
    """Find and print the frontier."""
    from pgstow import planning
    from pgstow.cli.output import console, print_json
    from pgstow.model.errors import UserError

    if goal.tps is not None or goal.budget_usd_month is not None or goal.any_instance:
        raise UserError(
            "--frontier shows every speed and every price on one instance",
            "drop --tps, --budget and --any-instance with it",
        )
    found = planning.frontier(profile, goal, catalog, growth)
    if json:
        print_json(found)
        return
    target = console()
    target.print(frontier_table(found))
    for line in knee_lines(found):
        target.print(line, markup=False, soft_wrap=True)


def frontier_table(found: "Frontier") -> "Table":
    """A row a point, with a bar of its price."""
    from pgstow.cli.output import table

    highest_usd = max(point.usd_month for point in found.points)
    columns = ("TPS", "mean ms", "$/month", "$/1000 TPS", "", "", "volumes")
    made = table(columns, (_row(found, index, highest_usd) for index in range(len(found.points))))
    made.columns[0].justify = "right"
    for column in made.columns[4:]:
        column.justify = "left"
    return made


def _row(found: "Frontier", index: int, highest_usd: float) -> tuple[str, ...]:
    from pgstow.units import format_usd

    point = found.points[index]
    return (
        f"{point.tps:,.0f}",
        f"{point.latency_ms:.2f}",
        format_usd(point.usd_month),
        format_usd(point.usd_per_1000_tps),
        "█" * max(1, round(_BAR_COLUMNS * point.usd_month / highest_usd)),
        "knee" if index == found.knee else "",
        ", ".join(point.volumes),
    )


def knee_lines(found: "Frontier") -> "Iterator[str]":
    """What the curve says in words."""
    from pgstow.units import format_usd

    knee, last = found.points[found.knee], found.points[-1]
    yield (
        f"Knee: {knee.tps:,.0f} TPS for {format_usd(knee.usd_month)}/month;"
        f" pgstow plan --tps {knee.tps:.0f} plans for it"
    )
    if last.tps > knee.tps:
        yield (
            f"  up to it 1,000 TPS more cost {_slope(found.points[0], knee)}/month,"
            f" beyond it {_slope(knee, last)}"
        )
    priced = [one for one in found.points if one.bound_usd_month > 0]
    gap = max((one.usd_month / one.bound_usd_month - 1 for one in priced), default=0.0)
    unproved = len(found.points) - len(priced)
    which = "No price" if not unproved else f"Of {unproved} rows nothing is proved; no other price"
    yield f"{which} is more than {gap:.2%} above the least possible for its speed."
    yield "Every row was simulated, as pgstow plan --tps does."


def _slope(slow: "FrontierPoint", fast: "FrontierPoint") -> str:
    from pgstow.units import format_usd

    if fast.tps <= slow.tps:
        return format_usd(0.0)
    return format_usd((fast.usd_month - slow.usd_month) / (fast.tps - slow.tps) * 1000)
