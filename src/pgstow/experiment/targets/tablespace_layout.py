"""Which data are in which tablespace, whatever volumes the tablespaces are on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pgstow.host import directories
from pgstow.model.errors import UserError
from pgstow.model.profile import Relation
from pgstow.model.storage import Layout
from pgstow.postgres import changes, connect, read_state

_LOCK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TablespaceSpec:
    """A tablespace with what is in it. Relations are known by schema and name: an experiment has
    one database, whatever a layout calls it."""

    name: str
    relations: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    is_temporary: bool = False  # holds temporary files


def spaces(layout: Layout) -> tuple[TablespaceSpec, ...]:
    """The tablespaces that a layout needs: its own, and one for temporary files where needed."""
    return tuple(
        TablespaceSpec(
            space.name,
            tuple(sorted((relation.schema, relation.name) for relation in space.relations)),
            tuple(sorted(space.options)),
            is_temporary=space.volume in _temp_volumes(layout),
        )
        for space in layout.tablespaces
    ) + tuple(
        TablespaceSpec(f"temp_{volume}", (), (), is_temporary=True) for volume in _bare(layout)
    )


def volume_of(layout: Layout, space: str) -> str:
    """The volume that a tablespace is on."""
    own = {own.name: own.volume for own in layout.tablespaces}
    return own.get(space) or space.removeprefix("temp_")


def temp_tablespaces(layout: Layout) -> str | None:
    """The value of temp_tablespaces; None: temporary files are with the data."""
    names = [space.name for space in spaces(layout) if space.is_temporary]
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names) or None


def plain_name(space: str) -> str:
    """A tablespace's name as that of a directory.

    >>> plain_name("hot"), plain_name("a b")
    ('hot', 'a_20_b')
    """
    return re.sub(r"[^A-Za-z0-9-]", lambda odd: f"_{ord(odd[0]):x}_", space)


def _temp_volumes(layout: Layout) -> tuple[str, ...]:
    return tuple(name for name in layout.postgres.temp if name != layout.postgres.data)


def _bare(layout: Layout) -> list[str]:
    """Volumes of temporary files on which there is no tablespace."""
    used = {space.volume for space in layout.tablespaces}
    return [name for name in _temp_volumes(layout) if name not in used]


def arrange(dsn: str, specs: Iterable[TablespaceSpec], locations: dict[str, str]) -> None:
    """Make the tablespaces and move the relations, in a server that nobody else uses."""
    state = read_state(dsn)
    present = {(one.id.schema, one.id.name): one for one in state.relations}
    with connect(dsn, purpose="experiment") as connection:
        changes.prepare_session(connection, lock_timeout_s=_LOCK_TIMEOUT_S)
        for space in specs:
            location = locations[space.name]
            directories.make_directory(location, state.data_directory)
            changes.create_tablespace(connection, space.name, location, dict(space.options))
            if space.is_temporary:
                changes.grant_create(connection, space.name)
            for name in space.relations:
                found = _known(present, name, space)
                changes.copy_relation(connection, found.id, found.kind, space.name, lambda: None)


def _known(
    present: dict[tuple[str, str], Relation], name: tuple[str, str], space: TablespaceSpec
) -> Relation:
    found = present.get(name)
    if found is None:
        schema, _ = name
        others = ", ".join(sorted(own for known, own in present if known == schema))
        raise UserError(
            f"tablespace {space.name} is to hold relation {'.'.join(name)}, which the "
            "experiment's data do not have",
            f"they have {others}" if others else "see what the data's maker makes",
        )
    return found
