"""Which of the workspace's profiles a command is about, and the list of them."""

from typing import TYPE_CHECKING

from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.model import Profile
    from pgstow.workspace import Entry
    from pgstow.workspace import Workspace as Store

_SEE = "see pgstow observe --list"


def chosen_entry(store: "Store", text: str | None) -> "Entry":
    """The profile of a number or a name; without one the latest."""
    entries = store.list("profile")
    if not entries:
        raise UserError("the workspace holds no profile", "run pgstow observe first")
    if text is None:
        return entries[-1]
    same = [e for e in entries if text in (e.name, str(e.id))]
    if not same:
        raise UserError(f"the workspace has no profile {text}", _SEE)
    return same[-1]


def chosen_profile(store: "Store", text: str | None = None) -> "Profile":
    """The contents of a profile of that number or name; without one of the latest."""
    return profile_of(store, chosen_entry(store, text))


def profile_of(store: "Store", entry: "Entry") -> "Profile":
    """The contents of a profile that the workspace lists."""
    from pgstow.model import Profile

    found = store.get("profile", entry.id, Profile)
    assert found is not None, entry
    return found


def free_name(store: "Store", name: str | None) -> str | None:
    """A name for a profile that no other has, and that is no number."""
    if name is None:
        return None
    if not name.strip() or name.isdigit() or "," in name or not name.isprintable():
        raise UserError(
            f"--name {name!r}: not a profile's name", "use a word that is no number, as before-move"
        )
    taken = next((e for e in store.list("profile") if e.name == name), None)
    if taken is not None:
        raise UserError(f"profile {taken.id} is called {name} already", "choose another name")
    return name


def merge(store: "Store", texts: "Sequence[str]") -> "Profile":
    """The profiles of some numbers and names as one."""
    from pgstow import observe

    entries = [chosen_entry(store, text.strip()) for text in texts if text.strip()]
    unique = {entry.id: entry for entry in entries}
    return observe.merged([profile_of(store, entry) for entry in unique.values()])


def listed(store: "Store") -> "list[dict[str, object]]":
    """Every profile with what tells it from the others."""
    from pgstow.cli.loop import loop_of

    entries = store.list("profile")
    if not entries:
        return []
    found = loop_of(store)
    roles = {found.before.id: "before"} if found.before is not None else {}
    roles |= {found.after.id: "after"} if found.after is not None else {}
    rows: list[dict[str, object]] = []
    for entry in entries:
        profile = profile_of(store, entry)
        tps = profile.activity.transactions.mean
        active = profile.activity.active_sessions.mean
        rows.append(
            {
                "number": entry.id,
                "name": entry.name,
                "started_at": profile.started_at,
                "seconds": profile.seconds,
                "tps": tps,
                "latency_ms": active / tps * 1000 if tps > 0 else None,
                "relations": len(profile.server.relations),
                "volumes": [volume.name for volume in profile.layout.volumes],
                "system_identifier": profile.server.system_identifier,
                "report": roles.get(entry.id),
            }
        )
    return rows


def table(rows: "Sequence[dict[str, object]]") -> "Table":
    """The list for people; ``report`` says what the page takes a profile for."""
    from rich.table import Table

    from pgstow.cli.names import shown
    from pgstow.units import format_duration

    made = Table(box=None, pad_edge=False)
    for title in ("#", "name", "observed", "for", "TPS", "latency", "volumes", "in the report"):
        right = title in ("#", "for", "TPS", "latency")
        made.add_column(title, justify="right" if right else "left", overflow="fold")
    from rich.text import Text

    for row in rows:
        latency, volumes = row["latency_ms"], row["volumes"]
        assert isinstance(volumes, list)
        cells = (
            str(row["number"]),
            str(row["name"] or ""),
            str(row["started_at"])[:16].replace("T", " "),
            format_duration(float(str(row["seconds"]))),
            f"{row['tps']:,.0f}",
            "" if latency is None else f"{latency:,.2f} ms",
            ", ".join(volumes),
            str(row["report"] or ""),
        )
        made.add_row(*(Text(shown(cell)) for cell in cells))
    return made
