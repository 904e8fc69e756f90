"""What each kind of step does, and whether the world already shows its effect."""

from collections.abc import Mapping
from typing import Any

from pgstow.apply import moves, prechecks, wal
from pgstow.apply.context import Context
from pgstow.apply.values import Outcome
from pgstow.host import directories
from pgstow.model import LayoutError, Step
from pgstow.postgres import changes, facts

Pairs = tuple[tuple[str, str], ...]


def took_effect(context: Context, step: Step) -> bool:
    """Whether the server is as it would be after the step."""
    match step.kind:
        case "move index" | "move table":
            assert step.relation is not None
            session = context.sessions.to_watch(step.relation.database)
            found = facts.relation_facts(session, step.relation)
            return found is not None and found.tablespace == step.argument("to") and found.is_valid
        case "create tablespace" | "drop tablespace" | "alter tablespace":
            return _tablespace_took_effect(context, step)
        case "set setting" | "set temp tablespaces":
            return _setting_took_effect(context, step)
        case "move wal":
            state = context.state
            return state.is_local and wal.is_there(state.data_directory, step)


def take(  # noqa: PLR0911  # one for each kind
    context: Context, step_id: int, step: Step, remembered: Mapping[str, Any] | None = None
) -> Outcome:
    """Take a step, or take one back: then ``remembered`` is what was noted when it was taken."""
    match step.kind:
        case "move index" | "move table":
            return moves.move(context, step_id, step)
        case "create tablespace":
            return _create_tablespace(context, step_id, step)
        case "drop tablespace":
            changes.drop_tablespace(context.sessions.to_change(), step.subject)
            if context.state.is_local and (remembered or {}).get("made"):
                directories.remove_empty_directory(step.argument("location"))
            return Outcome(step, "done")
        case "alter tablespace":
            put, reset = _options(step)
            changes.alter_tablespace(context.sessions.to_change(), step.subject, put, tuple(reset))
            return Outcome(step, "done")
        case "set setting":
            return _set_setting(context, step_id if remembered is None else None, step)
        case "set temp tablespaces":
            return _set_temp_tablespaces(context, step_id if remembered is None else None, step)
        case "move wal":
            return wal.move(context, step_id, step)


def _create_tablespace(context: Context, step_id: int, step: Step) -> Outcome:
    session, location = context.sessions.to_change(), step.argument("location")
    put, _ = _options(step)
    made = False
    if context.state.is_local:
        prechecks.check_directory(context, step)
        made = directories.make_directory(location, context.state.data_directory)
        context.journal.remember(step_id, {"made": made})
    try:
        changes.create_tablespace(session, step.subject, location, put)
    except BaseException:
        if made:
            directories.remove_empty_directory(location)
        raise
    return Outcome(step, "done")


def _set_setting(context: Context, step_id: int | None, step: Step) -> Outcome:
    name, session = step.argument("setting"), context.sessions.to_change()
    before = prechecks.check_setting(context, name)
    own = before.own_value
    back: Pairs = (("setting", name), ("reset", "") if own is None else ("value", own))
    if step_id is not None:
        context.journal.remember_undo(step_id, back)
    if ("reset", "") in step.arguments:
        changes.reset_setting(session, name)
    else:
        changes.set_setting(session, name, step.argument("value"))
    waits = before.context == "postmaster"
    return Outcome(step, "done", note="takes effect at the server's next restart" if waits else "")


def _set_temp_tablespaces(context: Context, step_id: int | None, step: Step) -> Outcome:
    session = context.sessions.to_change()
    before = facts.setting_facts(session, "temp_tablespaces")
    new = [name for name in _values(step, "grant") if not facts.has_public_create(session, name)]
    back: Pairs = tuple(("revoke", name) for name in new)
    if before is None or before.own_value is None:
        back = (*back, ("reset", ""))
    else:
        back = (*back, *(pair for pair in step.undo_arguments if pair[0] == "tablespace"))
    if step_id is not None:
        context.journal.remember_undo(step_id, back)
    for name in new:
        changes.grant_create(session, name)
    if ("reset", "") in step.arguments:
        changes.reset_setting(session, "temp_tablespaces")
    else:
        changes.set_temp_tablespaces(session, _values(step, "tablespace"))
    for name in _values(step, "revoke"):
        changes.revoke_create(session, name)
    return Outcome(step, "done")


def _tablespace_took_effect(context: Context, step: Step) -> bool:
    found = facts.tablespace_facts(context.sessions.to_watch(), step.subject)
    if step.kind == "drop tablespace" or found is None:
        return step.kind == "drop tablespace" and found is None
    location, options = found
    if step.kind == "create tablespace":
        if location != step.argument("location"):
            raise LayoutError(
                f"tablespace {step.subject!r} exists by now, at {location}", "run diff again"
            )
        return True
    put, reset = _options(step)
    return all(options.get(name) == value for name, value in put.items()) and not (
        reset & options.keys()
    )


def _setting_took_effect(context: Context, step: Step) -> bool:
    """Told by what ALTER SYSTEM wrote: the value in force may wait for a restart."""
    name = dict(step.arguments).get("setting", "temp_tablespaces")
    found = facts.setting_facts(context.sessions.to_watch(), name)
    if found is None:
        return False
    if ("reset", "") in step.arguments:
        return found.own_value is None
    if step.kind == "set setting":
        return found.own_value == step.argument("value")
    return found.own_value == facts.quoted_list(
        context.sessions.to_watch(), _values(step, "tablespace")
    )


def _options(step: Step) -> tuple[dict[str, str], set[str]]:
    put = {key[7:]: value for key, value in step.arguments if key.startswith("option.")}
    return put, {key[6:] for key, _ in step.arguments if key.startswith("reset.")}


def _values(step: Step, name: str) -> tuple[str, ...]:
    return tuple(value for key, value in step.arguments if key == name)
