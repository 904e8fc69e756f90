"""Volumes that are there already: the user's directories, which must hold nothing else."""

import os
from collections.abc import Mapping
from pathlib import Path

from pgstow.experiment.targets.target import EndWatch
from pgstow.host import devices
from pgstow.model.errors import UserError
from pgstow.model.storage import Layout

_OF_THE_FILESYSTEM = frozenset({"lost+found"})


class MountedDirectories:
    """The directories of one trial: empty before it and after it."""

    def __init__(self) -> None:
        self._layout: Layout | None = None

    def up(self, layout: Layout) -> None:
        """Refuse directories that are missing or in use."""
        seen: dict[str, str] = {}
        for volume in layout.volumes:
            other = seen.setdefault(os.path.realpath(volume.mount), volume.name)
            if other != volume.name:
                raise UserError(
                    f"volumes {other} and {volume.name} have one directory, {volume.mount}",
                    "give each its own",
                )
        for volume in layout.volumes:
            _check_empty(volume.name, Path(volume.mount))
        self._layout = layout

    def down(self) -> None:
        """They stay."""

    def limits(self, enabled: bool) -> None:
        """They are as fast as they are."""

    def watch(self) -> EndWatch:
        """They are what they are."""
        return lambda: ()

    def devices(self) -> Mapping[str, str]:
        """Their block devices; volumes on one device have the first one's name."""
        found: dict[str, str] = {}
        for volume in self._layout.volumes if self._layout is not None else ():
            filesystem = devices.filesystem_of(volume.mount)
            if filesystem is not None and filesystem.device is not None:
                found.setdefault(filesystem.device, volume.name)
        return found


def _check_empty(volume: str, directory: Path) -> None:
    try:
        names = {entry.name for entry in os.scandir(directory)} - _OF_THE_FILESYSTEM
    except OSError as error:
        raise UserError(
            f"directory {directory} of volume {volume} cannot be used: {error.strerror}",
            "mount the volume there, or name another directory",
        ) from error
    if names:
        raise UserError(
            f"directory {directory} of volume {volume} is not empty ({min(names)!r} is in it)",
            "name an empty one: everything made there is removed after each trial",
        )
    if not os.access(directory, os.W_OK):
        raise UserError(
            f"directory {directory} of volume {volume} may not be written by this user",
            "run this as its owner or as root",
        )
