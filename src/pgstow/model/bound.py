"""What a search proved of all layouts that it considered: of what, of which, and for which goal."""

from dataclasses import dataclass
from typing import Literal

from pgstow.units import format_size, format_usd

_FEW_TYPES = 4  # that are named one by one


@dataclass(frozen=True, slots=True)
class Considered:
    """A set of layouts: all that can be made of these volumes. None: no limit.

    In all of them the data directory stays on the volume ``keeps``, which may grow and not shrink,
    and what is lost with an instance holds no more than a plan would put there.
    """

    types: tuple[str, ...]
    max_volumes: int
    max_stripes: int
    max_move_bytes: int | None = None
    instances: tuple[str, ...] = ()  # empty: the one instance that is planned for
    is_pinned: bool = False  # only those that keep to the pins
    keeps: str | None = None  # None: an older plan, without it
    max_failure_rate: float | None = None  # of one volume, a year

    def __str__(self) -> str:
        """In words.

        >>> str(Considered(("gp3", "io2"), 3, 4))
        'layout of up to 3 volumes of gp3 or io2, stripes of up to 4'
        >>> str(Considered(("gp3",), 3, 4, keeps="data"))
        'layout with the data directory on data, of up to 3 volumes of gp3, stripes of up to 4'
        """
        named = " or ".join(self.types)
        types = named if len(self.types) <= _FEW_TYPES else f"{len(self.types)} types"
        kept = "" if self.keeps is None else f" with the data directory on {self.keeps},"
        what = f"layout{kept} of up to {self.max_volumes} volumes of {types}"
        what += f", stripes of up to {self.max_stripes}"
        if self.max_move_bytes is not None:
            what += f", moving at most {format_size(self.max_move_bytes)}"
        if self.max_failure_rate is not None:
            what += f", none failing over {self.max_failure_rate * 100:.3g} % a year"
        if self.is_pinned:
            what += ", with all pins kept"
        if self.instances:
            return f"instance of {len(self.instances)} with a {what}"
        return what


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a layout must do to count.

    ``tps`` with ``headroom``, a share of every limit, and ``free_space``, a share of each new
    volume, left free; and ``tps`` less ``tolerance`` when simulated.
    """

    tps: float
    tolerance: float
    headroom: float
    free_space: float
    commit_p99_ms: float | None = None
    read_p99_ms: float | None = None

    def __str__(self) -> str:
        """In words.

        >>> str(Acceptance(800.0, 0.02, 0.2, 0.3, commit_p99_ms=5.0))
        '800 TPS with 20% of every limit and 30% of every new volume free, and commit p99 5 ms'
        """
        words = f"{self.tps:,.0f} TPS with {self.headroom:.0%} of every limit"
        words += f" and {self.free_space:.0%} of every new volume free"
        for name, limit in (("commit", self.commit_p99_ms), ("read", self.read_p99_ms)):
            words += "" if limit is None else f", and {name} p99 {limit:g} ms"
        return words


@dataclass(frozen=True, slots=True)
class Bound:
    """No layout of a set that is accepted costs less, or, of "tps", none does more at any price.

    ``value`` is in dollars a month or in transactions per second. It is of the model: what the
    prediction has wrong, it has wrong too.
    """

    of: Literal["price", "tps"]
    value: float
    layouts: Considered
    acceptance: Acceptance | None  # None: any speed
    is_proven: bool

    def __post_init__(self) -> None:
        if (self.of == "price") != (self.acceptance is not None):
            raise ValueError("a bound on a price is for a speed, a bound on a speed is for none")

    def gap_pct(self, usd_month: float) -> float | None:
        """How much more than the optimum such a price may be, in percent; None: not known."""
        if self.of != "price" or not self.is_proven or self.value <= 0:
            return None
        return max(0.0, usd_month - self.value) / self.value * 100

    def sentence(self, usd_month: float) -> str:
        """What is proved, of a layout at such a price."""
        if self.of == "tps":
            if not self.is_proven:
                return "How much faster another layout could be is not proved"
            return (
                f"At any price no {self.layouts} does more than {self.value:,.0f} TPS;"
                " that none within the budget is faster than this one is not proved"
            )
        gap_pct = self.gap_pct(usd_month)
        if gap_pct is None:
            return "How much cheaper another layout could be is not proved"
        return (
            f"No {self.layouts} that does {self.acceptance} costs less than"
            f" {format_usd(self.value)}: this one is within {gap_pct:.2f} % of the optimum"
            " possible"
        )
