"""How old the catalog's figures are that change: prices and the list of instances."""

import calendar
from collections.abc import Iterator
from datetime import date

from pgstow.catalog.lookup import Lookup
from pgstow.catalog.types import default_region
from pgstow.model import Warning

MAX_AGE_DAYS = 183


def stale_warnings(
    catalog: Lookup, today: date, platform: str, region: str | None
) -> tuple[Warning, ...]:
    """A warning where prices or instances of a region are older than 6 months; else nothing."""
    where = region or default_region(platform)
    old = {
        what: text
        for what, text in _dates(catalog, platform, where)
        if (today - latest_day(text)).days > MAX_AGE_DAYS
    }
    if not old:
        return ()
    parts = ", ".join(f"{what} of {text}" for what, text in old.items())
    is_aws = platform in ("ec2", "rds")
    remedy = f"pgstow catalog update --region {where}" if is_aws else "use a newer pgstow"
    message = f"the catalog is older than 6 months: {parts}"
    return (Warning("catalog-stale", message, remedy),)


def _dates(catalog: Lookup, platform: str, region: str) -> Iterator[tuple[str, str]]:
    """What changes and its date, by the oldest of its rows."""
    dates = [
        price.provenance.date
        for volume_type in catalog.types(platform)
        if (price := volume_type.prices.get(region)) is not None and not price.is_included
    ]
    if dates:
        yield f"volume prices in {region}", min(dates, key=latest_day)
    if platform != "ec2":
        return
    listed = [table.provenance.date for table in catalog.instance_tables]
    if listed:
        yield "instances", max(listed, key=latest_day)
    prices = catalog.instance_prices.get(region)
    if prices:
        yield f"instance prices in {region}", next(iter(prices.values())).provenance.date


def latest_day(text: str) -> date:
    """The last day that a date means; one of a month or a year alone may be any of its days.

    >>> latest_day("2026-02"), latest_day("2025")
    (datetime.date(2026, 2, 28), datetime.date(2025, 12, 31))
    """
    year, month, day = ([int(part) for part in text.split("-")] + [0, 0])[:3]
    month = month or 12
    return date(year, month, day or calendar.monthrange(year, month)[1])
