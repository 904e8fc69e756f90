"""The content platform's rows, made in blocks, ready for COPY's binary format.

All is computed with arrays: a row's fields have fixed widths, so that a block of rows is one
structured array and its bytes are what COPY reads. The same seed makes the same rows.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pgstow.experiment.workloads.content_platform.tables import CATEGORIES, DAYS, Extent

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER = b"\xff\xff"
ROWS_PER_CHUNK = 20_000

Column = tuple[str, str]  # a name and NumPy's type for it, big-endian as COPY wants it
Values = dict[str, NDArray[np.generic]]

_BIGINT, _INTEGER = ">i8", ">i4"
_EPOCH_2024_S = 24 * 365.25 * 86400  # 2024-01-01 in PostgreSQL's seconds, which begin in 2000
_EPOCH_2026_S = 9497 * 86400
_EPOCH_2026_DAY = 9497
_MICROSECONDS = 1_000_000
_WORDS = (
    "storage volume latency index page table tuple vacuum checkpoint buffer cache disk read write "
    "commit flush random sequential article author review platform reader story morning city river"
)

# Text widths are those that give tables.py's ROWS_PER_BLOCK.
COLUMNS: dict[str, tuple[Column, ...]] = {
    "articles": (
        ("id", _BIGINT),
        ("published_at", _BIGINT),
        ("category_id", _INTEGER),
        ("revision", _INTEGER),
        ("title", "S47"),
        ("body", "S119"),
    ),
    "analytics_events": (
        ("ts", _BIGINT),
        ("article_id", _BIGINT),
        ("kind", _INTEGER),
        ("payload", "S128"),
    ),
    "analytics_daily": (
        ("article_id", _BIGINT),
        ("views", _BIGINT),
        ("visitors", _BIGINT),
        ("reading_s", _BIGINT),
        ("day", _INTEGER),
        ("referrers", "S131"),
    ),
    "subscriptions": (
        ("id", _BIGINT),
        ("renewed_at", _BIGINT),
        ("plan", _INTEGER),
        ("reader", "S51"),
    ),
    "old_articles": (
        ("id", _BIGINT),
        ("published_at", _BIGINT),
        ("category_id", _INTEGER),
        ("title", "S47"),
        ("body", "S1256"),
    ),
}


def row_type(table: str) -> np.dtype[np.void]:
    """One row in COPY's binary format: the number of fields; of each its length and value."""
    fields: list[tuple[str, str]] = [("fields", ">i2")]
    for name, kind in COLUMNS[table]:
        fields += [(f"{name} length", ">i4"), (name, kind)]
    return np.dtype(fields)


def chunks(table: str, extent: Extent, seed: int) -> Iterator[tuple[int, bytes]]:
    """All rows of a table, in parts: how many rows, and their bytes."""
    text = _text(seed)
    total = extent.rows(table)
    buffer = np.zeros(min(total, ROWS_PER_CHUNK), row_type(table))
    buffer["fields"] = len(COLUMNS[table])
    for name, kind in COLUMNS[table]:
        buffer[f"{name} length"] = np.dtype(kind).itemsize
    for first in range(0, total, ROWS_PER_CHUNK):
        numbers = np.arange(first, min(first + ROWS_PER_CHUNK, total), dtype=np.int64)
        rows = buffer[: len(numbers)]
        values = _MAKERS[table](numbers, extent, seed)
        for name, kind in COLUMNS[table]:
            rows[name] = _slices(text, kind, numbers) if kind[0] == "S" else values[name]
        yield len(rows), rows.tobytes()


def scatter(numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A pseudo-random number for each number (SplitMix64's mixing function).

    >>> [int(value) for value in scatter(np.arange(2), 0) % 100]
    [35, 0]
    """
    with np.errstate(over="ignore"):
        start = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + start
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _text(seed: int) -> NDArray[np.uint8]:
    """Prose of a kind, of which each text is a slice."""
    words = _WORDS.split()
    choice = scatter(np.arange(10_000), seed) % np.uint64(len(words))
    prose = " ".join(words[int(index)] for index in choice)
    return np.frombuffer(prose.encode("ascii"), dtype=np.uint8)


def _slices(text: NDArray[np.uint8], kind: str, numbers: NDArray[np.int64]) -> NDArray[np.generic]:
    width = np.dtype(kind).itemsize
    windows = np.lib.stride_tricks.sliding_window_view(text, width)
    starts = (numbers * 7919) % len(windows)
    return np.ascontiguousarray(windows[starts]).view(kind)[:, 0]


def _publication(numbers: NDArray[np.int64], hours: int, seed: int) -> Values:
    """Category and hour are independent of the row's position: index neighbours are far apart."""
    random = scatter(numbers, seed)
    hour = 1 + (random >> np.uint64(20)) % np.uint64(hours)
    seconds = np.int64(_EPOCH_2024_S) + hour.astype(np.int64) * 3600
    category = 1 + random % np.uint64(CATEGORIES)
    return {"published_at": seconds * _MICROSECONDS, "category_id": category.astype(np.int64)}


def _articles(numbers: NDArray[np.int64], extent: Extent, seed: int) -> Values:
    published = _publication(numbers, extent.hours, seed)
    return {"id": numbers + 1, "revision": np.zeros_like(numbers), **published}


def _events(numbers: NDArray[np.int64], extent: Extent, seed: int) -> Values:
    """One visit a millisecond, in the order in which they came."""
    random = scatter(numbers, seed)
    article = 1 + random % np.uint64(extent.articles)
    return {
        "ts": np.int64(_EPOCH_2026_S) * _MICROSECONDS + numbers * 1000,
        "article_id": article.astype(np.int64),
        "kind": (random >> np.uint64(60)).astype(np.int64),
    }


def _daily(numbers: NDArray[np.int64], _: Extent, seed: int) -> Values:
    random = scatter(numbers, seed)
    return {
        "article_id": 1 + numbers // DAYS,
        "day": _EPOCH_2026_DAY + numbers % DAYS,
        "views": (random % np.uint64(5000)).astype(np.int64),
        "visitors": (random % np.uint64(900)).astype(np.int64),
        "reading_s": (random % np.uint64(90000)).astype(np.int64),
    }


def _subscriptions(numbers: NDArray[np.int64], _: Extent, seed: int) -> Values:
    random = scatter(numbers, seed)
    seconds = np.int64(_EPOCH_2026_S) - (random % np.uint64(365 * 86400)).astype(np.int64)
    return {
        "id": numbers + 1,
        "renewed_at": seconds * _MICROSECONDS,
        "plan": (random % np.uint64(3)).astype(np.int64),
    }


def _old_articles(numbers: NDArray[np.int64], extent: Extent, seed: int) -> Values:
    return {"id": numbers + 1, **_publication(numbers, extent.hours, seed)}


_MAKERS = {
    "articles": _articles,
    "analytics_events": _events,
    "analytics_daily": _daily,
    "subscriptions": _subscriptions,
    "old_articles": _old_articles,
}
