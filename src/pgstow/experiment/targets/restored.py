"""A copy of base data spread over a layout's volumes, as its server would have had it made."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pgstow.experiment.targets import tablespace_layout
from pgstow.experiment.targets.base_data import Base
from pgstow.experiment.targets.record import Record
from pgstow.host import directories, programs, uncached
from pgstow.host.memory_limit import forget_files
from pgstow.host.server import unprivileged_user
from pgstow.model.errors import UserError
from pgstow.model.storage import Layout
from pgstow.units import GIB, MIB, format_size, parse_size

_FOLDER = "pgstow"  # of ours on each volume
_SEGMENT_BYTES = 16 * MIB
_SEGMENTS_OF_NAME = 4 * GIB // _SEGMENT_BYTES
_DEFAULT_MAX_WAL_BYTES = GIB
_WAL_BYTES_PER_S = 32 * MIB  # more than two cores write
_WAL_SHARE = 0.25  # of what is free on its volume
_SYNC_TIMEOUT_S = 3600.0


class Restored:
    """The copy of the data for one trial, on each volume in a directory of its own."""

    def __init__(self, layout: Layout, record: Record) -> None:
        self.layout = layout
        self.record = record
        self.user = unprivileged_user()

    @property
    def data_directory(self) -> Path:
        """The server's data directory."""
        return self._folder(self.layout.postgres.data) / "data"

    def copy(self, base: Base, max_wal_size: str | None, load_s: float) -> None:
        """Copy the data to where the layout wants them, and give the WAL its files: as many as a
        load of so many seconds may fill."""
        for volume in self.layout.volumes:
            self._make_folder(volume.name)
        self._check_room(base)
        uncached.copy_tree(base.data, self.data_directory)
        self._place_tablespaces(base)
        wal = self._place_wal()
        free_bytes = directories.free_bytes(str(wal)) or 0
        limits = (_wal_bytes(max_wal_size), load_s * _WAL_BYTES_PER_S, free_bytes * _WAL_SHARE)
        preallocate_wal(wal, int(min(limits)))

    def forget_cached(self) -> None:
        """Write all of it to the volumes and drop it from the page cache."""
        for folder in self._folders():
            forget_files(folder)

    def cache(self) -> None:
        """Write all of it to the volumes, and read it into the page cache."""
        for folder in self._folders():
            programs.run(["sync", "--file-system", str(folder)], timeout_s=_SYNC_TIMEOUT_S)
            uncached.read_tree(folder)

    def remove(self) -> None:
        """Remove what was made on the volumes."""
        for folder in self._folders():
            shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> Iterator[Path]:
        for volume in self.layout.volumes:
            folder = self._folder(volume.name)
            if folder.is_dir():
                yield folder

    def _folder(self, volume: str) -> Path:
        return Path(self.layout.volume(volume).mount) / _FOLDER

    def _make_folder(self, volume: str) -> None:
        folder = self._folder(volume)
        self.record.note_directory(folder)
        folder.mkdir(mode=0o700)
        self._own(folder)

    def _check_room(self, base: Base) -> None:
        """The data's own volume must hold what is not in tablespaces."""
        spread = sum(directories.tree_bytes(base.space(name)) for _, name in base.spaces)
        self._require(self.layout.postgres.data, base.size_bytes - spread)
        for _, name in base.spaces:
            volume = tablespace_layout.volume_of(self.layout, name)
            self._require(volume, directories.tree_bytes(base.space(name)))

    def _require(self, volume: str, needed_bytes: int) -> None:
        free_bytes = directories.free_bytes(str(self._folder(volume))) or 0
        if free_bytes < needed_bytes:
            raise UserError(
                f"volume {volume} is too small: it has {format_size(free_bytes)} free and the data "
                f"take {format_size(needed_bytes)}",
                "make it larger, or choose a smaller scale",
            )

    def _place_tablespaces(self, base: Base) -> None:
        for oid, name in base.spaces:
            folder = self._folder(tablespace_layout.volume_of(self.layout, name))
            location = folder / tablespace_layout.plain_name(name)
            uncached.copy_tree(base.space(name), location)
            link = self.data_directory / "pg_tblspc" / oid
            link.unlink()
            link.symlink_to(location)
            self._own(link)

    def _place_wal(self) -> Path:
        """The directory of the WAL, moved to its own volume where it has one."""
        inside = self.data_directory / "pg_wal"
        if self.layout.postgres.wal == self.layout.postgres.data:
            return inside
        apart = self._folder(self.layout.postgres.wal) / "pg_wal"
        uncached.copy_tree(inside, apart)
        shutil.rmtree(inside)
        inside.symlink_to(apart)
        self._own(inside)
        return apart

    def _own(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, *programs.user_ids(self.user), follow_symlinks=False)


def preallocate_wal(directory: Path, size_bytes: int) -> None:
    """Give the WAL files for so many bytes to come, as a server that has run for long has.

    A server that finds none fills each with zeros before it is used: twice the WAL, and waiting,
    which an old one, that recycles its files, does not have.
    """
    present = sorted(path for path in directory.iterdir() if _is_segment(path.name))
    if not present:
        return
    last = present[-1]
    found = last.stat()
    numbers = range(1, size_bytes // _SEGMENT_BYTES + 1)
    paths = [directory / later_segment(last.name, number) for number in numbers]
    uncached.write_zeros(paths, _SEGMENT_BYTES)
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, found.st_uid, found.st_gid)


def later_segment(name: str, steps: int) -> str:
    """The name of the WAL segment so many after another (of 16 MiB each).

    >>> later_segment("0000000100000000000000FE", 2)
    '000000010000000100000000'
    """
    number = int(name[8:16], 16) * _SEGMENTS_OF_NAME + int(name[16:24], 16) + steps
    return f"{name[:8]}{number // _SEGMENTS_OF_NAME:08X}{number % _SEGMENTS_OF_NAME:08X}"


def _is_segment(name: str) -> bool:
    return re.fullmatch(r"[0-9A-F]{24}", name) is not None


def _wal_bytes(max_wal_size: str | None) -> int:
    """A setting's bytes; PostgreSQL's number without a unit is of megabytes.

    >>> _wal_bytes("256MB"), _wal_bytes("32")
    (268435456, 33554432)
    """
    if max_wal_size is None:
        return _DEFAULT_MAX_WAL_BYTES
    text = max_wal_size.strip()
    if text.isdigit():
        return int(text) * MIB
    return int(parse_size(re.sub(r"([kMGT])B$", lambda unit: f"{unit[1].upper()}iB", text)))
