"""Each filesystem's least size, and how it is made, grown and mounted."""

from dataclasses import dataclass
from typing import Literal

from pgstow.model.storage import Filesystem
from pgstow.units import MIB


@dataclass(frozen=True, slots=True)
class FilesystemType:
    """A filesystem that the emulator can make.

    ``make`` and ``grow`` are commands; ``make`` is given the layout's options and the device, and
    ``grow`` the loop device or the mount point, as ``grow_by`` says. ``programs`` must be there.
    """

    min_bytes: int
    make: tuple[str, ...]
    grow: tuple[str, ...]
    grow_by: Literal["device", "mount"]
    programs: tuple[str, ...]


# A fresh device is all zeros already; writing them would cost the memory they take, and a discard
# of it has nothing to give back.
_EXT4_LAZY = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"

FILESYSTEM_TYPES: dict[Filesystem, FilesystemType] = {
    "xfs": FilesystemType(
        min_bytes=300 * MIB,  # mkfs.xfs from xfsprogs 5.19 on refuses less
        make=("mkfs.xfs", "-q", "-f", "-K"),
        grow=("xfs_growfs", "-d"),
        grow_by="mount",
        programs=("mkfs.xfs", "xfs_growfs"),
    ),
    "ext4": FilesystemType(
        min_bytes=8 * MIB,
        make=("mkfs.ext4", "-q", "-F", "-E", _EXT4_LAZY),
        grow=("resize2fs",),
        grow_by="device",
        programs=("mkfs.ext4", "resize2fs"),
    ),
    "btrfs": FilesystemType(
        min_bytes=109 * MIB,  # mkfs.btrfs of btrfs-progs 6.2: "minimum size … is 114294784"
        make=("mkfs.btrfs", "-q", "-f", "-K"),
        grow=("btrfs", "filesystem", "resize", "max"),
        grow_by="mount",
        programs=("mkfs.btrfs", "btrfs"),
    ),
}


def mount_options(filesystem: Filesystem, given: tuple[str, ...]) -> tuple[str, ...]:
    """The layout's mount options, and those that keep a filesystem's own upkeep off the volume.

    >>> mount_options("ext4", ("noatime",))
    ('noatime', 'noinit_itable')
    >>> mount_options("btrfs", ("noatime",))
    ('noatime',)
    """
    if filesystem == "ext4" and "init_itable" not in ",".join(given):
        # Else a kernel thread fills inode tables for a while and takes the volume's IOPS.
        return (*given, "noinit_itable")
    return given
