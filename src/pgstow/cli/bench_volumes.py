"""The volumes of experiments' trials: emulated, new for each trial, alike in all of a run."""

from collections.abc import Callable, Mapping
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

        volumes = emulate.read_status(STATE_DIRECTORY).volumes
        return {
            Path(one.loop_device).name: one.name for one in volumes if one.loop_device is not None
        }

    def watch(self) -> "Callable[[], tuple[Warning, ...]]":
        """Begin to look whether the volumes answer when their model says."""
        from pgstow.cli import emulate_limited

        return emulate_limited.watch(STATE_DIRECTORY)


def make() -> EmulatedVolumes:
    """The volumes of one trial, not made yet; a function, so that other machines can have it."""
    return EmulatedVolumes()
