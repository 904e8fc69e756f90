"""A plan beside the rules of thumb, for ``pgstow plan --compare``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from pgstow.catalog.catalog import Catalog
    from pgstow.model import Goal, Plan, Profile
    from pgstow.planning import Compared, Growth


def show_compared(
    profile: "Profile",
    goal: "Goal",
    catalog: "Catalog",
    growth: "Growth | None",
    found: "Plan",
    *,
    json: bool,
) -> None:
    """Print a plan beside what the rules of thumb buy for the same goal."""
    from pgstow import planning
    from pgstow.cli.output import console, print_json

    rows = planning.compare(profile, goal, catalog, found, growth)
    if json:
        print_json(rows)
        return
    target = console()
    target.print(compare_table(rows))
    for line in refused_lines(rows):
        target.print(line, markup=False, soft_wrap=True)


def compare_table(rows: "Sequence[Compared]") -> "Table":
    """A row for the plan and one for each rule."""
    from pgstow.cli.output import table

    columns = ("", "TPS", "commit p99", "$/month", "$/1000 TPS", "volumes", "misses")
    made = table(columns, (_row(row) for row in rows))
    for column in made.columns[5:]:
        column.justify = "left"
    return made


def _row(row: "Compared") -> tuple[str, ...]:
    from pgstow.units import format_usd

    if row.layout is None or row.prediction is None:
        return row.name, "", "", "", "", "", "cannot be bought"
    speed = row.prediction.performance
    commit = speed.commit_ms.p99
    return (
        row.name,
        f"{speed.tps:,.0f}",
        "not known" if commit is None else f"{commit:.2f} ms",
        format_usd(speed.usd_month),
        format_usd(speed.usd_per_1000_tps),
        ", ".join(volume.kind for volume in row.layout.volumes),
        ", ".join(row.missed) or "nothing",
    )


def refused_lines(rows: "Sequence[Compared]") -> "Iterator[str]":
    """Why a rule gives nothing."""
    for row in rows:
        if row.refused is not None:
            yield f"{row.name}: {row.refused}"
