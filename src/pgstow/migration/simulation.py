"""The state of a server after a step, derived without a server."""

from dataclasses import replace

from pgstow.model import LayoutError, ServerState, Step, TablespaceState


def after(state: ServerState, step: Step) -> ServerState:
    """The state after a step; an error where the step is not legal in that state."""
    match step.kind:
        case "create tablespace" | "drop tablespace" | "alter tablespace":
            return _tablespace(state, step)
        case "move index" | "move table":
            return _move(state, step)
        case "set setting":
            settings = dict(state.settings)
            settings.pop(step.argument("setting"), None)
            if ("reset", "") not in step.arguments:
                settings[step.argument("setting")] = step.argument("value")
            return replace(state, settings=tuple(settings.items()))
        case "set temp tablespaces":
            names = [value for key, value in step.arguments if key == "tablespace"]
            known = {space.name for space in state.tablespaces} | {"pg_default"}
            _require(set(names) <= known, f"{set(names) - known} must exist before it is used")
            quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
            settings = dict(state.settings) | {"temp_tablespaces": quoted}
            return replace(state, settings=tuple(settings.items()))
        case "move wal":
            return replace(state, wal_directory=step.argument("to"))


def _tablespace(state: ServerState, step: Step) -> ServerState:
    name = step.argument("tablespace")
    spaces = {space.name: space for space in state.tablespaces}
    put = {key[7:]: value for key, value in step.arguments if key.startswith("option.")}
    reset = {key[6:] for key, _ in step.arguments if key.startswith("reset.")}
    if step.kind == "create tablespace":
        _require(name not in spaces, f"{name} exists already")
        spaces[name] = TablespaceState(name, step.argument("location"), tuple(put.items()))
    else:
        _require(name in spaces, f"{name} must exist before it is changed")
        old = spaces.pop(name)
        if step.kind == "alter tablespace":
            options = {k: v for k, v in (dict(old.options) | put).items() if k not in reset}
            spaces[name] = replace(old, options=tuple(options.items()))
        else:
            used = {r.tablespace for r in state.relations}
            used |= {p.tablespace for p in state.partitioned}
            _require(name not in used, f"{name} is in use")
    return replace(state, tablespaces=tuple(spaces.values()))


def _move(state: ServerState, step: Step) -> ServerState:
    source, target = step.argument("from"), step.argument("to")
    known = {space.name for space in state.tablespaces} | {"pg_default"}
    _require(target in known, f"{target} must exist before it is used")
    toast = {r.id for r in state.relations if r.kind == "toast" and r.table == step.relation}
    relations = []
    for relation in state.relations:
        carried = relation.kind in ("toast", "toast index") and (
            relation.table == step.relation or relation.table in toast
        )
        if relation.id == step.relation:
            _require(relation.tablespace == source, f"{relation.id} is not in {source}")
        if relation.id == step.relation or carried:
            relation = replace(relation, tablespace=target)  # noqa: PLW2901
        relations.append(relation)
    partitioned = tuple(
        replace(parent, tablespace=target) if parent.id == step.relation else parent
        for parent in state.partitioned
    )
    return replace(state, relations=tuple(relations), partitioned=partitioned)


def _require(is_legal: bool, rule: str) -> None:
    if not is_legal:
        raise LayoutError(f"the steps are not legal in this order: {rule}", "run diff again")
