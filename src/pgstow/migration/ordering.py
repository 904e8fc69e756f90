"""Order the steps from the actual to the target layout so that every state between is legal.

Tablespaces come before what goes into them, whatever needs a restart last but for dropping what is
no longer used. What takes most load off the present volumes per second of its move moves first;
where no load is known, online moves come before those that block, and small ones first. The steps
of a migration that stopped half way are the steps that were left: planning again is how it resumes.
"""

from collections.abc import Mapping
from dataclasses import replace

from pgstow.migration import text
from pgstow.migration.estimates import Cost, Estimator, is_rebuilt
from pgstow.migration.pressure import Pressure
from pgstow.migration.settings import RESTART_SETTINGS, check_setting, same_value
from pgstow.migration.simulation import after
from pgstow.migration.targets import (
    is_under,
    needed_tablespaces,
    present_temp_tablespaces,
    relation_targets,
    temp_tablespaces,
    volume_at,
)
from pgstow.model import (
    DEFAULT_TABLESPACE,
    Layout,
    PartitionedRelation,
    Relation,
    RelationId,
    ServerState,
    Step,
    Tablespace,
    TablespaceState,
    Warning,
)
from pgstow.model.result import StepKind

_INVERSE_KIND: dict[StepKind, StepKind] = {
    "create tablespace": "drop tablespace",
    "drop tablespace": "create tablespace",
}


def steps(
    state: ServerState,
    present: Layout,
    target_layout: Layout,
    *,
    rates: Mapping[str, float] | None = None,
    prune: bool = False,
    made: frozenset[str] = frozenset(),
    pressure: Pressure | None = None,
) -> tuple[Step, ...]:
    """The steps from a server's state to a layout, in the order in which they are to be executed.

    ``rates`` are the volumes' limits in bytes per second by volume name, for the estimates;
    ``pressure`` is the load that goes on meanwhile, where it is known; ``made`` the tablespaces
    pgstow made, which ``prune`` drops where the layout does not need them any more (their relations
    go home first).
    """
    for setting, _ in target_layout.postgres.settings:
        check_setting(setting)
    spaces = needed_tablespaces(state, target_layout)
    needed = {space.name for space in spaces}
    discarded = frozenset(made - needed) if prune else frozenset()
    targets = relation_targets(state, target_layout, spaces, discarded)
    estimator = Estimator.of(state, present, target_layout, rates or {})
    planned = (
        *_create(state, target_layout, spaces),
        *_alter(state, spaces),
        *_parents(state, targets),
        *_moves(state, targets, estimator, pressure or Pressure()),
        *_temp(state, target_layout, spaces),
        *_settings(state, target_layout),
        *_wal(state, present, target_layout, estimator),
    )
    reached = state
    for step in planned:
        reached = after(reached, step)
    return (*planned, *_drop(reached, discarded))


def inverse(step: Step) -> Step:
    """The step that takes a step back."""
    return replace(
        step,
        kind=_INVERSE_KIND.get(step.kind, step.kind),
        action=step.undo,
        undo=step.action,
        arguments=step.undo_arguments,
        undo_arguments=step.arguments,
    )


def drop_is_safe(state: ServerState, tablespace: str) -> bool:
    """Whether a tablespace holds nothing known and gets no temporary files."""
    used = any(relation.tablespace == tablespace for relation in state.relations)
    used = used or any(parent.tablespace == tablespace for parent in state.partitioned)
    return not used and tablespace not in present_temp_tablespaces(state)


def remarks(
    state: ServerState, target_layout: Layout, planned_steps: tuple[Step, ...]
) -> tuple[Warning, ...]:
    """Warnings about a migration beside its steps."""
    found: list[Warning] = []
    data_volume = target_layout.volume(target_layout.postgres.data)
    if not is_under(state.data_directory, data_volume.mount):
        found.append(
            Warning(
                "data-directory-elsewhere",
                f"the data directory {state.data_directory} is not on volume {data_volume.name} "
                f"({data_volume.mount}), and pgstow does not move data directories",
                "what the layout does not name stays where the data directory is",
            )
        )
    created = [
        step.argument("location") for step in planned_steps if step.kind == "create tablespace"
    ]
    if created:
        found.append(
            Warning(
                "base-backup",
                "a backup made before CREATE TABLESPACE cannot be rolled forward across it on "
                "another machine without the tablespace's directory",
                "take a new base backup when apply has finished",
            )
        )
    if created and state.standbys:
        found.append(
            Warning(
                "standby-directories",
                f"{state.standbys} standby server(s) replay CREATE TABLESPACE and stop where the "
                "directory is missing",
                f"first create {', '.join(created)} on each of them, owned by its server's user",
            )
        )
    return tuple(found)


def _create(
    state: ServerState, target_layout: Layout, spaces: tuple[Tablespace, ...]
) -> list[Step]:
    present = {space.name for space in state.tablespaces}
    return [
        _create_step(space, target_layout.volume(space.volume).mount)
        for space in spaces
        if space.name not in present
    ]


def _create_step(space: Tablespace, mount: str) -> Step:
    location = space.location or ""
    arguments = (
        ("tablespace", space.name),
        ("location", location),
        ("mount", mount),
        *((f"option.{key}", value) for key, value in space.options),
    )
    return Step(
        kind="create tablespace",
        subject=space.name,
        action=text.create_tablespace(space.name, location, space.options),
        undo=f"DROP TABLESPACE {text.name(space.name)}",
        lock="none",
        bytes=0,
        wal_bytes=0,
        seconds=0.1,
        arguments=arguments,
        undo_arguments=arguments,
    )


def _alter(state: ServerState, spaces: tuple[Tablespace, ...]) -> list[Step]:
    present = {space.name: space for space in state.tablespaces}
    return [
        _alter_step(present[space.name], space)
        for space in spaces
        if space.name in present and not _same_options(present[space.name], space)
    ]


def _same_options(present: TablespaceState, target_space: Tablespace) -> bool:
    one, other = dict(present.options), dict(target_space.options)
    return one.keys() == other.keys() and all(_same_option(one[key], other[key]) for key in one)


def _same_option(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _alter_step(present: TablespaceState, target_space: Tablespace) -> Step:
    def change(old: dict[str, str], new: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        put = {key: new[key] for key in new if not _same_option(old.get(key, ""), new[key])}
        reset = [key for key in old if key not in new]
        clauses = [f"SET ({text.options(tuple(put.items()))})"] if put else []
        clauses += [f"RESET ({', '.join(reset)})"] if reset else []
        sql = "; ".join(
            f"ALTER TABLESPACE {text.name(target_space.name)} {clause}" for clause in clauses
        )
        pairs = (
            ("tablespace", target_space.name),
            *((f"option.{key}", value) for key, value in put.items()),
            *((f"reset.{key}", "") for key in reset),
        )
        return sql, pairs

    old, new = dict(present.options), dict(target_space.options)
    action, arguments = change(old, new)
    undo, undo_arguments = change(new, old)
    return Step(
        kind="alter tablespace",
        subject=target_space.name,
        action=action,
        undo=undo,
        lock="none",
        bytes=0,
        wal_bytes=0,
        seconds=0.1,
        arguments=arguments,
        undo_arguments=undo_arguments,
    )


def _moves(
    state: ServerState, targets: dict[RelationId, str], estimator: Estimator, pressure: Pressure
) -> list[Step]:
    """Moves to other volumes, then those back to pg_default: so the data volume has room for these.

    In each group the first is the move that takes most requests off its volume per second it
    lasts; then come online moves, then small ones. A step's time beside the load supposes that
    the steps before it have moved their load away.
    """
    moving = [r for r in state.relations if targets.get(r.id, r.tablespace) != r.tablespace]

    def urgency(relation: Relation) -> tuple[bool, float, bool, int, RelationId]:
        target, requests = targets[relation.id], pressure.requests.get(relation.id, 0.0)
        relief = requests / estimator.move(relation, target).seconds
        is_copied = relation.kind != "index"
        return target == DEFAULT_TABLESPACE, -relief, is_copied, relation.size_bytes, relation.id

    found = []
    for relation in sorted(moving, key=urgency):
        target = targets[relation.id]
        step = _move(relation, target, estimator)
        if pressure.traffic:
            slower = estimator.beside(pressure).move(relation, target).seconds
            step = replace(step, seconds_loaded=max(slower, step.seconds))
        found.append(step)
        pressure = pressure.after(relation.id)
    return found


def _move(relation: Relation, target: str, estimator: Estimator) -> Step:
    cost = estimator.move(relation, target)
    rebuilds = is_rebuilt(relation)
    if rebuilds:
        action, undo = (text.reindex(relation.id, t) for t in (target, relation.tablespace))
        lock = text.reindex_lock(relation)
    else:
        action, undo = (
            text.set_tablespace(relation.id, relation.kind, t)
            for t in (target, relation.tablespace)
        )
        lock = text.copy_lock(relation, cost.seconds)
    method = (("method", "reindex" if rebuilds else "copy"), ("relation kind", relation.kind))
    return Step(
        kind="move index" if relation.kind == "index" else "move table",
        subject=str(relation.id),
        action=action,
        undo=undo,
        lock=lock,
        bytes=cost.bytes,
        wal_bytes=cost.wal_bytes,
        seconds=cost.seconds,
        database=relation.id.database,
        relation=relation.id,
        arguments=(("from", relation.tablespace), ("to", target), *method),
        undo_arguments=(("from", target), ("to", relation.tablespace), *method),
    )


def _parents(state: ServerState, targets: dict[RelationId, str]) -> list[Step]:
    """Partitioned tables and indexes: nothing is copied, but new partitions are made there.

    They come before their partitions: one that is made meanwhile is placed right at once.
    """
    return [
        _parent(parent, targets[parent.id])
        for parent in sorted(state.partitioned, key=lambda p: (p.kind, p.id))
        if targets.get(parent.id, parent.tablespace) != parent.tablespace
    ]


def _parent(parent: PartitionedRelation, target: str) -> Step:
    action, undo = (
        text.set_tablespace(parent.id, parent.kind, space) for space in (target, parent.tablespace)
    )
    rest = (("method", "catalog"), ("relation kind", parent.kind))
    return Step(
        kind="move index" if parent.kind == "index" else "move table",
        subject=str(parent.id),
        action=action,
        undo=undo,
        lock=f"ACCESS EXCLUSIVE on {parent.id} for an instant: nothing is copied",
        bytes=0,
        wal_bytes=0,
        seconds=0.1,
        database=parent.id.database,
        relation=parent.id,
        arguments=(("from", parent.tablespace), ("to", target), *rest),
        undo_arguments=(("from", target), ("to", parent.tablespace), *rest),
    )


def _temp(state: ServerState, target_layout: Layout, spaces: tuple[Tablespace, ...]) -> list[Step]:
    names = temp_tablespaces(target_layout, spaces)
    present = present_temp_tablespaces(state)
    if names is None or names == present:
        return []

    def sql(value: tuple[str, ...]) -> str:
        listed = ", ".join(text.name(name) for name in value) or "''"
        grants = [f"GRANT CREATE ON TABLESPACE {text.name(n)} TO PUBLIC" for n in value]
        granted = [grant for grant, n in zip(grants, value, strict=True) if n != DEFAULT_TABLESPACE]
        return "; ".join((f"ALTER SYSTEM SET temp_tablespaces = {listed}", *granted))

    back = ", ".join(map(text.name, present)) or "''"
    return [
        Step(
            kind="set temp tablespaces",
            subject="temp_tablespaces",
            action=sql(names),
            undo=f"ALTER SYSTEM SET temp_tablespaces = {back}",
            lock="none",
            bytes=0,
            wal_bytes=0,
            seconds=0.1,
            arguments=(
                *(("tablespace", name) for name in names),
                *(("grant", name) for name in names if name != DEFAULT_TABLESPACE),
            ),
            undo_arguments=tuple(("tablespace", name) for name in present),
        )
    ]


def _settings(state: ServerState, target_layout: Layout) -> list[Step]:
    found = []
    for setting, value in target_layout.postgres.settings:
        present = state.setting(setting)
        if present is None or not same_value(setting, present, value):
            found.append(_setting_step(setting, present, value))
    return found


def _setting_step(setting: str, present: str | None, value: str) -> Step:
    undo, undo_arguments = f"ALTER SYSTEM RESET {setting}", (("setting", setting), ("reset", ""))
    if present is not None:
        undo = (
            f"ALTER SYSTEM SET {setting} = {text.literal(present)}, or RESET if it was not set so"
        )
        undo_arguments = (("setting", setting), ("value", present))
    restart = setting in RESTART_SETTINGS
    return Step(
        kind="set setting",
        subject=setting,
        action=f"ALTER SYSTEM SET {setting} = {text.literal(value)}",
        undo=undo,
        lock="none; takes effect at the server's next restart" if restart else "none",
        bytes=0,
        wal_bytes=0,
        seconds=0.1,
        arguments=(("setting", setting), ("value", value)),
        undo_arguments=undo_arguments,
        needs_restart=restart,
    )


def _wal(
    state: ServerState, present: Layout, target_layout: Layout, estimator: Estimator
) -> list[Step]:
    inside = f"{state.data_directory.rstrip('/')}/pg_wal"
    volume = target_layout.volume(target_layout.postgres.wal)
    is_inside = target_layout.postgres.wal == target_layout.postgres.data
    directory = inside if is_inside else f"{volume.mount.rstrip('/')}/pg_wal"
    actual = state.wal_directory
    if actual is None:
        before = present.volume(present.postgres.wal)
        if before.mount == volume.mount or before.name == volume.name:
            return []
        actual = f"{before.mount.rstrip('/')}/pg_wal"
        if present.postgres.wal == present.postgres.data:
            actual = inside
    elif volume_at(target_layout, actual) == volume.name or actual == directory:
        return []
    cost = estimator.wal_move(present.postgres.wal, target_layout.postgres.wal)
    return [_wal_step(actual, directory, volume.mount, cost)]


def _wal_step(actual: str, directory: str, mount: str, cost: Cost) -> Step:
    return Step(
        kind="move wal",
        subject="pg_wal",
        action=f"stop the server, move {actual} to {directory}, start the server",
        undo=f"stop the server, move {directory} to {actual}, start the server",
        lock="server restart",
        bytes=cost.bytes,
        wal_bytes=0,
        seconds=cost.seconds,
        arguments=(("from", actual), ("to", directory), ("mount", mount)),
        undo_arguments=(("from", directory), ("to", actual), ("mount", "")),
        needs_restart=True,
    )


def _drop(reached: ServerState, discarded: frozenset[str]) -> list[Step]:
    found = []
    for space in sorted(reached.tablespaces, key=lambda s: s.name):
        if space.name in discarded and drop_is_safe(reached, space.name):
            created = _create_step(
                Tablespace(space.name, "", options=space.options, location=space.location), ""
            )
            found.append(inverse(created))
    return found
