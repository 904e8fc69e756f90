"""What of a workspace belongs together: profile, plan, applied layout, profile afterwards."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from pgstow.cli.profiles import chosen_entry, profile_of

if TYPE_CHECKING:
    from pgstow.model import Layout, Measurement, Plan
    from pgstow.workspace import Entry, RunRecord
    from pgstow.workspace import Workspace as Store

_NEVER = "9999"
_ROUNDING = timedelta(seconds=2)  # of the times that profiles and steps are written with


@dataclass(frozen=True, slots=True)
class Applied:
    """A run of apply that changed the server, with its target layout where that is known."""

    run: "RunRecord"
    began_at: str
    ended_at: str
    layout: "Layout | None"


@dataclass(frozen=True, slots=True)
class Loop:
    """One cycle of the loop; each part may be missing.

    ``before`` precedes in time what changed the server, ``after`` was begun when that had ended.
    ``plan`` is what was applied, or what is there to apply.
    """

    before: "Entry | None"
    after: "Entry | None"
    plan: "Plan | None"
    applied: Applied | None


def loop_of(store: "Store", before: str | None = None, after: str | None = None) -> Loop:
    """The last cycle of the loop; the profiles before and after can be chosen."""
    entries = store.list("profile")
    server = profile_of(store, entries[-1]).server.system_identifier if entries else None
    applied = last_applied(store, server)
    plans = _plans(store)
    newest = plans[-1] if plans else None
    if applied is not None and (newest is None or newest[0].created_at < applied.began_at):
        cut, end = applied.began_at, applied.ended_at
        plan = _of_layout(plans, applied.layout)
    elif newest is not None:
        applied, (entry, plan) = None, newest
        cut = end = entry.created_at
    else:
        applied, plan = None, None
        cut, end = _cut_by_measurement(store)
    found_before = chosen_entry(store, before) if before else None
    found_after = chosen_entry(store, after) if after else None
    if before is None:
        older = (e for e in reversed(entries) if _is_before(store, e, cut, applied))
        found_before = next(older, None)
    if after is None:
        newer = (e for e in reversed(entries) if _is_after(store, e, end, applied))
        found_after = next(newer, None)
    return Loop(found_before, found_after, plan, applied)


def _is_before(store: "Store", entry: "Entry", cut: str, applied: Applied | None) -> bool:
    """Whether a profile was over when the server was changed; a merged one counts by its parts."""
    if applied is None:
        return entry.created_at < cut
    profile = profile_of(store, entry)
    ended = datetime.fromisoformat(profile.started_at) + timedelta(seconds=profile.seconds)
    same = profile.server.system_identifier == applied.run.server
    return same and ended <= datetime.fromisoformat(cut) + _ROUNDING


def _is_after(store: "Store", entry: "Entry", end: str, applied: Applied | None) -> bool:
    if applied is None:  # the plan may have been carried out by hand, and verify was told so
        return entry.created_at > end and measured_with(store, entry) is not None
    profile = profile_of(store, entry)
    same = profile.server.system_identifier == applied.run.server
    return same and profile.started_at[:19] >= end[:19]


def last_applied(store: "Store", server: str | None) -> Applied | None:
    """The last run of apply on a server that changed it and was not reverted."""
    run = store.journal.last_undoable(server) if server else store.journal.last_of_all()
    if run is None or run.status == "undone":
        return None
    executed = store.journal.in_effect(run.id)
    if not executed:
        return None
    began = min((r.started_at for r in executed if r.started_at), default=run.started_at)
    ends = [r.finished_at or r.started_at for r in executed]
    ended = max((end for end in ends if end), default=run.finished_at or run.started_at)
    return Applied(run, began, ended, _layout_of(store, run.layout))


def measured_with(store: "Store", profile: "Entry") -> "Measurement | None":
    """The measurement that was made of a profile: the one stored after it, before the next."""
    from pgstow.model import Measurement

    following = [e for e in store.list() if e.id > profile.id]
    for entry in following:
        if entry.kind == "profile":
            return None
        if entry.kind == "measurement":
            return store.get("measurement", entry.id, Measurement)
    return None


def remember_layout(store: "Store", target_layout: "Layout") -> None:
    """Keep the layout that is being applied, for verify and the report."""
    from pgstow.layout_file import layout_digest

    digest = layout_digest(target_layout)
    if all(entry.name != digest for entry in store.list("layout")):
        store.add("layout", target_layout, digest)


def _layout_of(store: "Store", digest: str) -> "Layout | None":
    from pgstow.layout_file import layout_digest
    from pgstow.model import Layout

    kept = next((entry for entry in store.list("layout") if entry.name == digest), None)
    if kept is not None:
        return store.get("layout", kept.id, Layout)
    layouts = (plan.layout for _, plan in reversed(_plans(store)))
    return next((one for one in layouts if layout_digest(one) == digest), None)


def _plans(store: "Store") -> "list[tuple[Entry, Plan]]":
    from pgstow.model import Plan

    found = [(entry, store.get("plan", entry.id, Plan)) for entry in store.list("plan")]
    return [(entry, plan) for entry, plan in found if plan is not None]


def _of_layout(plans: "list[tuple[Entry, Plan]]", layout: "Layout | None") -> "Plan | None":
    return next((plan for _, plan in reversed(plans) if plan.layout == layout), None)


def _cut_by_measurement(store: "Store") -> tuple[str, str]:
    """Without plan and apply: what was measured of another layout than was observed is after."""
    entries = store.list("profile")
    for earlier, entry in reversed(list(pairwise(entries))):
        measured = measured_with(store, entry)
        if measured is not None and measured.layout != profile_of(store, earlier).layout:
            return entry.created_at, earlier.created_at
    return _NEVER, _NEVER
