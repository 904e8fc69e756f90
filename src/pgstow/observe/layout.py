"""The present layout: which volumes hold the data directory, pg_wal and each tablespace.

What a volume is cannot be seen from inside (a gp3 and an io2 volume are both an NVMe disk), so
its type, size and limits come from what is known of it, matched by mount: a layout that the user
gives, or the emulated volumes that are up. Else it is taken for a generic local disk, with a
warning.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import get_args

from pgstow.host.devices import Filesystem
from pgstow.model import storage
from pgstow.model.profile import ServerState
from pgstow.model.provenance import Warning
from pgstow.model.storage import (
    DEFAULT_TABLESPACE,
    HostSpec,
    Layout,
    Placement,
    RelationId,
    Tablespace,
    Volume,
)
from pgstow.units import GIB, Bytes

_UNSEEN_MOUNT = "/"
_FREE_SHARE_UNSEEN = 2  # an unseen volume is taken to be twice as large as what is stored on it
# Mount options that matter to a layout; the rest are the kernel's defaults spelled out.
_OPTIONS = re.compile(
    r"noatime|nodiratime|lazytime|discard|nobarrier|barrier=.*|data=.*|commit=.*|sync|dirsync"
    r"|largeio|allocsize=.*|nodelalloc|swalloc|nodatacow|nodatasum|compress(?:-force)?=.*"
)
_FILESYSTEMS: tuple[storage.Filesystem, ...] = get_args(storage.Filesystem)
_TOAST = ("toast", "toast index")  # it is stored with its table


@dataclass(frozen=True, slots=True)
class PresentLayout:
    """The present layout, the volume of each block device, and what was assumed."""

    layout: Layout
    volume_of_device: dict[str, str]
    warnings: tuple[Warning, ...]


@dataclass
class _Volumes:
    """The volumes found so far, by mount."""

    known: tuple[Volume, ...]
    filesystems: Mapping[str, Filesystem | None]
    is_mount: Callable[[str], bool]
    unseen_bytes: int
    by_mount: dict[str, Volume] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    warnings: list[Warning] = field(default_factory=list)

    def hold(self, path: str, name: str, stated: Volume | None = None) -> str:
        """The name of the volume that holds a path; a new one is called ``name``.

        ``stated`` is the one that the user's layout has for it: of a host that cannot be seen there
        is nothing else to go by.
        """
        filesystem = self.filesystems.get(path)
        volume = self._known(filesystem.path if filesystem else path, filesystem)
        if volume is None and filesystem is None and stated is not None:
            self.warn(
                "mount-not-matched",
                f"{path} is under no mount of the layout file, and its host cannot be seen: it is"
                f" taken to be on volume {stated.name}, as the layout file says",
                f"give {stated.name} the mount that {path} is under",
            )
            volume = stated
        if volume is None:
            mount = filesystem.mount if filesystem else _UNSEEN_MOUNT
            volume = self.by_mount.get(mount) or self._generic(filesystem, mount, name)
        self.by_mount.setdefault(volume.mount, volume)
        if filesystem is not None and filesystem.device is not None:
            self.devices.setdefault(filesystem.device, volume.name)
        return volume.name

    def _known(self, path: str, filesystem: Filesystem | None) -> Volume | None:
        """The known volume with the deepest mount over the path, unless the host has a deeper."""
        holding = [
            volume
            for volume in self.known
            if PurePosixPath(path).is_relative_to(volume.mount)
            and (filesystem is None or len(volume.mount) >= len(filesystem.mount))
        ]
        if not holding:
            return None
        volume = max(holding, key=lambda volume: len(volume.mount))
        if filesystem is not None and volume.mount != filesystem.mount:
            self.warn(
                "not-a-mount",
                f"{volume.mount} of volume {volume.name} is a directory of {filesystem.mount}, "
                "not a filesystem of its own",
            )
        return volume

    def _generic(self, filesystem: Filesystem | None, mount: str, name: str) -> Volume:
        taken = {volume.name for volume in self.by_mount.values()}
        taken |= {volume.name for volume in self.known}
        name = _free_name(name, taken)
        kind = _generic_type(filesystem)
        self.warn(
            "volume-type-assumed",
            f"volume {name} at {mount} is taken for {kind}: what it is cannot be seen from here",
            "describe it in a layout file and pass that with --layout",
        )
        if filesystem is None:
            return Volume(name, kind, Bytes(self.unseen_bytes), mount, mount_options=())
        return Volume(
            name=name,
            type=kind,
            size_bytes=Bytes(max(1, filesystem.size_bytes)),
            mount=mount,
            filesystem=next((kind for kind in _FILESYSTEMS if kind == filesystem.kind), "ext4"),
            mount_options=tuple(o for o in filesystem.options if _OPTIONS.fullmatch(o)),
        )

    def warn(self, code: str, message: str, remedy: str = "") -> None:
        warning = Warning(code, message, remedy)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def add_idle(self) -> None:
        """Add the known volumes that hold nothing yet, where they are mounted or unseen."""
        seen = any(self.filesystems.values())
        for volume in self.known:
            if volume.mount in self.by_mount:
                continue
            if seen and not self.is_mount(volume.mount):
                self.warn(
                    "volume-not-mounted",
                    f"volume {volume.name} is left out: nothing is mounted at {volume.mount}",
                    "mount it, or take it out of the layout file",
                )
            else:
                self.by_mount[volume.mount] = volume


def present_layout(
    state: ServerState,
    filesystems: Mapping[str, Filesystem | None],
    given: Layout | None = None,
    emulated: tuple[Volume, ...] = (),
    is_mount: Callable[[str], bool] = lambda _: True,
) -> PresentLayout:
    """The server's present layout; ``filesystems`` maps its paths to filesystems seen here."""
    stored = sum(relation.size_bytes for relation in state.relations)
    unseen_bytes = max(GIB, stored * _FREE_SHARE_UNSEEN)
    volumes = _Volumes(_known_volumes(given, emulated), filesystems, is_mount, unseen_bytes)
    data = volumes.hold(state.data_directory, "data", _stated(given, lambda g: g.postgres.data))
    wal = data
    if state.wal_directory is not None:
        wal = volumes.hold(state.wal_directory, "wal", _stated(given, lambda g: g.postgres.wal))
    elif given is not None:  # what the user says is all there is
        wal = volumes.hold(given.volume(given.postgres.wal).mount, "wal")
    else:
        volumes.warn(
            "wal-directory-unseen",
            "where pg_wal is cannot be seen; it is taken to be on the data directory's volume",
            "run pgstow as the server's system user, or pass --layout",
        )
    spaces = _tablespaces(state, volumes, given)
    temp = _temp(state, {space.name: space.volume for space in spaces}, data)
    volumes.add_idle()
    layout = Layout(
        host=given.host if given else HostSpec(),
        volumes=tuple(volumes.by_mount.values()),
        postgres=Placement(data=data, wal=wal, temp=temp),
        tablespaces=spaces,
    )
    return PresentLayout(layout, volumes.devices, tuple(volumes.warnings))


def _known_volumes(given: Layout | None, emulated: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """The user's volumes, and the emulated ones that the user says nothing of."""
    known = list(given.volumes if given else ())
    for volume in emulated:
        if volume.mount not in {other.mount for other in known}:
            name = _free_name(volume.name, {other.name for other in known})
            known.append(replace(volume, name=name))
    return tuple(known)


def _stated(given: Layout | None, name: Callable[[Layout], str]) -> Volume | None:
    """The volume that the user's layout has for something."""
    return given.volume(name(given)) if given is not None else None


def _tablespaces(
    state: ServerState, volumes: _Volumes, given: Layout | None
) -> tuple[Tablespace, ...]:
    data_volume = _stated(given, lambda g: g.postgres.data)
    stated = {one.name: given.volume(one.volume) for one in given.tablespaces} if given else {}
    relations: dict[str, list[RelationId]] = {}
    for relation in state.relations:
        if relation.kind not in _TOAST:
            relations.setdefault(relation.tablespace, []).append(relation.id)
    return tuple(
        Tablespace(
            name=space.name,
            volume=volumes.hold(space.location, space.name, stated.get(space.name, data_volume)),
            relations=tuple(relations.get(space.name, ())),
            options=space.options,
            location=space.location,
        )
        for space in state.tablespaces
    )


def _temp(state: ServerState, volume_of: Mapping[str, str], data: str) -> tuple[str, ...]:
    """The volumes of temporary files; where temp_tablespaces names none, the data directory's."""
    names = split_identifiers(state.setting("temp_tablespaces") or "")
    found = dict.fromkeys(
        data if name in ("", DEFAULT_TABLESPACE) else volume_of.get(name, data) for name in names
    )
    return tuple(found) or (data,)


def split_identifiers(text: str) -> tuple[str, ...]:
    """Split a setting that lists identifiers, as the server does.

    >>> split_identifiers('fast, "odd, name", pg_default')
    ('fast', 'odd, name', 'pg_default')
    """
    found = re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', text)
    return tuple(plain or quoted.replace('""', '"') for quoted, plain in found)


def _generic_type(filesystem: Filesystem | None) -> str:
    if (
        filesystem is not None
        and filesystem.device is not None
        and filesystem.device.startswith("nvme")
    ):
        return "local-nvme"
    return "local-hdd" if filesystem is not None and filesystem.rotational else "local-ssd"


def _free_name(preferred: str, taken: set[str]) -> str:
    """A volume's name like ``preferred`` that nobody has."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", preferred).strip("-")[:24]
    if not stem or not stem[0].isalpha():
        stem = f"volume-{stem}".strip("-")
    names = [stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
