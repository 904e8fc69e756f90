"""How long a run takes: from the schedule first, from the trials so far later."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgstow.experiment.design import SET_UP_S
from pgstow.model.experiment import Levels, Treatment

Progress = Callable[[float, float, str], None]  # seconds done, seconds in all, what is being done


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial to come, or one that is there already."""

    block: int
    position: int
    treatment: Treatment
    seconds: float  # expected
    is_done: bool = False

    @property
    def levels(self) -> Levels:
        """The treatment's."""
        return self.treatment.levels


def scheduled_s(treatment: Treatment) -> float:
    """How long a trial takes by its schedule, without setting it up."""
    schedule = treatment.schedule
    return schedule.settle_s + schedule.warm_up_s + schedule.duration_s


class Timetable:
    """The trials of a run and their times. ``progress`` is called from any thread."""

    def __init__(
        self,
        planned: Sequence[PlannedTrial],
        progress: Progress | None,
        *,
        side_by_side: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting = {(one.block, one.levels): one for one in planned if not one.is_done}
        self._progress = progress
        self._side_by_side = side_by_side
        self._clock = clock
        self._began_s = clock()
        self._running: dict[tuple[int, Levels], float] = {}  # and when it began
        self._set_ups: list[float] = []
        self._lock = threading.Lock()

    def begin(self, block: int, levels: Levels) -> None:
        """A trial begins."""
        with self._lock:
            self._running[(block, levels)] = self._clock()

    def end(self, block: int, levels: Levels) -> None:
        """A trial has ended well."""
        with self._lock:
            trial = self._waiting.pop((block, levels))
            began_s = self._running.pop((block, levels), None)
            if began_s is not None:
                took_s = self._clock() - began_s
                self._set_ups.append(max(took_s - scheduled_s(trial.treatment), 0.0))

    def report(self, what: str) -> None:
        """Tell how far the run is."""
        if self._progress is None:
            return
        with self._lock:
            done_s = self._clock() - self._began_s
            left_s = self._left_s()
        self._progress(done_s, done_s + left_s, what)

    def left_s(self) -> float:
        """The seconds that the rest will take."""
        with self._lock:
            return self._left_s()

    def _left_s(self) -> float:
        set_up_s = sum(self._set_ups) / len(self._set_ups) if self._set_ups else SET_UP_S
        blocks: dict[int, list[float]] = {}
        for key, trial in self._waiting.items():
            seconds = scheduled_s(trial.treatment) + set_up_s
            if key in self._running:
                seconds = max(seconds - (self._clock() - self._running[key]), 0.0)
            blocks.setdefault(trial.block, []).append(seconds)
        together = max if self._side_by_side else sum
        return float(sum(together(parts) for parts in blocks.values()))
