"""``pgstow catalog sources``: which figures the catalog uses, from where and of when."""

from typing import TYPE_CHECKING, Any

from pgstow.cli.catalog import catalog_app
from pgstow.cli.catalog_tables import print_files, stale_warnings
from pgstow.cli.options import Json
from pgstow.cli.output import console, print_json, print_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgstow.catalog import Catalog


@catalog_app.command("sources")
def show_sources(json: Json = False) -> None:
    """Show where prices and instances are from, and their dates. Example: pgstow catalog sources"""
    from rich.table import Table

    from pgstow.catalog import load

    catalog = load()
    rows = list(_rows(catalog))
    if json:
        print_json({"user_files": catalog.user_files, "sources": rows})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("what", "rows", "date", "by"):
        table.add_column(title, justify="right" if title == "rows" else "left")
    for row in rows:
        what = f"{row['what']} {row['region'] or ''}".strip()
        table.add_row(what, f"{row['rows']:,}", row["date"], row["source"])
    console().print(table)
    print_files(catalog)
    print_warnings(stale_warnings(catalog, None))


def _rows(catalog: "Catalog") -> "Iterator[dict[str, Any]]":
    """Prices of volumes by region and source, then instances and their prices."""
    groups: dict[tuple[str, str, str], int] = {}
    for volume_type in catalog.volume_types.values():
        for region, price in volume_type.prices.items():
            if not price.is_included:
                key = (region, price.provenance.date, price.provenance.source)
                groups[key] = groups.get(key, 0) + 1
    for (region, date, source), count in groups.items():
        yield _row("volume prices", region, count, date, source)
    for table in catalog.instance_tables:
        facts = table.provenance
        yield _row("instances", None, len(table), facts.date, facts.source)
    for region, rows in catalog.instance_prices.items():
        facts = next(iter(rows.values())).provenance
        yield _row("instance prices", region, len(rows), facts.date, facts.source)


def _row(what: str, region: str | None, rows: int, date: str, source: str) -> dict[str, Any]:
    return {"what": what, "region": region, "rows": rows, "date": date, "source": source}
