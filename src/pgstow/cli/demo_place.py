"""Where the demo's volumes are: emulated, or plain directories where that cannot be."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.model.errors import HostError

if TYPE_CHECKING:
    from pgstow.catalog import Catalog
    from pgstow.host.processes import ProcessIdentity
    from pgstow.model import Layout, Provenance, Warning

_STATE = Path("/run/pgstow/demo")  # one demo at a time: a machine has one page cache
_PLACE = "place.json"
_TEMPORARY = "/var/tmp"  # noqa: S108 (mkdtemp makes a private name in it); often /tmp is memory
_PREFIX = "pgstow-demo-"
_TIMEOUT_S = 10.0


@dataclass
class DemoVolumes:
    """Volumes for one demo; ``reason`` says why they are not emulated, None: they are."""

    directory: Path
    rules: "Catalog"
    reason: str | None
    owner: str | None
    made: list[str] = field(default_factory=list)

    @property
    def is_emulated(self) -> bool:
        """Whether the volumes behave like the cloud's."""
        return self.reason is None

    @property
    def provenance(self) -> "Provenance":
        """What figures measured here are worth."""
        from pgstow.model import Provenance

        if self.is_emulated:
            return Provenance("measured on emulated volumes")
        return Provenance("measured", "on plain directories: no volume's limits are in force")

    def placed(self, layout: "Layout") -> "Layout":
        """A layout with its mounts inside the demo's directory."""
        volumes = tuple(
            replace(volume, mount=str(self.directory / "volumes" / volume.name))
            for volume in layout.volumes
        )
        return replace(layout, volumes=volumes)

    def up(self, layout: "Layout") -> None:
        """Make the layout's volumes be there, beside those that are."""
        if not self.is_emulated:
            for volume in layout.volumes:
                Path(volume.mount).mkdir(parents=True, exist_ok=True)
                self._give(Path(volume.mount))
            return
        from pgstow import emulate

        devices = [self.rules.device(volume, layout.host) for volume in layout.volumes]
        emulate.up(
            layout,
            devices,
            self.rules.host_cap(layout.host),
            state_directory=_STATE,
            owner=self.owner,
        )

    def limits(self, *, enabled: bool) -> None:
        """Switch the volumes' limits, as for loading quickly."""
        if self.is_emulated:
            from pgstow import emulate

            emulate.set_limits(_STATE, enabled)

    def watch(self) -> "Callable[[], tuple[Warning, ...]]":
        """Begin to look whether the emulator is the limit; plain directories have none."""
        if not self.is_emulated:
            return tuple
        from pgstow.cli import emulate_limited

        return emulate_limited.watch(_STATE)

    def server_runs(self, process: "ProcessIdentity | None", cgroup: Path | None) -> None:
        """Write down what would be left if the demo were killed."""
        if self.is_emulated:
            record = {
                "directory": str(self.directory),
                "process": asdict(process) if process else None,
                "cgroup": str(cgroup) if cgroup else None,
            }
            (_STATE / _PLACE).write_text(json.dumps(record))

    def down(self) -> None:
        """Remove the volumes and everything on them."""
        if self.is_emulated:
            from pgstow import emulate

            emulate.down(_STATE)
            (_STATE / _PLACE).unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _give(self, path: Path) -> None:
        if self.owner is not None:
            shutil.chown(path, self.owner)


@contextmanager
def demo_volumes(rules: "Catalog", owner: str | None) -> Iterator[DemoVolumes]:
    """Volumes for one demo, removed at the end whatever happens."""
    from pgstow import emulate

    missing = emulate.check_requirements(("xfs",))
    reason = "; ".join(warning.message for warning in missing) or None
    if reason is None:
        _clear_leftovers()
        _STATE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_TEMPORARY))
    directory.chmod(0o755)  # the server's user must reach its data directory
    found = DemoVolumes(directory, rules, reason, owner)
    try:
        yield found
    finally:
        found.down()


def _clear_leftovers() -> None:
    """End what a demo that was killed left behind, by the identities that it wrote down."""
    from pgstow import emulate
    from pgstow.host import processes
    from pgstow.host.processes import ProcessIdentity

    try:
        record = json.loads((_STATE / _PLACE).read_text())
    except (OSError, ValueError):
        record = {}
    if record.get("process"):
        left = ProcessIdentity(**record["process"])
        if processes.is_running(left) and not processes.end(left, timeout_s=_TIMEOUT_S):
            raise HostError(
                f"a server of an earlier demo (pid {left.pid}) does not end", "end it by hand"
            )
    if _STATE.exists():
        emulate.down(_STATE)
    if record.get("cgroup"):
        with suppress(OSError):
            Path(record["cgroup"]).rmdir()
    if record.get("directory", "").startswith(f"{_TEMPORARY}/{_PREFIX}"):
        shutil.rmtree(record["directory"], ignore_errors=True)
