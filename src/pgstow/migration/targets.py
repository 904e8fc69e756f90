"""The target: the tablespaces a layout needs and the tablespace of each relation."""

import difflib
import hashlib
import re
from dataclasses import replace

from pgstow.migration.settings import split_names
from pgstow.model import (
    DEFAULT_TABLESPACE,
    Layout,
    LayoutError,
    Relation,
    RelationId,
    ServerState,
    Tablespace,
)
from pgstow.model.storage import canonical

_SYSTEM_SCHEMAS = frozenset({"pg_catalog", "information_schema"})
_TOAST_KINDS = frozenset({"toast", "toast index"})
_LEFTOVER = re.compile(r"_cc(new|old)[0-9]*$")


def location_on(mount: str, name: str) -> str:
    """The directory of a tablespace on a volume; an odd name becomes a plain one.

    >>> location_on("/mnt/fast", "hot"), location_on("/", "a/../b")
    ('/mnt/fast/hot', '/a____b-900ea8')
    """
    plain = name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        plain = f"{re.sub('[^A-Za-z0-9_]', '_', name)[:40]}-{digest}"
    return f"{mount.rstrip('/')}/{plain}"


def is_under(path: str, directory: str) -> bool:
    """Whether a path is a directory or in it.

    >>> is_under("/mnt/a/b", "/mnt/a"), is_under("/mnt/ab", "/mnt/a"), is_under("/x", "/")
    (True, False, True)
    """
    directory = directory.rstrip("/")
    return path.rstrip("/") == directory or path.startswith(f"{directory}/")


def volume_at(layout: Layout, path: str) -> str | None:
    """The volume a path is on: the one with the longest mount above it."""
    above = [volume for volume in layout.volumes if is_under(path, volume.mount)]
    return max(above, key=lambda volume: len(volume.mount.rstrip("/"))).name if above else None


def needed_tablespaces(state: ServerState, target_layout: Layout) -> tuple[Tablespace, ...]:
    """The layout's tablespaces with their directories, and one for temporary files where needed."""
    spaces = list(target_layout.tablespaces)
    for volume in temp_volumes(target_layout):
        if not any(space.volume == volume for space in spaces):
            spaces.append(Tablespace(name=f"temp_{volume}", volume=volume))
    located = []
    for space in spaces:
        present = next((t for t in state.tablespaces if t.name == space.name), None)
        mount = target_layout.volume(space.volume).mount
        location = canonical(space.location) if space.location else location_on(mount, space.name)
        if present is not None and present.location != location:
            if space.location or volume_at(target_layout, present.location) != space.volume:
                raise LayoutError(
                    f"tablespace {space.name!r} is at {present.location}, not at {location} on "
                    f"volume {space.volume}",
                    "a tablespace cannot change its directory: give the new one another name",
                )
            location = present.location
        located.append(replace(space, location=location))
    return tuple(located)


def temp_volumes(target_layout: Layout) -> tuple[str, ...]:
    """Volumes of temporary files, apart from that of the data directory."""
    return tuple(
        name for name in target_layout.postgres.temp if name != target_layout.postgres.data
    )


def temp_tablespaces(
    target_layout: Layout, spaces: tuple[Tablespace, ...]
) -> tuple[str, ...] | None:
    """The names temp_tablespaces is to have; None: the layout does not say.

    On each volume, a tablespace without relations is preferred to one with.
    """
    if not target_layout.postgres.temp:
        return None
    names = []
    for volume in target_layout.postgres.temp:
        if volume == target_layout.postgres.data:
            names.append(DEFAULT_TABLESPACE)
            continue
        on_it = [space for space in spaces if space.volume == volume]
        names.append(min(on_it, key=lambda space: bool(space.relations)).name)
        if "\n" in names[-1]:
            raise LayoutError(
                f"tablespace {names[-1]!r} cannot hold temporary files: ALTER SYSTEM refuses a "
                "newline in a value",
                "name the tablespace without one",
            )
    return () if names == [DEFAULT_TABLESPACE] else tuple(names)


def present_temp_tablespaces(state: ServerState) -> tuple[str, ...]:
    """The names temp_tablespaces has."""
    names = split_names(state.setting("temp_tablespaces") or "")
    return () if names == (DEFAULT_TABLESPACE,) else names


def relation_targets(
    state: ServerState,
    target_layout: Layout,
    spaces: tuple[Tablespace, ...],
    discarded: frozenset[str],
) -> dict[RelationId, str]:
    """The tablespace of every relation that the layout places.

    A partitioned one has no file: its tablespace is where new partitions are made.

    A relation the layout does not name goes back to pg_default only from a tablespace that the
    layout lists (there the layout says what is in it) or from one that is to be dropped. In any
    other tablespace it is left alone: nobody asked pgstow about it. TOAST follows its table, and
    an index that a failed REINDEX CONCURRENTLY left behind is not moved.
    """
    known = {relation.id: relation for relation in state.relations}
    named = _named(state, spaces, known)
    listed = {space.name for space in target_layout.tablespaces} | discarded
    targets: dict[RelationId, str] = {}
    for relation in state.relations:
        if relation.kind in _TOAST_KINDS or relation.id.schema in _SYSTEM_SCHEMAS:
            continue
        target = _nearest(named, (relation.id, *relation.lineage))
        if target is not None:
            targets[relation.id] = target
        elif relation.tablespace in listed and not _LEFTOVER.search(relation.id.name):
            targets[relation.id] = DEFAULT_TABLESPACE
    for parent in state.partitioned:
        target = _nearest(named, (parent.id, *parent.lineage))
        if target is not None:
            targets[parent.id] = target
        elif parent.tablespace in listed:
            targets[parent.id] = DEFAULT_TABLESPACE
    _check_toast(known, named, targets)
    return targets


def _nearest(named: dict[RelationId, str], lineage: tuple[RelationId, ...]) -> str | None:
    """What the layout says of a relation, or else of the nearest that it is a part of."""
    return next((named[name] for name in lineage if name in named), None)


def _named(
    state: ServerState, spaces: tuple[Tablespace, ...], known: dict[RelationId, Relation]
) -> dict[RelationId, str]:
    """Relations by the name the layout gives; a partitioned one stands for all of its parts."""
    named = {relation: space.name for space in spaces for relation in space.relations}
    parents = {parent.id for parent in state.partitioned}
    parents |= {name for relation in state.relations for name in relation.lineage}
    for relation_id, space_name in named.items():
        if relation_id.schema in _SYSTEM_SCHEMAS:
            raise LayoutError(
                f"relation {relation_id} is PostgreSQL's own and cannot be moved",
                f"take it out of tablespaces.{space_name}.relations",
            )
        if relation_id not in known and relation_id not in parents:
            raise _unknown(relation_id, space_name, known)
    return named


def _unknown(
    relation: RelationId, space_name: str, known: dict[RelationId, Relation]
) -> LayoutError:
    close = difflib.get_close_matches(
        str(relation), [str(r.id) for r in known.values() if r.kind not in _TOAST_KINDS], n=3
    )
    hint = f"did you mean {' or '.join(close)}?" if close else "name one that the server has"
    return LayoutError(
        f"tablespaces.{space_name}.relations names {relation}, which the server does not have",
        hint,
    )


def _check_toast(
    known: dict[RelationId, Relation], named: dict[RelationId, str], targets: dict[RelationId, str]
) -> None:
    for relation_id, space_name in named.items():
        relation = known.get(relation_id)
        if relation is None or relation.kind not in _TOAST_KINDS or relation.table is None:
            continue
        owner = known.get(relation.table)
        if owner is not None and owner.kind == "toast" and owner.table is not None:
            owner = known.get(owner.table)
        if owner is None or targets.get(owner.id, owner.tablespace) != space_name:
            raise LayoutError(
                f"{relation_id} is a TOAST relation and is stored with its table",
                f"name {owner.id if owner else 'its table'} instead",
            )
