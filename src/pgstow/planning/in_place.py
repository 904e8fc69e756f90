"""What moving is worth: the same goal met with nothing moved, every volume changed in place."""

from dataclasses import replace

from pgstow.model import Profile, Reason
from pgstow.planning.changes import changes
from pgstow.planning.placement import NoSolution, is_small
from pgstow.planning.search import Found, Planner, cheapest
from pgstow.units import format_size


def why_moving(planner: Planner, found: Found, profile: Profile) -> tuple[Reason, ...]:
    """The reason for the moves of a plan; none where it has none, or they are limited already.

    With a budget, or with more relations than are placed exactly, it is not searched.
    """
    goal = planner.goal
    moves = changes(profile, found.layout, planner.catalog)
    is_limited = goal.max_move_bytes is not None or goal.budget_usd_month is not None
    if not moves.moves or is_limited or not is_small(found.problem):
        return ()
    count = sum(move.relations for move in moves.moves)
    parts = [f"{count:,} relation{'s' if count > 1 else ''}, {format_size(moves.moved_bytes)}"]
    parts = parts if count else []
    parts += ["pg_wal"] if any(move.what == "wal" for move in moves.moves) else []
    parts += ["temporary files"] if any(move.what == "temp" for move in moves.moves) else []
    choice, because = ", ".join(parts), "together with what is bought, the cheapest for the goal"
    still = cheapest(replace(planner, goal=replace(goal, max_move_bytes=0)), found.tps)
    if isinstance(still, NoSolution):
        nothing = "none: without moving, the goal is missed"
        if still is NoSolution.NOT_FOUND:
            nothing = "none was found without moving"
        return (Reason("moves", choice, because, nothing, None),)
    nothing = "nothing moved, volumes changed in place"
    return (Reason("moves", choice, because, nothing, max(0.0, still.usd_month - found.usd_month)),)
