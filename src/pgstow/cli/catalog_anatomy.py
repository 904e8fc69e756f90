"""``pgstow catalog anatomy``: where each microsecond of a small write goes."""

from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.catalog import catalog_app
from pgstow.cli.options import Json
from pgstow.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from pgstow.catalog import Anatomy


@catalog_app.command("anatomy")
def show_anatomy(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="A volume type, such as gp3.")],
    json: Json = False,
) -> None:
    """Show where the time of a small write goes. Example: pgstow catalog anatomy gp3"""
    from pgstow.catalog import load
    from pgstow.units import format_duration

    found = load().anatomy(name)
    if json:
        print_json(found)
        return
    target = console()
    target.print(_table(found))
    tail = found.write_us_p99 - found.write_us_p50
    target.print(
        f"The median is {found.provenance}. The 99th percentile is "
        f"{format_duration(found.write_us_p99 / 1e6)}; no source divides the "
        f"{format_duration(tail / 1e6)} beyond the median. A range is what cannot be told apart: "
        "its parts add up to the median together.",
        style="dim",
        markup=False,
    )


def _table(found: "Anatomy") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("where", "what", "µs", "share", "by"):
        right = title in ("µs", "share")
        table.add_column(title, justify="right" if right else "left", no_wrap=right)
    for part in found.parts:
        share = _range(*(100 * us / found.write_us_p50 for us in (part.us_min, part.us_max)))
        us = _range(part.us_min, part.us_max)
        table.add_row(part.where, part.what, us, f"{share} %", str(part.provenance))
    total = Text(f"{found.write_us_p50:,.0f}", style="bold")
    table.add_row(Text("write", style="bold"), "", total, "100 %", "")
    return table


def _range(low: float, high: float) -> str:
    first, last = f"{low:,.0f}", f"{high:,.0f}"
    return first if first == last else f"{first}–{last}"
