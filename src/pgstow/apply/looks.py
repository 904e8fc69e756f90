"""How much of a step took effect: all, a part or nothing. Reads only; changes nothing."""

from collections.abc import Mapping
from typing import Any, Literal

from pgstow.apply import wal
from pgstow.apply.context import Context
from pgstow.model import HostError, LayoutError, RelationId, Step
from pgstow.postgres import facts

Effect = Literal["all", "part", "none"]
BEFORE = "before"  # among a step's facts: what a setting was


def effect(context: Context, step: Step, remembered: Mapping[str, Any]) -> Effect:
    """How much of a step took effect; ``remembered`` was noted when it was executed."""
    match step.kind:
        case "move index" | "move table":
            return "all" if is_moved(context, step) else "none"
        case "create tablespace" | "drop tablespace" | "alter tablespace":
            return _tablespace(context, step)
        case "set setting":
            return "all" if _own_value_is_there(context, step, step.argument("setting")) else "none"
        case "set temp tablespaces":
            return _temp_tablespaces(context, step, remembered)
        case "move wal":
            if wal.out_of_sight(context.state, step):
                raise HostError(
                    "where pg_wal is cannot be seen from here",
                    "run pgstow on the server's own machine, as root or as the server's user",
                )
            return "all" if wal.is_there(context.state.data_directory, step) else "none"


def relation_of(step: Step) -> RelationId:
    """The relation of a step that has one."""
    if step.relation is None:
        raise LayoutError(f"step {step.kind!r} of {step.subject} has no relation", "run diff again")
    return step.relation


def is_moved(context: Context, step: Step) -> bool:
    """Whether a relation is where a step is to bring it, and whole."""
    found = context.server.relation(relation_of(step))
    whole = found is not None and (found.is_valid or step.argument("method") == "catalog")
    return found is not None and found.tablespace == step.argument("to") and whole


def options(step: Step) -> tuple[dict[str, str], tuple[str, ...]]:
    """The tablespace options that a step puts, and those it resets."""
    put = {key[7:]: value for key, value in step.arguments if key.startswith("option.")}
    return put, tuple(key[6:] for key, _ in step.arguments if key.startswith("reset."))


def values(step: Step, name: str) -> tuple[str, ...]:
    """All arguments of one name."""
    return tuple(value for key, value in step.arguments if key == name)


def _tablespace(context: Context, step: Step) -> Effect:
    found = context.server.tablespace(step.subject)
    if step.kind == "drop tablespace":
        return "all" if found is None else "none"
    if found is None:
        return "none"
    location, present = found
    if step.kind == "create tablespace":
        return "all" if location == step.argument("location") else "none"
    put, reset = options(step)
    is_put = all(present.get(name) == value for name, value in put.items())
    return "all" if is_put and not present.keys() & set(reset) else "none"


def elsewhere(context: Context, step: Step) -> str:
    """That a tablespace is not the one that a step means, but for its name; empty: it is."""
    found = context.server.tablespace(step.subject)
    if found is None or found[0] == step.argument("location"):
        return ""
    return f"another tablespace {step.subject!r} is there by now, at {found[0]}"


def setting(context: Context, name: str) -> facts.SettingFacts:
    """The setting as it is now; refuses one that this version of the server does not have."""
    found = context.server.setting(name)
    if found is None:
        raise LayoutError(
            f"setting {name!r} does not exist in PostgreSQL {context.state.version}",
            "take it out of [postgres.settings]",
        )
    return found


def _own_value_is_there(context: Context, step: Step, name: str) -> bool:
    """Told by what ALTER SYSTEM wrote: the value in force may wait for a restart."""
    found = context.server.setting(name)
    if found is None:
        return False
    own = found.own_value
    if ("reset", "") in step.arguments:
        return own is None
    if step.kind == "set setting":
        return own == step.argument("value")
    return own == context.server.quoted_list(values(step, "tablespace"))


def _temp_tablespaces(context: Context, step: Step, remembered: Mapping[str, Any]) -> Effect:
    """A list of tablespaces in ALTER SYSTEM's file, and rights on them: two effects."""
    is_set = _own_value_is_there(context, step, "temp_tablespaces")
    granted = [n for n in values(step, "grant") if context.server.has_public_create(n)]
    kept = [n for n in values(step, "revoke") if context.server.has_public_create(n)]
    if is_set and len(granted) == len(values(step, "grant")) and not kept:
        return "all"
    before = remembered.get(BEFORE)
    if before is None:
        return "part"
    untouched = setting(context, "temp_tablespaces").own_value == before["own"]
    return "none" if untouched and not set(granted) & set(before["missing"]) else "part"
