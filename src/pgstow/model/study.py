"""A published study: what it measured where, what it claims, and what in it is wrong."""

import math
from dataclasses import dataclass
from typing import Literal

from pgstow.model.errors import UserError
from pgstow.model.experiment import Levels

Direction = Literal["higher", "lower", "equal"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the published table. ``metric`` is what a trial has of the same kind."""

    name: str
    title: str
    unit: str
    metric: str | None = None  # None: nothing that a trial measures


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of the published table. ``levels`` are those of the experiment that runs it again.

    None of them: the row stands for itself. A column without a value was not published.
    """

    label: str
    values: tuple[tuple[str, float], ...]
    levels: Levels = ()

    def value(self, column: str) -> float | None:
        """The figure in a column."""
        return dict(self.values).get(column)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a study says of one metric: ``over`` is ``ratio`` times ``under``.

    A study that only says which is more has no ratio, and a ``side``.
    """

    text: str
    metric: str
    over: Levels
    under: Levels
    ratio: float | None
    tolerance: float = 0.25  # of the ratio
    note: str = ""  # what the measurement can and cannot say about it
    side: Literal["higher", "lower"] | None = None

    def __post_init__(self) -> None:
        if self.ratio is not None and (self.ratio <= 0 or not 0 < self.tolerance < 1):
            raise UserError(f"claim {self.text!r} needs a ratio over 0 and a tolerance below 1")
        if (self.ratio is None) == (self.side is None):
            what = f"claim {self.text!r} has a ratio, or says which side is higher"
            raise UserError(what, 'write ratio, or side = "higher" or "lower"')

    @property
    def direction(self) -> Direction:
        """Whether ``over`` is claimed to be more or less than ``under``."""
        if self.ratio is None:
            assert self.side is not None, "checked"
            return self.side
        if self.ratio == 1:
            return "equal"
        return "higher" if self.ratio > 1 else "lower"

    @property
    def bounds(self) -> tuple[float, float]:
        """The ratios that are within the tolerance; without a ratio, all on the claimed side of 1.

        >>> Claim("WAL apart", "tps", (), (), ratio=2.0).bounds
        (1.5, 2.5)
        """
        if self.ratio is None:
            return (1.0, math.inf) if self.side == "higher" else (0.0, 1.0)
        return self.ratio * (1 - self.tolerance), self.ratio * (1 + self.tolerance)


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong in a study, and what holds in its place."""

    says: str
    truth: str
    source: str


@dataclass(frozen=True, slots=True)
class Study:
    """A published measurement that an experiment of the same name runs again."""

    name: str
    title: str
    document: str
    publisher: str
    date: str
    where: str  # in the document
    conditions: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
    mistakes: tuple[Mistake, ...] = ()

    def row(self, levels: Levels) -> PublishedRow | None:
        """The published row of these levels, in whatever order they are named."""
        wanted = dict(levels)
        return next((row for row in self.rows if row.levels and dict(row.levels) == wanted), None)
