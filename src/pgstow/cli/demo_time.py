"""The demo's time: what may still move, and how long it looks, so that it ends when it is to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgstow.model import Step

_BESIDE_WINDOWS_S = (
    390.0  # loading, planning, moving and starting: 8 minutes with two windows of 45
)
_SHORTEST_WINDOW_S = 15.0
_CLOSING_S = 10.0  # the report


def longest_s(window_s: float) -> float:
    """How long a demo with windows of that length is to take at most.

    >>> longest_s(45.0) / 60
    8.0
    """
    return _BESIDE_WINDOWS_S + 2 * window_s


def moving_s(left_s: float, warm_up_s: float, window_s: float) -> float:
    """How long the moves may take when so much time is left for them and the second look."""
    return max(left_s - warm_up_s - window_s - _CLOSING_S, 0.0)


def last_window_s(left_s: float, warm_up_s: float, window_s: float) -> float:
    """The second window: as long as the first if there is time.

    >>> last_window_s(100.0, 12.0, 45.0), last_window_s(50.0, 12.0, 45.0)
    (45.0, 28.0)
    >>> last_window_s(0.0, 12.0, 45.0), last_window_s(0.0, 5.0, 10.0)
    (15.0, 10.0)
    """
    return min(window_s, max(left_s - warm_up_s - _CLOSING_S, _SHORTEST_WINDOW_S))


def bytes_that_fit(steps: "Sequence[Step]", within_s: float) -> int | None:
    """The bytes that the moves bring over in a time, beside the load; None: all of them."""
    moves = [step for step in steps if step.relation is not None]
    left_s = within_s - sum(step.seconds for step in steps if step.relation is None)
    moved = 0
    for step in moves:
        left_s -= step.seconds_loaded or step.seconds
        if left_s < 0:
            return moved
        moved += step.bytes
    return None
