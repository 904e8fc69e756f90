"""The volumes of experiments' trials: emulated, new for each trial, alike in all of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgstow.emulate.control import Compensation
    from pgstow.model import Layout, Warning

STATE_DIRECTORY = Path("/run/pgstow/experiment")
_known: list["Compensation"] = []  # this machine's, once measured: trials are to differ in nothing


class EmulatedVolumes:
    """One trial's volumes, behaving as the catalog says."""

    def up(self, layout: "Layout") -> None:
        """Make the volumes, mounted where the layout says."""
        from pgstow import catalog, emulate
        from pgstow.host.server import unprivileged_user

        rules = catalog.load()
        status = emulate.up(
            layout,
            [rules.device(volume, layout.host) for volume in layout.volumes],
            rules.host_cap(layout.host),
            state_directory=STATE_DIRECTORY,
            owner=unprivileged_user(),
            compensation=_known[0] if _known else None,
        )
        is_sure = all(warning.code != "busy-while-calibrating" for warning in status.warnings)
        if not _known and is_sure and status.compensation is not None:
            _known.append(status.compensation)

    def down(self) -> None:
        """Remove them and everything on them; nothing to remove is no error."""
        from pgstow import emulate

        emulate.down(STATE_DIRECTORY, force=True)

    def limits(self, enabled: bool) -> None:
        """Switch what slows them down, as for loading quickly; a trial begins when it is on, with
        the burst credits of its layout."""
        from pgstow import emulate

        if enabled:
            emulate.reset_credits(STATE_DIRECTORY)
        emulate.set_limits(STATE_DIRECTORY, enabled)

    def devices(self) -> Mapping[str, str]:
        """Block devices, as /proc/diskstats names them, and the layout's volume on each."""
        from pgstow import emulate

        volumes = emulate.status(STATE_DIRECTORY).volumes
        return {
            Path(one.loop_device).name: one.name for one in volumes if one.loop_device is not None
        }

    def watch(self) -> Callable[[], "tuple[Warning, ...]"]:
        """Begin to look whether the volumes answer when their model says."""
        before = _lateness()

        def end() -> "tuple[Warning, ...]":
            return late_warnings(before, _lateness())

        return end


@dataclass(frozen=True, slots=True)
class Lateness:
    """What a volume has done so far, and by how much its answers came later than its model said."""

    operations: int
    answered_us: float  # the time of all of them
    late_us: float


def _lateness() -> dict[str, Lateness]:
    from pgstow.emulate import lateness
    from pgstow.emulate.state import StateDirectory

    found = lateness.read_volumes(StateDirectory(STATE_DIRECTORY))
    return {
        one.name: Lateness(
            one.reads + one.writes, one.read_us_total + one.write_us_total, one.late_us_total
        )
        for one in found
    }


def late_warnings(
    before: Mapping[str, Lateness], after: Mapping[str, Lateness]
) -> "tuple[Warning, ...]":
    """A warning for each volume whose answers were late enough to be what was measured."""
    from pgstow.emulate.statistics import is_late
    from pgstow.model import Warning
    from pgstow.verification.experiments import LIMITED_BY_EMULATOR

    found = []
    for name, now in after.items():
        then = before.get(name, Lateness(0, 0.0, 0.0))
        operations = now.operations - then.operations
        if operations <= 0:
            continue
        late_us = (now.late_us - then.late_us) / operations
        mean_us = (now.answered_us - then.answered_us) / operations
        if is_late(late_us, mean_us):
            found.append(
                Warning(
                    LIMITED_BY_EMULATOR,
                    f"volume {name} answered {late_us / 1000:.2f} ms later than it stands for, "
                    f"of {mean_us / 1000:.2f} ms: this machine was the limit, not the volume",
                    "ask less of the volume, or use a machine with more processors",
                )
            )
    return tuple(found)


def make() -> EmulatedVolumes:
    """The volumes of one trial, not made yet; a function, so that other machines can have it."""
    return EmulatedVolumes()
