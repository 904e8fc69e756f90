"""What is measured, seen from the outside: files on mounted volumes, and the server's processes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgstow.emulate.bench.trials import FILE_BYTES, VOLUME_BYTES, Target
from pgstow.model import Volume
from pgstow.units import MIB

FILE_NAME = "fio.dat"


@dataclass(frozen=True, slots=True)
class MountedVolumes:
    """Volumes that are up: one file to measure on each, and the processes that serve them."""

    files: tuple[Path, ...]
    loop_devices: tuple[str, ...]
    pids: tuple[int, ...]


class SystemUnderTest(Protocol):
    """An emulator of volumes."""

    name: str
    version: str

    def bring_up(self, target: Target) -> MountedVolumes:
        """Make the target's volumes be there, with their files."""

    def take_down(self) -> None:
        """End what the last ``bring_up`` started, as far as it costs time while idle."""

    def cannot(self, target: Target) -> tuple[str, ...]:
        """What of the target it has no means to do."""

    def commands(self, target: Target) -> tuple[str, ...]:
        """What is run for the target, for people to repeat."""


def volume_names(count: int) -> tuple[str, ...]:
    """The names of so many volumes."""
    return tuple(f"v{number:02}" for number in range(count))


def make_volume(name: str, mounts: Path) -> Volume:
    """A volume as a layout has it; every subject's volumes are the same."""
    return Volume(name, "gp3", VOLUME_BYTES, str(mounts / name))


def write_file(directory: Path) -> None:
    """Write the file that is measured on, so that reads find data and writes allocate nothing."""
    block = bytes(range(256)) * (MIB // 256)
    with (directory / FILE_NAME).open("wb") as file:
        for _ in range(FILE_BYTES // MIB):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def files(mounts: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Where the measured files of volumes are."""
    return tuple(mounts / name / FILE_NAME for name in names)
