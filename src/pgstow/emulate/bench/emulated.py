"""pgstow's own emulator as a subject: the same code as ``pgstow emulate up``."""

from pathlib import Path

from pgstow import __version__
from pgstow.emulate import bring_up, take_down
from pgstow.emulate.bench import subject
from pgstow.emulate.bench.subject import MountedVolumes
from pgstow.emulate.bench.trials import Target
from pgstow.emulate.control import Control
from pgstow.emulate.state import StateDirectory
from pgstow.emulate.status import EmulatorStatus
from pgstow.model import HostSpec, Layout, Placement

EMULATOR = "emulator"  # the state directory below a run's


class Emulated:
    """Volumes that stay up; each target sets their limits and latencies anew."""

    name = "pgstow"
    version = __version__

    def __init__(self, directory: Path, volumes: int) -> None:
        self._state = StateDirectory(directory / EMULATOR)
        self._mounts = directory / "mnt"
        self._names = subject.volume_names(volumes)
        self._has_files = False
        self.status: EmulatorStatus | None = None

    @property
    def control(self) -> Control:
        """The emulator's control socket."""
        return Control(self._state.control)

    def bring_up(self, target: Target) -> MountedVolumes:
        """The first time makes all volumes, with files written while limits are off."""
        volumes = tuple(subject.make_volume(name, self._mounts) for name in self._names)
        layout = Layout(HostSpec(), volumes, Placement(self._names[0], self._names[0]))
        devices = [target.device(name) for name in self._names]
        self.status = bring_up.up(
            layout, devices, target.host_cap, state_directory=self._state.path
        )
        if not self._has_files:
            self.control.set_limits(False)
            for name in self._names:
                subject.write_file(self._mounts / name)
            self.control.set_limits(True)
            self._has_files = True
        assert self.status.pid is not None
        names = self._names[: target.volumes]
        loops = {volume.name: volume.loop_device or "" for volume in self.status.volumes}
        return MountedVolumes(
            subject.files(self._mounts, names),
            tuple(loops[name] for name in names),
            (self.status.pid,),
        )

    def take_down(self) -> None:
        """Nothing: an idle server takes no time."""

    def cannot(self, target: Target) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing: the targets are what it is for."""
        return ()

    def commands(self, target: Target) -> tuple[str, ...]:  # noqa: ARG002
        """It is this program itself."""
        return ("pgstow emulate up",)

    def close(self) -> None:
        """Remove the volumes."""
        take_down.down(self._state.path, force=True)
