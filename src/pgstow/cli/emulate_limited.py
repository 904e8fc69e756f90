"""What was measured while the emulator, not its volumes, was the limit: for trials and the demo."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgstow.emulate.control import ServerStatistics
    from pgstow.model import Warning


def watch(state_directory: Path) -> "Callable[[], tuple[Warning, ...]]":
    """Begin to look whether the volumes answer when their model says; the result ends it."""
    from pgstow.emulate.watch import read_statistics

    before = read_statistics(state_directory)

    def end() -> "tuple[Warning, ...]":
        return limited_warnings(before, read_statistics(state_directory))

    return end


def limited_warnings(
    before: "ServerStatistics", after: "ServerStatistics"
) -> "tuple[Warning, ...]":
    """A warning for each volume of which nothing was measured between two samples."""
    from pgstow.emulate.statistics import LATE_US, is_limited_by_emulator, late_us
    from pgstow.model import Warning
    from pgstow.verification.experiments import LIMITED_BY_EMULATOR

    found = []
    for present in after.volumes:
        past = before.find(present.name)
        if past is None or not is_limited_by_emulator(before, after, present.name):
            continue
        late = late_us(past, present) or 0.0
        how = (
            f"answered {late / 1000:.2f} ms later than its model on average"
            if late > LATE_US
            else "waited for the emulator's one thread, which had no rest"
        )
        found.append(
            Warning(
                LIMITED_BY_EMULATOR,
                f"volume {present.name} {how}: this machine was the limit, not the volume",
                "ask less of the volume, or use a machine with more processors",
            )
        )
    return tuple(found)
