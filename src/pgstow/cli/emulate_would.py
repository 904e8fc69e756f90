"""What commands of ``pgstow emulate`` would do, for ``--dry-run``."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.cli import output
from pgstow.cli.names import shown
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
        output.console().print(f"would: {shown(line)}", soft_wrap=True)


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
