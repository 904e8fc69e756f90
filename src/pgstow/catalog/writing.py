"""The text of a user's catalog files: newly read prices and instances over those kept before."""

from collections.abc import Mapping
from typing import Any

from pgstow.catalog.loading import INSTANCE_PRICES_FILE, PRICES_FILE
from pgstow.catalog.tables import format_instance_prices, read_instance_prices
from pgstow.catalog.types import InstancePrice
from pgstow.rules import TypePrice
from pgstow.toml_file import parse_tables

VolumePrices = Mapping[str, Mapping[str, TypePrice]]  # by region and type
InstancePrices = Mapping[str, Mapping[str, InstancePrice]]  # by region and name


def merged_prices(kept: str, found: VolumePrices) -> str:
    """A prices file: what was found in place of the same rows of the file kept before."""
    import tomli_w

    tables: dict[str, Any] = parse_tables(kept, PRICES_FILE) if kept else {}
    prices: dict[str, dict[str, Any]] = tables.get("prices", {})
    for region, rows in found.items():
        prices.setdefault(region, {}).update({name: _row(row) for name, row in rows.items()})
    head = "# Volume prices in US dollars a month. Written by pgstow catalog update.\n\n"
    return head + tomli_w.dumps({"prices": prices})


def merged_instance_prices(kept: str, found: InstancePrices) -> str:
    """A file of instance prices: the regions found in place of those kept before."""
    regions: dict[str, Mapping[str, InstancePrice]] = (
        dict(read_instance_prices(kept, INSTANCE_PRICES_FILE)) if kept else {}
    )
    return format_instance_prices({**regions, **found})


def _row(price: TypePrice) -> dict[str, Any]:
    row: dict[str, Any] = {"source": price.provenance.source, "date": price.provenance.date}
    if price.usd_per_gib is not None:
        row["usd_per_gib"] = price.usd_per_gib
    if price.iops_tiers:
        row["iops_tiers"] = [{"over": tier.over_iops, "usd": tier.usd} for tier in price.iops_tiers]
    if price.usd_per_mibps is not None:
        row["usd_per_mibps"] = price.usd_per_mibps
    return row
