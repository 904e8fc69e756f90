"""The content platform's relations: how large and how busy, and how many rows that is at a scale.

Sizes and rates are the table of sizes in "Storage Selection for Database Workloads" (Tablespace
Placement), with a GB of 10⁹ bytes.
"""

from dataclasses import dataclass

from pgstow.model.errors import UserError
from pgstow.units import BLOCK_BYTES, Bytes

DEFAULT_SCALE = 16.0
LARGEST_SCALE = 5000.0  # from here on some table would be less than a few blocks
CATEGORIES = 200
DAYS = 7
ROWS_PER_HOUR = 3.7  # articles of one category published in the same hour: sizes articles_cat_pub
_GB = 10**9
_MB = 10**6


@dataclass(frozen=True, slots=True)
class DocumentedRelation:
    """One row of the document's table."""

    name: str
    size_bytes: Bytes
    reads_per_s: float
    writes_per_s: float


DOCUMENTED = (
    DocumentedRelation("articles", Bytes(12 * _GB), 4200, 120),
    DocumentedRelation("articles_pkey", Bytes(1200 * _MB), 4200, 0),
    DocumentedRelation("articles_cat_pub", Bytes(800 * _MB), 3100, 0),
    DocumentedRelation("analytics_events", Bytes(48 * _GB), 20, 4200),
    DocumentedRelation("analytics_events_ts", Bytes(6 * _GB), 20, 4200),
    DocumentedRelation("analytics_daily", Bytes(2 * _GB), 800, 24),
    DocumentedRelation("subscriptions", Bytes(50 * _MB), 10, 2),
    DocumentedRelation("old_articles", Bytes(28 * _GB), 3, 0),
)

# What fits into a block at the width of rows.py and the fill factor of tables.sql.
ROWS_PER_BLOCK = {
    "articles": 35,
    "analytics_events": 45,
    "analytics_daily": 38,
    "subscriptions": 73,
    "old_articles": 6,
}


@dataclass(frozen=True, slots=True)
class Extent:
    """How many rows each table has at a scale, and what follows from that."""

    scale: float
    articles: int
    events: int
    daily: int
    subscriptions: int
    old_articles: int

    @property
    def hours(self) -> int:
        """The hours over which articles were published."""
        return max(1, round(self.articles / CATEGORIES / ROWS_PER_HOUR))

    @property
    def daily_articles(self) -> int:
        """The articles that have daily figures."""
        return self.daily // DAYS

    def rows(self, table: str) -> int:
        """The rows of a table."""
        return int(getattr(self, table.removeprefix("analytics_")))


def documented(name: str) -> DocumentedRelation:
    """The row of the document's table with that name."""
    return next(relation for relation in DOCUMENTED if relation.name == name)


def extent(scale: float = DEFAULT_SCALE) -> Extent:
    """The rows of each table at 1/``scale`` of the document's sizes.

    >>> extent(16).old_articles
    1281738
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise UserError(
            f"the content platform cannot be made {scale:g} times smaller",
            f"choose a scale between 1 and {LARGEST_SCALE:g}",
        )
    rows = {}
    for table, rows_per_block in ROWS_PER_BLOCK.items():
        blocks = documented(table).size_bytes / scale / BLOCK_BYTES
        rows[table.removeprefix("analytics_")] = max(1, int(blocks * rows_per_block))
    rows["daily"] -= rows["daily"] % DAYS
    return Extent(scale=scale, **rows)


def total_bytes(scale: float = DEFAULT_SCALE) -> Bytes:
    """The size of all documented relations at that scale."""
    return Bytes(round(sum(relation.size_bytes for relation in DOCUMENTED) / scale))
