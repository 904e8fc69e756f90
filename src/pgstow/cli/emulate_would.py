"""What commands of ``pgstow emulate`` would do, for ``--dry-run``."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.cli import output
from pgstow.cli.names import shown

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
    from pgstow.emulate.state import nothing_up, unknown_volume

    up = {volume.name: volume for volume in emulate.read_status(state_dir).volumes}
    if not up:
        raise nothing_up(state_dir)
    for name in names or ():
        if name not in up:
            raise unknown_volume(name, up)
    return [up[name] for name in (names or up)]
