"""What each kind of step does."""

from pgstow.apply import looks, moves, prechecks, wal
from pgstow.apply.context import Context
from pgstow.apply.looks import BEFORE
from pgstow.apply.values import Outcome
from pgstow.host import directories
from pgstow.model import LayoutError, ServerError, Step
from pgstow.workspace.journal import MADE, StepRecord

Pairs = tuple[tuple[str, str], ...]


def prepare(context: Context, step_id: int, step: Step, *, is_undo: bool) -> None:
    """Note what undo and a later inspection need, before the step counts as begun."""
    if step.kind == "move wal":
        wal.forget(context, step_id)
        if not is_undo:
            context.journal.remember_undo(step_id, wal.way_back(context, step))
    elif not is_undo and step.kind in ("set setting", "set temp tablespaces"):
        name = dict(step.arguments).get("setting", "temp_tablespaces")
        own = looks.setting(context, name).own_value
        missing = [
            space
            for space in looks.values(step, "grant")
            if not context.server.has_public_create(space)
        ]
        context.journal.remember(step_id, {BEFORE: {"own": own, "missing": missing}})
        context.journal.remember_undo(step_id, _way_back(step, own, missing))


def _way_back(step: Step, own: str | None, granted: list[str]) -> Pairs:
    """The arguments that restore what ALTER SYSTEM had set, and revoke the rights again."""
    if step.kind == "set setting":
        back = ("reset", "") if own is None else ("value", own)
        return (("setting", step.argument("setting")), back)
    names = tuple(pair for pair in step.undo_arguments if pair[0] == "tablespace")
    return (
        *(("revoke", name) for name in granted),
        *((("reset", ""),) if own is None else names),
    )


def execute(  # noqa: PLR0911  # one for each kind
    context: Context, step_id: int, step: Step, *, is_undo: bool
) -> Outcome:
    """Execute a step, or with ``is_undo`` the inverse of one."""
    match step.kind:
        case "move index" | "move table":
            return moves.move(context, step_id, step)
        case "create tablespace":
            return _create_tablespace(context, step_id, step)
        case "drop tablespace":
            return _drop_tablespace(context, step_id, step, is_undo=is_undo)
        case "alter tablespace":
            put, reset = looks.options(step)
            context.server.alter_tablespace(step.subject, put, reset)
            return Outcome(step, "done")
        case "set setting":
            return _set_setting(context, step)
        case "set temp tablespaces":
            return _set_temp_tablespaces(context, step)
        case "move wal":
            return wal.move(context, step_id, step)


def after_failure(context: Context, step: Step, effect: looks.Effect) -> None:
    """Bring to an end what may have stopped half way: a setting written, and not in force."""
    if step.kind in ("set setting", "set temp tablespaces") and effect != "none":
        context.server.reload()


def tidy(context: Context, record: StepRecord, effect: looks.Effect) -> tuple[str, ...]:
    """Remove the directories that were made for a tablespace that is not there (any more).

    Gives those that are in use, which stay.
    """
    if not context.state.is_local:
        return ()
    made: tuple[str, ...] = ()
    if record.step.kind == "create tablespace" and effect == "none":
        made = record.made
    elif record.step.kind == "drop tablespace" and effect == "all":
        known = context.journal.made_directories(context.state.system_identifier)
        location = record.step.argument("location")
        made = tuple(d for d in known if f"{location}/".startswith(f"{d}/"))
    return directories.remove_directories(made, context.world.disk)


def out_of_sight(context: Context, step: Step) -> str:
    """Why a step cannot be executed or inspected from this machine; empty: it can."""
    return wal.out_of_sight(context.state, step) if step.kind == "move wal" else ""


def _create_tablespace(context: Context, step_id: int, step: Step) -> Outcome:
    location = step.argument("location")
    found = context.server.tablespace(step.subject)
    if found is not None:
        raise LayoutError(
            f"tablespace {step.subject!r} exists by now, at {found[0]}", "run diff again"
        )
    if context.state.is_local:
        prechecks.check_directory(context, step)
        # Noted before they are made: a kill in between must not leave one that nobody knows.
        made = list(directories.missing_directories(location))
        known = list(context.journal.step(step_id).made)
        context.journal.remember(step_id, {MADE: [*known, *made]})
        directories.make_directory(location, context.state.data_directory, context.world.disk)
    put, _ = looks.options(step)
    context.server.create_tablespace(step.subject, location, put)
    return Outcome(step, "done")


def _drop_tablespace(context: Context, step_id: int, step: Step, *, is_undo: bool) -> Outcome:
    elsewhere = looks.elsewhere(context, step)
    if elsewhere:
        raise ServerError(elsewhere, "run diff again")
    try:
        context.server.drop_tablespace(step.subject)
    except ServerError as error:
        kept = context.server.tablespace_contents(step.subject)
        if not kept:
            raise
        more = f" and {len(kept) - 5} more" if len(kept) > 5 else ""
        has_files = any(what.startswith("file ") for what in kept)
        raise ServerError(
            f"tablespace {step.subject!r} is not empty: {', '.join(kept[:5])}{more}",
            "such a file is what PostgreSQL left of a copy that was killed: make sure that no "
            "server process works on it, remove it, then run it again"
            if has_files
            else "move or drop that, then run it again",
        ) from error
    # Taking a creation back, the record is the creation's, of which then nothing is there.
    left = tidy(context, context.journal.step(step_id), "none" if is_undo else "all")
    return Outcome(step, "done", note=f"{', '.join(left)} is in use and stays" if left else "")


def _set_setting(context: Context, step: Step) -> Outcome:
    name = step.argument("setting")
    before = looks.setting(context, name)
    if ("reset", "") in step.arguments:
        context.server.reset_setting(name)
    else:
        context.server.set_setting(name, step.argument("value"))
    waits = before.context == "postmaster"
    return Outcome(step, "done", note="takes effect at the server's next restart" if waits else "")


def _set_temp_tablespaces(context: Context, step: Step) -> Outcome:
    server = context.server
    for name in looks.values(step, "grant"):
        if not server.has_public_create(name):
            server.grant_create(name)
    if ("reset", "") in step.arguments:
        server.reset_setting("temp_tablespaces")
    else:
        server.set_temp_tablespaces(looks.values(step, "tablespace"))
    for name in looks.values(step, "revoke"):
        if server.tablespace(name) is not None:
            server.revoke_create(name)
    return Outcome(step, "done")
