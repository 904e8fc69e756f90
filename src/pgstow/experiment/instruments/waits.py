"""Samples of sessions' waits as average active sessions in slices of time. Pure."""

from collections.abc import Mapping, Sequence

from pgstow.model import Waits

_MOST_SLICES = 60
_SHORTEST_SLICE_S = 1.0
Sample = tuple[float, Mapping[str, int]]  # seconds since the beginning, sessions by wait event


def average_active_sessions(samples: Sequence[Sample], seconds: float) -> Waits | None:
    """The mean number of sessions by wait event, in slices of at least a second.

    A sample stands for the time since the one before it, so that a server that was too busy to
    answer counts by what it did then, not less. A slice's length is given to a hundredth of a
    second, so that trials of equal schedules have equal slices. None without samples.
    """
    if not samples or seconds <= 0:
        return None
    count = max(1, min(_MOST_SLICES, round(seconds / _SHORTEST_SLICE_S)))
    slice_s = seconds / count
    sums: dict[str, list[float]] = {}
    since = 0.0
    for index, (at_s, sessions) in enumerate(samples):
        until = seconds if index == len(samples) - 1 else min(at_s, seconds)
        for event, number in sessions.items():
            _spread(sums.setdefault(event, [0.0] * count), number, since, until, slice_s)
        since = max(since, until)
    largest = sorted(sums.items(), key=lambda one: (-sum(one[1]), one[0]))
    return Waits(
        round(slice_s, 2),
        len(samples),
        tuple((event, tuple(total / slice_s for total in totals)) for event, totals in largest),
    )


def _spread(totals: list[float], sessions: int, since: float, until: float, slice_s: float) -> None:
    """Add that many sessions over a period to the slices that it is in, in session-seconds."""
    first = min(int(since / slice_s), len(totals) - 1)
    for index in range(first, len(totals)):
        begin, end = index * slice_s, (index + 1) * slice_s
        if begin >= until:
            break
        totals[index] += sessions * max(0.0, min(until, end) - max(since, begin))
