"""Where a figure comes from, and what else its reader should know."""

from dataclasses import dataclass
from typing import Literal

Origin = Literal[
    "observed",  # read from a live server or host
    "predicted",
    "measured on emulated volumes",
    "measured",  # on real devices
    "documented",  # from a named source and date
    "assumed",
]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a figure, with the source and date where it is a document's."""

    origin: Origin
    source: str = ""
    date: str = ""

    def __str__(self) -> str:
        detail = ", ".join(part for part in (self.source, self.date) if part)
        return f"{self.origin} ({detail})" if detail else self.origin


@dataclass(frozen=True, slots=True)
class Warning:
    """Something the reader must know; a value, so that terminal, JSON and page all carry it."""

    code: str  # stable, kebab-case: "counter-reset"
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Rate:
    """Events per second over the samples of a period: mean, standard deviation, how many."""

    mean: float
    stdev: float | None = None
    samples: int = 1
