"""How many blocks it takes for an interval of the target width."""

import bisect
import math
from collections.abc import Callable

from pgstow.model import UserError
from pgstow.model.statistics import LevelComparison
from pgstow.verification.effect import student_quantile
from pgstow.verification.experiments.interval import FEWEST_BLOCKS

_MOST_BLOCKS = 100_000
_ROUNDING = 1e-12


def needed_blocks(comparison: LevelComparison, half_width: float) -> int:
    """How many blocks in all, until the ratio's interval is ± ``half_width`` (0.02: 2 %) wide.

    The present number where it is narrow enough; ``FEWEST_BLOCKS`` where nothing is known yet.
    Otherwise the present spread is taken to stay: the half-width shrinks with Student's quantile
    and the root of the number. UserError for a half-width that no number gives.

    Blocks run until an interval is narrow stop a little too gladly, where the spread happened to
    look small: by simulation, 99 % intervals then hold the truth in 98 % of the runs that began
    with 6 blocks, and in 97.5 % of those that began with 3.
    """
    if half_width <= 0:
        raise UserError(f"a half-width must be over 0, not {half_width:g}", "write like ci=2%")
    present, found = len(comparison.blocks), comparison.ratio_interval
    if comparison.difference is not None and comparison.ratio is None:
        raise UserError(
            f"{comparison.metric} of {comparison.level} has a 0: there is no relative half-width",
            "ask for the precision of another metric",
        )
    if found is None:
        return max(FEWEST_BLOCKS, present + 1)
    width = (math.log(found.high) - math.log(found.low)) / 2
    unit = width / student_quantile(found.confidence, present - 1) * math.sqrt(present)
    target = math.asinh(half_width)  # of the logarithm: (e^w − e^−w) / 2 is the relative one

    def is_reached(blocks: int) -> bool:
        half = unit * student_quantile(found.confidence, blocks - 1) / math.sqrt(blocks)
        return half <= target * (1 + _ROUNDING)

    return _first(present, is_reached)


def _first(fewest: int, is_reached: Callable[[int], bool]) -> int:
    """The least number from ``fewest`` on that reaches it, which all above do as well."""
    numbers = range(fewest, _MOST_BLOCKS)
    index = bisect.bisect_left(numbers, True, key=is_reached)
    if index == len(numbers):
        raise UserError(
            f"more than {_MOST_BLOCKS:,} blocks would be needed",
            "make a trial longer, or ask for a wider interval",
        )
    return numbers[index]
