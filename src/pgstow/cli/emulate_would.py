"""What commands of ``pgstow emulate`` would do, for ``--dry-run`` and before they are confirmed."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.cli import output
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.emulate import VolumeStatus


def print_would(lines: "Sequence[str]", json: bool) -> None:
    """Print what would be done; nothing is."""
    if json:
        output.print_json({"actions": list(lines)})
        return
    for line in lines or ["nothing to do"]:
        output.console().print(f"would: {line}", soft_wrap=True)


def would_remove(state_dir: Path, *, purge: bool = False) -> list[str]:
    """What ``down`` would do: each volume that would go, with what is on it, and files beside."""
    from pgstow import emulate
    from pgstow.units import format_size

    found = []
    doomed = list(emulate.files_to_purge(state_dir)) if purge else []
    for volume in emulate.read_status(state_dir).volumes:
        backing = volume.backing
        if backing.path is None:
            end = "discard its memory"
        else:
            end = f"{'keep' if backing.keep and not purge else 'delete'} {backing.path}"
            doomed = [file for file in doomed if file != backing.path]
        what = f"{volume.type} of {format_size(volume.size_bytes)}"
        where = f"unmount {volume.mount}, " if volume.is_mounted else ""
        found.append(f"remove volume {volume.name} ({what}): {where}{end}")
    return found + [f"delete {file}, which was kept" for file in doomed]


def volumes_up(state_dir: Path, names: "Sequence[str] | None" = None) -> "list[VolumeStatus]":
    """The volumes that are up, of these names."""
    from pgstow import emulate

    up = {volume.name: volume for volume in emulate.read_status(state_dir).volumes}
    if not up:
        raise UserError("no emulated volumes are up", "start them with pgstow emulate up LAYOUT")
    for name in names or ():
        if name not in up:
            raise UserError(f"no volume {name!r} is up", f"use one of: {', '.join(up)}")
    return [up[name] for name in (names or up)]
